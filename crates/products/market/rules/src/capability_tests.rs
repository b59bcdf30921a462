//! Tests of `capability`.

use model::Json;

use super::*;

fn owner() -> Actor {
    Actor::person("default", &"seller".into())
}
fn draft() -> CapabilityDraft {
    CapabilityDraft {
        title: Some("OCR".into()),
        description: Some("Reads an invoice".into()),
        category: Some("documents".into()),
        capability_type: Some("service".into()),
        pricing_model: Some("per_use".into()),
        ..CapabilityDraft::default()
    }
}
fn terms() -> CapabilityTerms {
    draft().check(&CapabilityRules::default()).unwrap()
}
fn capability(status: Status) -> Capability {
    let tenant: Arc<str> = "default".into();
    let new = Capability::new(&tenant, "cap".into(), "seller".into(), terms(), Time(5));
    Capability { status, ..new }
}
fn wrong(draft: CapabilityDraft) -> Vec<String> {
    draft.check(&CapabilityRules::default()).unwrap_err().iter().map(ToString::to_string).collect()
}
fn kept(after: Result<After, Error>) -> Capability {
    match after.unwrap() {
        After::Kept(capability) => *capability,
        After::Removed => panic!("removed"),
    }
}

#[test]
fn what_is_left_out_has_a_default() {
    let terms = terms();
    assert_eq!(terms.price, Ut::ZERO);
    assert_eq!(terms.delivery_mode, DeliveryMode::Instant);
    assert_eq!(terms.served, Served::Person);
    assert!(terms.available);
    let called = CapabilityDraft { callback_url: Some("https://seller.example.com/hook".into()), ..draft() };
    let url: Arc<str> = "https://seller.example.com/hook".into();
    assert_eq!(called.check(&CapabilityRules::default()).unwrap().served, Served::Callback { url, timeout_s: 30 });
}

#[test]
fn one_answer_names_every_wrong_field() {
    assert_eq!(
        wrong(CapabilityDraft::default()),
        [
            "title is required",
            "description is required",
            "category is required",
            "capability_type is required: one of data, compute, service, tool, account_sharing, knowledge, api, workflow",
            "pricing_model is required: one of per_use, per_query, per_hour, per_day, subscription",
        ]
    );
    let bad = CapabilityDraft {
        title: Some("é".repeat(201)),
        description: Some("  ".into()),
        category: Some("x".repeat(51)),
        capability_type: Some("magic".into()),
        pricing_model: Some("per_query".into()),
        price_ut: Json::parse("-1"),
        tags: vec![" ".into()],
        delivery_mode: Some("later".into()),
        auto_accept_min_ut: Json::parse("0.001"),
        daily_limit: Some(0),
        rate_limit_per_min: Some(-3),
        callback_timeout_sec: Some(301),
        ..CapabilityDraft::default()
    };
    assert_eq!(
        wrong(bad),
        [
            "title must have at most 200 characters",
            "description is required",
            "category must have at most 50 characters",
            "capability_type must be one of data, compute, service, tool, account_sharing, knowledge, api, workflow",
            "delivery_mode must be one of instant, async",
            "price_ut must not be negative",
            "auto_accept_min_ut must have at most 2 digits after the point",
            "daily_limit must be between 1 and 4294967295",
            "rate_limit_per_min must be between 1 and 4294967295",
            "callback_timeout_sec must be between 1 and 300",
            "tags must each have 1 to 50 characters",
            "callback_url is required when pricing_model is per_query",
        ]
    );
    assert_eq!(wrong(CapabilityDraft { tags: vec!["t".into(); 21], ..draft() }), ["tags must be at most 20"]);
    let both = CapabilityDraft {
        served: Some(Served::Agent("ocr".into())),
        callback_url: Some("https://e.example.com".into()),
        ..draft()
    };
    assert_eq!(wrong(both), ["callback_url is of no use: something else serves this capability"]);
}

#[test]
fn a_callback_is_public_and_encrypted() {
    let check = |url: &str, rules: &CapabilityRules| {
        CapabilityDraft { callback_url: Some(url.into()), ..draft() }.check(rules).is_ok()
    };
    let strict = CapabilityRules::default();
    for good in ["https://seller.example.com/x?y=1", "https://93.184.216.34/", "https://[2606:2800::1]:8443/"] {
        assert!(check(good, &strict), "{good}");
    }
    for bad in [
        "",
        "seller.example.com",
        "http://seller.example.com/",
        "ftp://seller.example.com/",
        "https://user:pw@seller.example.com/",
        "https://seller.example.com/#x",
        "https://localhost/",
        "https://a.localhost./",
        "https://printer/",
        "https://x.internal/",
        "https://127.0.0.1/",
        "https://0x7f.1/",
        "https://10.1.2.3/",
        "https://169.254.169.254/",
        "https://100.64.0.1/",
        "https://198.18.0.1/",
        "https://0.0.0.0/",
        "https://224.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[fe80::1]/",
        "https://[fd00::1]/",
        "https://[2001:db8::1]/",
    ] {
        assert!(!check(bad, &strict), "{bad}");
    }
    assert!(!check(&format!("https://e.example.com/{}", "x".repeat(2_000)), &strict));
    let trying = CapabilityRules { private_callbacks: true, ..strict };
    assert!(check("http://127.0.0.1:9000/hook", &trying) && !check("ftp://127.0.0.1/", &trying));
    let said = Served::Callback { url: "http://127.0.0.1/".into(), timeout_s: 5 };
    assert_eq!(wrong(CapabilityDraft { served: Some(said), ..draft() }), ["callback_url must begin with https://"]);
}

#[test]
fn a_price_per_hour_needs_hours_and_others_ignore_them() {
    let per = |pricing_model, price| CapabilityTerms { pricing_model, price: Ut::from_hundredths(price), ..terms() };
    for model in PricingModel::ALL.iter().copied().filter(|model| *model != PricingModel::PerHour) {
        assert_eq!(per(model, 250).price_for(Some(3)).unwrap().hundredths(), 250, "{model:?}");
        assert_eq!(per(model, 250).price_for(None).unwrap().hundredths(), 250);
    }
    let hourly = per(PricingModel::PerHour, 250);
    assert_eq!(hourly.price_for(Some(3)).unwrap().hundredths(), 750);
    assert_eq!(hourly.price_for(None).unwrap_err().to_string(), "booked_hours is required for a price per hour");
    for bad in [0, -1, MAX_HOURS + 1] {
        let said = hourly.price_for(Some(bad)).unwrap_err().to_string();
        assert_eq!(said, "booked_hours must be between 1 and 8784");
    }
    let dear = per(PricingModel::PerHour, Ut::MOST.hundredths()).price_for(Some(2)).unwrap_err();
    assert_eq!(dear.to_string(), "booked_hours make the price too large");
}

#[test]
fn a_seller_may_agree_beforehand() {
    let ut = Ut::from_hundredths;
    assert!(!terms().accepts_by_itself(ut(1_000_000)));
    let from_ten = CapabilityTerms { auto_accept_min: Some(ut(1_000)), ..terms() };
    assert!(from_ten.accepts_by_itself(ut(1_000)) && !from_ten.accepts_by_itself(ut(999)));
    assert!(CapabilityTerms { served: Served::Worker, ..terms() }.accepts_by_itself(ut(0)));
}

/// The full table of actors, actions and states, with the resulting state.
#[test]
fn the_whole_life_of_a_capability() {
    let other = Actor::person("default", &"other".into());
    let namesake = Actor::person("elsewhere", &"seller".into());
    let mut table = String::new();
    let edited = CapabilityTerms { title: "OCR 2".into(), ..terms() };
    for (name, rules) in [
        ("reviewed", CapabilityRules { review: true, ..CapabilityRules::default() }),
        ("not reviewed", CapabilityRules::default()),
    ] {
        table += &format!("-- {name}\n");
        for action in [
            CapabilityAction::Edit(Box::new(edited.clone())),
            CapabilityAction::Submit,
            CapabilityAction::Approve,
            CapabilityAction::Refuse { reason: "no".into() },
            CapabilityAction::Offline,
            CapabilityAction::Online,
            CapabilityAction::Remove,
        ] {
            for (who, actor) in
                [("owner", &owner()), ("platform", &Actor::Platform), ("other", &other), ("namesake", &namesake)]
            {
                let cells: Vec<String> = Status::ALL
                    .iter()
                    .map(|status| match capability(*status).step(actor, action.clone(), Time(9), &rules) {
                        Ok(After::Kept(after)) => after.status.name().to_owned(),
                        Ok(After::Removed) => "gone".to_owned(),
                        Err(Error::WrongState { .. }) => "-".to_owned(),
                        Err(Error::NotOwner(_)) => "not owner".to_owned(),
                        Err(Error::NotPlatform(_)) => "not platform".to_owned(),
                        Err(Error::Invalid(error)) => error.to_string(),
                    })
                    .collect();
                table += &format!("{} by {who}: {}\n", action.verb().name(), cells.join(" | "));
            }
        }
    }
    insta::assert_snapshot!("life_of_a_capability", table);
}

#[test]
fn what_the_platform_took_down_only_the_platform_brings_back() {
    let review = CapabilityRules { review: true, ..CapabilityRules::default() };
    let barred = kept(capability(Status::Active).step(&Actor::Platform, CapabilityAction::Offline, Time(9), &review));
    assert!(barred.barred);
    let refused = barred.step(&owner(), CapabilityAction::Online, Time(9), &review).unwrap_err();
    assert_eq!(refused, Error::NotPlatform(Verb::Online));
    // An edit on a market without reviews does not do it either.
    let edited = CapabilityAction::Edit(Box::new(CapabilityTerms { title: "other".into(), ..terms() }));
    let draft = kept(barred.step(&owner(), edited, Time(9), &review));
    let submitted = kept(draft.step(&owner(), CapabilityAction::Submit, Time(9), &CapabilityRules::default()));
    assert_eq!(submitted.status, Status::PendingReview);
    let back = kept(submitted.step(&Actor::Platform, CapabilityAction::Approve, Time(9), &review));
    assert!(back.is_on_sale() && !back.barred);
    let own = kept(capability(Status::Active).step(&owner(), CapabilityAction::Offline, Time(9), &review));
    let barred = kept(own.step(&Actor::Platform, CapabilityAction::Offline, Time(9), &review));
    assert!(!own.barred && barred.barred);
}

#[test]
fn price_and_limits_move_without_a_review_and_promises_do_not() {
    let review = CapabilityRules { review: true, ..CapabilityRules::default() };
    let edit = |terms: CapabilityTerms| {
        kept(capability(Status::Active).step(&owner(), CapabilityAction::Edit(Box::new(terms)), Time(9), &review))
    };
    let dearer =
        edit(CapabilityTerms { price: Ut::from_hundredths(5), available: false, daily_limit: Some(1), ..terms() });
    assert_eq!(dearer.status, Status::Active);
    assert!(!dearer.is_on_sale());
    assert_eq!(edit(CapabilityTerms { description: "Reads your mail".into(), ..terms() }).status, Status::Draft);
    assert_eq!(edit(CapabilityTerms { served: Served::Worker, ..terms() }).status, Status::Draft);
}

#[test]
fn each_change_is_a_version_and_a_reason_goes_with_its_refusal() {
    let before = capability(Status::PendingReview);
    let refuse = |reason: &str| CapabilityAction::Refuse { reason: reason.into() };
    let refused = kept(before.step(&Actor::Platform, refuse("too vague"), Time(3), &CapabilityRules::default()));
    // The clock went back; the time of the change did not go back.
    assert_eq!((refused.version, refused.updated_at, refused.reason.as_deref()), (2, Time(6), Some("too vague")));
    let again = kept(refused.step(&owner(), CapabilityAction::Submit, Time(9), &CapabilityRules::default()));
    assert_eq!((again.version, again.reason), (3, None));
    let long =
        before.step(&Actor::Platform, refuse(&"x".repeat(501)), Time(3), &CapabilityRules::default()).unwrap_err();
    assert_eq!(long.to_string(), "reason must have at most 500 characters");
}
