//! `docs/errors.md` is printed from the tables of errors. After a table changed, print it again:
//! `RIALTO_REGENERATE=1 cargo test -p rialto-products-tests --test errors_page`.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;

use dialects::wire::{ErrorLine, Operation};
use dialects::{JsonWire, a2a_v0, a2a_v0_1, a2a_v0_3, a2a_v1, wire};
use market::uumit::errors::Line;
use model::{Fault, Kind};

/// When it is told, in a few words.
fn meaning(kind: Kind) -> &'static str {
    match kind {
        Kind::Parse => "the body is not JSON, or not text",
        Kind::InvalidRequest => "JSON, but no request",
        Kind::MethodNotFound => "no such method or route",
        Kind::VerbNotAllowed => "the route takes another verb",
        Kind::InvalidParams => "a member is missing, wrong or too long",
        Kind::TooLarge => "the body is larger than the limit",
        Kind::MediaType => "the request's `Content-Type` is not JSON",
        Kind::TaskNotFound => "no such task, or not yours to see",
        Kind::TaskNotCancelable => "the task has settled",
        Kind::TaskSettled => "a message or a subscription to a settled task",
        Kind::PushNotSupported => "the agent sends no push notifications",
        Kind::Unsupported => "the agent lacks the capability",
        Kind::ContentType => "a part's media type is not one the agent reads",
        Kind::InvalidAgentResponse => "the agent behind answered nonsense",
        Kind::ExtendedCardNotConfigured => "an extended card is promised and missing",
        Kind::ExtensionRequired => "the agent requires an extension the caller did not name",
        Kind::VersionNotSupported => "the stated `A2A-Version` is not served, or not with this method",
        Kind::Unauthenticated => "no credentials, or wrong ones",
        Kind::Forbidden => "the caller may not do this",
        Kind::RateLimited => "too many requests",
        Kind::InsufficientBalance => "the agent has a price, and the caller's account has too little",
        Kind::BudgetExceeded => "the agent has a price, and the budget of the key or the context is spent",
        Kind::KeyReused => "the `Idempotency-Key` came before with another body",
        Kind::Unavailable => "no new work now: full, read-only or shutting down",
        Kind::Internal => "our fault",
    }
}

fn word(kind: Kind) -> String {
    let mut words = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

fn operation_word(operation: Operation) -> String {
    format!("{operation:?}")
}

fn table(page: &mut String, wire: &dyn JsonWire, http: bool) {
    let columns = if http { "| JSON-RPC | HTTP | name |" } else { "| JSON-RPC | HTTP |" };
    let rule = if http { "|---|---|---|" } else { "|---|---|" };
    writeln!(page, "| fault | when {columns}\n|---|---{rule}").unwrap();
    for kind in Kind::ALL {
        let usual = wire.error_line(kind, Operation::Unknown);
        row(page, &word(kind), meaning(kind), &usual, http);
        // Operations that have a line of their own.
        let mut others: Vec<(ErrorLine, Vec<String>)> = Vec::new();
        for operation in Operation::ALL {
            let line = wire.error_line(kind, operation);
            if line == usual {
                continue;
            }
            match others.iter_mut().find(|(other, _)| *other == line) {
                Some((_, operations)) => operations.push(operation_word(operation)),
                None => others.push((line, vec![operation_word(operation)])),
            }
        }
        for (line, operations) in others {
            row(page, &format!("{} ({})", word(kind), operations.join(", ")), "", &line, http);
        }
    }
}

fn row(page: &mut String, fault: &str, when: &str, line: &ErrorLine, http: bool) {
    let ErrorLine { rpc, http: status, name } = line;
    if http {
        let name = name.map_or("– (bare status)".to_owned(), |name| format!("`{name}`"));
        writeln!(page, "| {fault} | {when} | {rpc} | {status} | {name} |").unwrap();
    } else {
        writeln!(page, "| {fault} | {when} | {rpc} | {status} |").unwrap();
    }
}

/// A product whose table is not one of our kinds of faults, but its own.
fn products(page: &mut String) {
    let text = "Only where a market is served. Code and message are the product's; `data.detail` says what is wrong, `data.error_type` tells cases of one code apart\n\
        (`invalid_state` with `internal_status`, `idempotency_conflict`, `insufficient_balance`, `budget_exceeded`, `permission_denied`, `not_found`, `rate_limited`, …). HTTP 200, but for\n\
        429 and 503 with `Retry-After`, and 413. The code of `invalid_state` can be set to another.";
    writeln!(page, "## UUMit\n\n{text}\n\n| code | message | when |\n|---|---|---|").unwrap();
    for line in Line::ALL {
        writeln!(page, "| {} | {} | {} |", line.code(), line.message(), line.when()).unwrap();
    }
    page.push('\n');
}

/// The tables of both packages, side by side.
fn grpc(page: &mut String) {
    let text = "The status that a call ends with, in each package; the `reason` stands in the `ErrorInfo` of both. In 0.3 the message begins with the name of the error in the table of 0.3 above.\n\
        Frames that cannot be read are `INVALID_ARGUMENT`, an unknown `grpc-encoding` is `UNIMPLEMENTED`.";
    writeln!(page, "## gRPC\n\n{text}\n\n| fault | 1.0 | 0.3 | reason |\n|---|---|---|---|").unwrap();
    for kind in Kind::ALL {
        let fault = Fault::new(kind, "");
        let [v1, v0_3] = [0, 1].map(|wire| dialects::PROTO_WIRES[wire].status(&fault, Operation::Unknown));
        let reason = a2a_v1::errors::reason(kind).unwrap_or("–");
        writeln!(page, "| {} | {} | {} | `{reason}` |", word(kind), v1.code.name(), v0_3.code.name()).unwrap();
    }
    page.push('\n');
}

fn page() -> String {
    let mut page = String::from(
        "# Errors, in every dialect\n\n\
        <!-- Printed from the tables of errors by the test `errors_page` of crates/products-tests; do not edit. -->\n\n\
        A fault is told in the words of the dialect it is met in. JSON-RPC answers HTTP 200, except for what HTTP itself has a word for (401, 403, 413, 415, 429, 503);\n\
        HTTP+JSON answers the status of the table. Where an operation has a line of its own it stands below the usual one.\n\n",
    );
    let sections: [(&str, &str, &str, bool); 3] = [
        (
            a2a_v1::NAME,
            "A2A 1.0",
            "Every error carries an `ErrorInfo` whose `reason` is the name below: in `error.data` over JSON-RPC, in `error.details` over HTTP+JSON. Invalid params also carry a\n\
            `BadRequest` with the field, and what may be tried again a `RetryInfo`.",
            true,
        ),
        (
            a2a_v0_3::NAME,
            "A2A 0.3 and 0.2",
            "JSON-RPC: `{\"code\", \"message\", \"data\"}`, where `data` is an object with what else is known (`taskId`, `field`, …) and is left out when nothing is. HTTP+JSON:\n\
            `{\"code\", \"message\", \"type\", \"data\"}`, with the JSON-RPC code and, as `type`, the name below. `tasks/resubscribe` tells its errors inside the event stream.",
            true,
        ),
        (
            a2a_v0_1::NAME,
            "A2A 0.1 (`tasks/send`)",
            "JSON-RPC only: `{\"code\", \"message\"}`, with `data` where money is the reason. An agent that fails is no error: its task is `failed`.",
            false,
        ),
    ];
    for (name, title, text, http) in sections {
        writeln!(page, "## {title}\n\n{text}\n").unwrap();
        table(&mut page, wire(name).unwrap(), http);
        page.push('\n');
    }
    grpc(&mut page);
    products(&mut page);
    page.push_str(
        "## When nobody can tell 0.1 from 0.3\n\n\
        `tasks/get`, `tasks/cancel` and `tasks/resubscribe` exist in both. Where neither a version nor the task tells which is meant, errors are those of 0.3.\n",
    );
    page
}

#[test]
fn the_page_of_errors_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
    let page = page();
    if std::env::var_os("RIALTO_REGENERATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        current == page,
        "docs/errors.md is not what the tables say: run RIALTO_REGENERATE=1 cargo test -p rialto-products-tests --test errors_page"
    );
}

#[test]
fn the_superset_has_the_errors_of_0_3_and_both_forms_of_0_3_the_same() {
    for kind in Kind::ALL {
        for operation in Operation::ALL {
            let line = wire(a2a_v0_3::NAME).unwrap().error_line(kind, operation);
            for name in [a2a_v0_3::REST_NAME, a2a_v0::NAME] {
                assert_eq!(wire(name).unwrap().error_line(kind, operation), line);
            }
        }
    }
}

/// The tables themselves, every kind and operation that matters.
#[test]
fn the_tables() {
    let mut text = String::new();
    for wire in dialects::WIRES {
        writeln!(text, "# {}", wire.name()).unwrap();
        for kind in Kind::ALL {
            let mut last = None;
            for operation in Operation::ALL {
                let line = wire.error_line(kind, operation);
                if last.replace(line) != Some(line) {
                    let (kind, operation, name) = (word(kind), operation_word(operation), line.name.unwrap_or("-"));
                    writeln!(text, "{kind:<28} {operation:<13} {:>6} {:>4} {name}", line.rpc, line.http).unwrap();
                }
            }
        }
    }
    insta::assert_snapshot!("the_tables", text);
}
