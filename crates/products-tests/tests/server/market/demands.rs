//! Demands and the offers that match them, over the socket.

use super::*;

fn wanted() -> Value {
    json!({
        "title": "OCR of invoices", "description": "Read 200 scanned invoices and give me their totals",
        "category": "documents", "tags": ["ocr"], "budget_ut": "100", "acceptance_criteria": "Every total is right",
    })
}

#[tokio::test]
async fn a_demand_is_made_judged_matched_and_closed() {
    let house = house().await;
    let (fitting, dear) = (house.sold("0", json!({})).await, house.sold("150", json!({})).await);
    let made = house.done(BUYER, "/demands", wanted()).await;
    let id = made["id"].as_str().unwrap().to_owned();
    for (name, value) in [
        ("user_id", json!(BUYER)),
        ("status", json!("open")),
        ("budget_ut", json!("100")),
        ("capability_type", json!(null)),
        ("transaction_id", json!(null)),
        ("tags", json!(["ocr"])),
    ] {
        assert_eq!(made[name], value, "{name}");
    }
    assert_eq!(house.get(SELLER, &format!("/demands/{id}")).await.1["data"], made);
    for (user, query, total) in [
        (BUYER, "", 1),
        (BUYER, "?status=cancelled", 0),
        (SELLER, "", 0),
        (SELLER, "?scope=open", 1),
        (SELLER, "?scope=open&category=documents", 1),
        (SELLER, "?scope=open&category=music", 0),
        (BUYER, "?page=2&page_size=1", 1),
    ] {
        assert_eq!(house.get(user, &format!("/demands{query}")).await.1["data"]["total"], total, "{user}{query}");
    }

    let clarity = house.done(BUYER, &format!("/demands/{id}/evaluate-clarity"), json!({})).await;
    assert!(clarity["score"].as_u64().unwrap() > 40, "{clarity}");
    let points: u64 = clarity["reasons"].as_array().unwrap().iter().map(|one| one["points"].as_u64().unwrap()).sum();
    assert_eq!(clarity["score"], points, "the parts come to the whole");
    assert!(!clarity["suggestions"].as_array().unwrap().is_empty());

    let request = json!({ "demand_id": id, "top_k": 5 });
    let found = house.done(BUYER, "/capabilities/match", request.clone()).await;
    let ids: Vec<&Value> = found["items"].as_array().unwrap().iter().map(|one| &one["capability"]["id"]).collect();
    assert_eq!((ids, &found["looked_at"]), (vec![&json!(fitting), &json!(dear)], &json!(2)));
    assert_eq!(house.done(BUYER, "/capabilities/match", request).await, found, "the same again");
    let alignment = &found["items"][1]["alignment"];
    assert_eq!(alignment["within_budget"], false);
    let asked = json!({ "capability_id": dear });
    assert_eq!(house.done(BUYER, &format!("/demands/{id}/evaluate-alignment"), asked).await, *alignment);
    let asked = json!({ "capability_id": dear, "demand_id": id });
    assert_eq!(house.done(SELLER, "/demands/evaluate-alignment", asked).await, *alignment);
    let wanting = house.done(SELLER, &format!("/capabilities/{fitting}/discover-demands?top_k=1"), json!({})).await;
    assert_eq!((&wanting["items"][0]["demand"], &wanting["looked_at"]), (&made, &json!(1)));
    assert_eq!(wanting["items"][0]["alignment"]["score"], found["items"][0]["alignment"]["score"]);

    // A demand that led to a purchase is closed, and only its owner sees it.
    let order = json!({ "capability_id": fitting, "demand_id": id });
    let bought = house.done(BUYER, "/transactions", order).await;
    let matched = house.get(BUYER, &format!("/demands/{id}")).await.1["data"].take();
    assert_eq!((&matched["status"], &matched["transaction_id"]), (&json!("matched"), &bought["id"]));
    assert_eq!(refusal(&house.get(SELLER, &format!("/demands/{id}")).await), (404, 1004));
    let late = house.post(BUYER, &format!("/demands/{id}/cancel"), json!({})).await;
    assert_eq!((refusal(&late), &late.1["data"]["internal_status"]), ((409, 4501), &json!("matched")));
    house.done(BUYER, &format!("/transactions/{}/cancel", bought["id"].as_str().unwrap()), json!({})).await;
    let cancel = json!({ "idempotency_key": "c-1" });
    for _ in 0..2 {
        let gone = house.done(BUYER, &format!("/demands/{id}/cancel"), cancel.clone()).await;
        assert_eq!(gone["status"], "cancelled");
    }
}

#[tokio::test]
async fn what_cannot_be_wanted_is_refused_with_its_reason() {
    let house = house().await;
    let capability = house.sold("0", json!({})).await;
    let id = house.done(BUYER, "/demands", wanted()).await["id"].as_str().unwrap().to_owned();
    let with = |name: &str, value: Value| {
        let mut body = wanted();
        body[name] = value;
        body
    };
    let at = |verb: &str| format!("/demands/{id}/{verb}");
    for (expected, user, path, body) in [
        ((400, 1001), BUYER, "/demands".to_owned(), json!({ "title": "x" })),
        ((400, 1001), BUYER, "/demands".to_owned(), with("title", json!(7))),
        ((422, 1008), BUYER, "/demands".to_owned(), with("budget_ut", json!("-1"))),
        ((422, 1008), BUYER, "/demands".to_owned(), with("capability_type", json!("thing"))),
        ((422, 1008), BUYER, "/demands".to_owned(), with("expires_in_days", json!(366))),
        ((403, 1003), SELLER, at("cancel"), json!({})),
        ((403, 1003), SELLER, at("evaluate-clarity"), json!({})),
        ((404, 1004), BUYER, at("evaluate-alignment"), json!({ "capability_id": "cap_none" })),
        ((422, 1008), BUYER, at("evaluate-alignment"), json!({ "capability_id": "a\u{0}" })),
        ((400, 1001), BUYER, at("evaluate-alignment"), json!({})),
        ((403, 1003), SELLER, "/capabilities/match".to_owned(), json!({ "demand_id": id })),
        ((404, 1004), BUYER, "/capabilities/match".to_owned(), json!({ "demand_id": "dem_none" })),
        ((400, 1001), BUYER, "/capabilities/match".to_owned(), json!({ "demand_id": id, "top_k": 51 })),
        ((403, 1003), BUYER, format!("/capabilities/{capability}/discover-demands"), json!({})),
        ((400, 1001), SELLER, format!("/capabilities/{capability}/discover-demands?top_k=0"), json!({})),
        ((404, 1004), BUYER, "/demands/dem_none/cancel".to_owned(), json!({})),
    ] {
        let answer = house.post(user, &path, body.clone()).await;
        assert_eq!(refusal(&answer), expected, "{user} {path} {body}: {answer:?}");
    }
    assert_eq!(refusal(&told(house.at(Method::GET, "/demands")).await), (401, 1002));
}

#[tokio::test]
async fn a_price_is_held_against_others() {
    let house = house().await;
    let check = async |query: &str| told(house.at(Method::GET, &format!("/pricing/anomaly-check?{query}"))).await;
    assert_eq!(check("price_ut=5").await.1["data"]["level"], "unknown");
    let mut last = String::new();
    for price in ["80", "90", "100", "110", "1000"] {
        last = house.sold(price, json!({})).await;
    }
    for (query, level) in [
        ("price_ut=95", "normal"),
        ("price_ut=0&category=documents", "low"),
        ("price_ut=500.50&category=documents&pricing_model=per_use", "high"),
        ("price_ut=500&category=music", "unknown"),
        (&*format!("capability_id={last}"), "high"),
    ] {
        let answer = check(query).await.1["data"].take();
        assert_eq!(answer["level"], level, "{query}: {answer}");
        assert_eq!(answer["is_anomalous"], ["low", "high"].contains(&level), "{query}");
    }
    for bad in ["", "price_ut=x", "price_ut=-1", "price_ut=1&capability_id=x", "price_ut=1&pricing_model=x"] {
        assert_eq!(refusal(&check(bad).await), (400, 1001), "{bad}");
    }
    assert_eq!(refusal(&check("capability_id=cap_none").await), (404, 1004));
}
