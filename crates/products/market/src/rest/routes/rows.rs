//! The rows of the route table: path, access, schemas of body and response, and error codes.

use std::sync::LazyLock;

use http::Method;

use super::{
    KeyedBody, MarketFuture, MarketReply, MarketRequest, MarketRoute, PAGES, ResponseSchema, RouteAccess, act,
    any_object, decoded, freely, get, whole, written,
};
use crate::rest::error::MarketCode;
use crate::rest::{
    capabilities, demands, externals, files, login, openapi, profile, purchases, quote, runtime, unimplemented, wallet,
};
use web::openapi::schema_of;

const STEP: &[MarketCode] = &[MarketCode::DENIED, MarketCode::STATE];
/// Error codes of a change.
const CHANGE: &[MarketCode] = &[MarketCode::DENIED, MarketCode::STATE, MarketCode::INVALID];

pub(in crate::rest) static ROUTES: LazyLock<Vec<MarketRoute>> = LazyLock::new(|| {
    let mut all = Vec::new();
    let mut room = |tag: &'static str, routes: Vec<MarketRoute>| {
        all.extend(routes.into_iter().map(|route| MarketRoute { tag, ..route }));
    };
    let post = Method::POST;
    room(
        "transactions",
        vec![
            act(post.clone(), "/transactions", "Order a capability", purchases::create).needs_body().may(&[
                MarketCode::DENIED,
                MarketCode::MISSING,
                MarketCode::INVALID,
                MarketCode::SHORT,
                MarketCode::STATE,
            ]),
            get("/transactions", "Your purchases and sales, the newest first", purchases::list)
                .query(&purchases::QUERY)
                .query(&PAGES),
            get("/transactions/{id}", "One of your purchases or sales", purchases::one).may(&[MarketCode::DENIED]),
            act(post.clone(), "/transactions/{id}/approve", "Say yes to what your agent ordered", purchases::approve)
                .may(STEP)
                .may(&[MarketCode::INVALID, MarketCode::SHORT]),
            act(post.clone(), "/transactions/{id}/freeze", "Set the price aside (buyer)", purchases::freeze)
                .may(STEP)
                .may(&[MarketCode::SHORT]),
            act(post.clone(), "/transactions/{id}/accept", "Take the order (seller)", purchases::accept).may(STEP),
            act(post.clone(), "/transactions/{id}/reject", "Turn the order down (seller)", purchases::reject)
                .may(STEP)
                .may(&[MarketCode::INVALID]),
            act(post.clone(), "/transactions/{id}/deliver", "Deliver what was ordered (seller)", purchases::deliver)
                .needs_body()
                .may(STEP)
                .may(&[MarketCode::INVALID]),
            act(
                post.clone(),
                "/transactions/{id}/confirm",
                "Confirm the delivery and settle (buyer)",
                purchases::confirm,
            )
            .may(STEP),
            act(post.clone(), "/transactions/{id}/cancel", "Take the order back (buyer)", purchases::cancel).may(STEP),
        ],
    );
    room(
        "capabilities",
        vec![
            act(post.clone(), "/capabilities", "A new capability, as a draft", capabilities::create)
                .needs_body()
                .may(&[MarketCode::INVALID]),
            get("/capabilities", "What is on the market, the newest first", capabilities::list)
                .who(RouteAccess::Anyone)
                .query(&capabilities::FILTER)
                .query(&PAGES),
            act(
                post.clone(),
                "/capabilities/batch",
                "Up to 50 drafts; what is refused keeps nothing else back",
                profile::batch,
            )
            .needs_body(),
            get("/categories", "The categories on the market", profile::categories).who(RouteAccess::Anyone),
            get("/pricing/suggestion", "What others ask for the like", profile::suggestion)
                .who(RouteAccess::Anyone)
                .query(&profile::SUGGESTION),
            get("/pricing/anomaly-check", "Whether a price is out of line with others", profile::anomaly)
                .who(RouteAccess::Anyone)
                .query(&profile::ANOMALY)
                .may(&[MarketCode::MISSING]),
            get("/capabilities/mine", "Your capabilities, the newest first", capabilities::mine)
                .query(&capabilities::MINE)
                .query(&PAGES),
            get("/capabilities/{id}", "A capability on the market, or one of your own", capabilities::one)
                .who(RouteAccess::Either),
            act(Method::PUT, "/capabilities/{id}", "Other terms: what is left out stays as it is", capabilities::edit)
                .needs_body()
                .may(CHANGE),
            act(Method::DELETE, "/capabilities/{id}", "Remove a capability", capabilities::remove).may(CHANGE),
            act(post.clone(), "/capabilities/{id}/submit-review", "Bring a draft to market", capabilities::submit)
                .may(CHANGE),
            act(post.clone(), "/capabilities/{id}/online", "Sell it again", capabilities::online).may(CHANGE),
            act(post.clone(), "/capabilities/{id}/offline", "Sell it no more, for now", capabilities::offline)
                .may(CHANGE),
            act(
                post,
                "/capabilities/{id}/invoke",
                "Buy, have it served and settle in one call (agents, per_query)",
                capabilities::invoke,
            )
            .may(&[
                MarketCode::DENIED,
                MarketCode::INVALID,
                MarketCode::SHORT,
                MarketCode::STATE,
                MarketCode::NOT_SERVED,
            ]),
        ],
    );
    room("demands", demands());
    room("external agents", externals());
    room("agent runtime", runtime());
    room(
        "capability runtime",
        vec![
            act(
                Method::POST,
                "/capability-runtime/quote",
                "What a purchase would cost, and a person's yes to it beforehand",
                quote::ask,
            )
            .needs_body()
            .only_asks()
            .may(&[MarketCode::DENIED, MarketCode::MISSING, MarketCode::INVALID]),
        ],
    );
    room(
        "wallet",
        vec![
            get("/wallet", "What you have", wallet::wallet),
            get("/wallet/rates", "What a UT is in money", wallet::rates).who(RouteAccess::Anyone),
            get("/exchange-rates/latest", "What a UT is in money", wallet::rates).who(RouteAccess::Anyone),
            get("/wallet/exchange-rates/latest", "What a UT is in money", wallet::rates).who(RouteAccess::Anyone),
            get("/wallet/stats", "What came and went so far", wallet::stats),
            get("/wallet/transactions", "Your statement, the newest line first", wallet::statement)
                .query(&wallet::STATEMENT)
                .query(&PAGES),
        ],
    );
    room(
        "income",
        vec![
            get("/income/overview", "What you have earned, by capability", profile::overview),
            get("/income/records", "Your settled sales, the newest first", profile::records).query(&PAGES),
            get("/capabilities/{id}/income", "What you have earned with one", profile::of_one),
        ],
    );
    room("auth", auth());
    room("deliverables", deliverables());
    room(
        "interop",
        vec![
            get("/public/community-stats", "How much goes on here", profile::community).who(RouteAccess::Anyone),
            whole("/agents/{id}/card", "A seller's agent card", ResponseSchema::Json(any_object), capabilities::card)
                .may(&[MarketCode::MISSING]),
            whole(
                "/agents/{id}/.well-known/agent.json",
                "A seller's agent card",
                ResponseSchema::Json(any_object),
                capabilities::card,
            )
            .may(&[MarketCode::MISSING]),
            get("/interop/debug", "Where everything is, and which headers it takes", unimplemented::debug)
                .who(RouteAccess::Anyone),
            whole("/openapi.json", "This document", ResponseSchema::Json(any_object), openapi::show),
            whole("/public/openapi.json", "This document", ResponseSchema::Json(any_object), openapi::show),
        ],
    );
    let cash = "Cash goes in and out elsewhere: always refused with 3002";
    type Never = for<'a> fn(&'a MarketRequest<'a>, KeyedBody) -> MarketFuture<'a, ()>;
    let refused = |verb: &Method, path, words, go: Never, code: MarketCode, who| {
        let mut route = act(verb.clone(), path, words, go).who(who).may(&[code]);
        route.gives = ResponseSchema::Nothing;
        if *verb == Method::GET {
            route.takes = None;
        }
        route
    };
    let cash_routes = [
        (&Method::POST, "/wallet/recharge"),
        (&Method::GET, "/wallet/recharge/{id}/status"),
        (&Method::GET, "/wallet/withdraw-config"),
        (&Method::POST, "/wallet/withdraw"),
        (&Method::POST, "/wallet/withdraw-cash"),
        (&Method::POST, "/wallet/withdraw/{id}/cancel"),
        (&Method::GET, "/wallet/withdrawals"),
        (&Method::GET, "/wallet/payment-accounts"),
        (&Method::POST, "/wallet/payment-accounts"),
    ];
    room(
        "cash",
        cash_routes
            .iter()
            .map(|(verb, path)| refused(verb, path, cash, unimplemented::cash, MarketCode::WALLET, RouteAccess::Caller))
            .collect(),
    );
    let hall = "The task hall is not part of this server: always refused with 4001";
    let halls = ["/tasks", "/tasks/{path*}", "/orders", "/orders/{path*}"];
    let halls = halls.into_iter().chain(["/disputes", "/disputes/{path*}"]);
    let verbs = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
    let halls = halls.flat_map(|path| verbs.iter().map(move |verb| (verb, path)));
    room(
        "task hall",
        halls
            .map(|(verb, path)| refused(verb, path, hall, unimplemented::hall, MarketCode::HALL, RouteAccess::Anyone))
            .collect(),
    );
    all
});

/// Routes of demands and matching.
fn demands() -> Vec<MarketRoute> {
    let post = Method::POST;
    vec![
        act(post.clone(), "/demands", "Say what you want done", demands::create)
            .needs_body()
            .may(&[MarketCode::INVALID, MarketCode::STATE]),
        get("/demands", "Your demands, or everybody's that are open; the newest first", demands::list)
            .query(&demands::LIST)
            .query(&PAGES),
        get("/demands/{id}", "An open demand, or one of your own", demands::one),
        act(post.clone(), "/demands/{id}/cancel", "Take a demand back", demands::cancel).may(STEP),
        act(post.clone(), "/demands/{id}/evaluate-clarity", "How clearly your demand is said", demands::clarity)
            .only_asks()
            .may(&[MarketCode::DENIED]),
        act(
            post.clone(),
            "/demands/{id}/evaluate-alignment",
            "How well a capability fits a demand; one of them is yours",
            demands::alignment_with,
        )
        .needs_body()
        .only_asks()
        .may(&[MarketCode::DENIED, MarketCode::INVALID]),
        act(
            post.clone(),
            "/demands/evaluate-alignment",
            "How well a capability fits a demand; one of them is yours",
            demands::alignment_between,
        )
        .needs_body()
        .only_asks()
        .may(&[MarketCode::DENIED, MarketCode::MISSING, MarketCode::INVALID]),
        act(
            post.clone(),
            "/capabilities/match",
            "What is on the market that fits a demand of yours, the best first",
            demands::offers,
        )
        .needs_body()
        .only_asks()
        .may(&[MarketCode::DENIED, MarketCode::MISSING, MarketCode::INVALID, MarketCode::STATE]),
        act(
            post,
            "/capabilities/{id}/discover-demands",
            "Open demands that a capability of yours fits, the best first",
            demands::wanting,
        )
        .query(&demands::TOP_K)
        .only_asks()
        .may(&[MarketCode::DENIED]),
    ]
}

/// Routes of external agents and their webhooks.
fn externals() -> Vec<MarketRoute> {
    const CHANGE: &[MarketCode] = &[MarketCode::STATE, MarketCode::INVALID];
    vec![
        act(Method::POST, "/external-agents", "An agent of yours that lives elsewhere", externals::create)
            .query(&externals::NEW)
            .may(CHANGE),
        get("/external-agents", "Your external agents, the newest first", externals::list).query(&PAGES),
        get("/external-agents/{id}", "One of your external agents, and how its webhook is doing", externals::one),
        act(
            Method::DELETE,
            "/external-agents/{id}",
            "Remove one; what it has not heard yet it will not",
            externals::remove,
        )
        .may(CHANGE),
        act(
            Method::PATCH,
            "/external-agents/{id}/webhook",
            "Where it is told of what happens, of which events, and what signs that",
            externals::set_webhook,
        )
        .needs_body()
        .may(CHANGE),
        act(Method::DELETE, "/external-agents/{id}/webhook", "Tell it no more", externals::remove_webhook).may(CHANGE),
        // Needs no idempotency key: a repeat finds no lost notices.
        act(
            Method::POST,
            "/external-agents/{id}/webhook/redeliver",
            "Tell it again what it was told in vain",
            externals::redeliver,
        )
        .only_asks()
        .may(CHANGE),
    ]
}

/// Routes of sellers' programs.
fn runtime() -> Vec<MarketRoute> {
    let connect = whole(
        "/agent-runtime/connect",
        "Your sales as work for a program of yours: those that wait, then those that come",
        ResponseSchema::Events(schema_of::<runtime::Dispatch>),
        runtime::connect,
    );
    let act = act(Method::POST, "/agent-runtime/act", "What your program does with a job", runtime::act);
    vec![connect.who(RouteAccess::Caller), act.needs_body().may(STEP).may(&[MarketCode::MISSING, MarketCode::INVALID])]
}

/// Routes of files.
fn deliverables() -> Vec<MarketRoute> {
    let upload = freely(
        Method::POST,
        files::UPLOAD,
        "Bring a file for one of your sales; the same again is the same file",
        ResponseSchema::Data(schema_of::<files::Kept>),
        files::upload,
    );
    let grant = act(
        Method::POST,
        "/deliverables/{access_id}/grant-access",
        "A token to fetch a file with, a few times and for a while (its parties)",
        files::grant,
    );
    let download = freely(
        Method::GET,
        "/deliverables/{access_token}/download",
        "The file of a token, or where it is",
        ResponseSchema::Bytes(schema_of::<files::Link>),
        files::download,
    );
    vec![
        upload
            .takes_bytes()
            .only_asks()
            .query(&files::UPLOADED)
            .may(STEP)
            .may(&[MarketCode::MISSING, MarketCode::INVALID]),
        grant.only_asks().may(&[MarketCode::INVALID]),
        download.who(RouteAccess::Anyone).query(&files::DOWNLOAD).may(&[
            MarketCode::DENIED,
            MarketCode::GONE,
            MarketCode::STATE,
        ]),
    ]
}

/// Routes of logins and devices.
fn auth() -> Vec<MarketRoute> {
    let post = Method::POST;
    let mut approve = act(
        post.clone(),
        "/auth/device-auth/approve",
        "What a person says of a device: JSON, or the form of the page",
        login::approve_data,
    )
    .needs_body()
    .who(RouteAccess::Anyone)
    .may(&[
        MarketCode::PASSWORD,
        MarketCode::MISSING,
        MarketCode::INVALID,
        MarketCode::STATE,
        MarketCode::EXISTS,
        MarketCode::TOO_OFTEN,
    ]);
    if let Some(takes) = &mut approve.takes {
        takes.form = true;
    }
    if let ResponseSchema::Data(schema) = approve.gives {
        approve.gives = ResponseSchema::DataOrHtml(schema);
    }
    approve.go = Box::new(|ask, text| {
        let body = decoded(text);
        Box::pin(async move {
            if ask.by_form {
                return Ok(MarketReply::Whole(login::approve_page(ask, body).await));
            }
            written(&login::approve_data(ask, body?).await?)
        })
    });
    vec![
        act(post.clone(), "/auth/login", "Log in with account and password", login::login)
            .needs_body()
            .who(RouteAccess::Anyone)
            .may(&[MarketCode::PASSWORD, MarketCode::TOO_OFTEN, MarketCode::INVALID]),
        act(post.clone(), "/auth/refresh", "A new access token for a refresh token", login::refresh)
            .needs_body()
            .who(RouteAccess::Anyone)
            .may(&[MarketCode::NOBODY, MarketCode::TOO_OFTEN, MarketCode::INVALID]),
        act(post.clone(), "/auth/logout", "End a login, or all of a user's", login::logout)
            .who(RouteAccess::Anyone)
            .may(&[MarketCode::NOBODY, MarketCode::TOO_OFTEN, MarketCode::INVALID, MarketCode::STATE]),
        act(
            post.clone(),
            "/auth/change-password",
            "Change the password; every login ends, and another begins",
            login::change_password,
        )
        .needs_body()
        .may(&[MarketCode::PASSWORD, MarketCode::TOO_OFTEN, MarketCode::INVALID, MarketCode::STATE]),
        act(post.clone(), "/auth/device-auth", "A device asks for a key", login::device)
            .who(RouteAccess::Anyone)
            .may(&[MarketCode::TOO_OFTEN, MarketCode::INVALID]),
        act(post, "/auth/device-auth/poll", "The device asks what has become of it", login::poll)
            .needs_body()
            .who(RouteAccess::Anyone)
            .may(&[MarketCode::TOO_OFTEN, MarketCode::MISSING, MarketCode::INVALID]),
        approve,
        whole("/auth/device", "The page where a person lets a device in", ResponseSchema::Html, login::page),
    ]
}
