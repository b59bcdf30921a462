//! The checkout page, which later shows the order: plain HTML without a script.
//!
//! The address of the page contains the confirmation token, so that a form without it, as of another site, is rejected. A
//! token buys once: a form that is sent twice leads to the same order.

use std::sync::Arc;

use crate::service::{Bought, Error as ServiceError, Shop, ShopEntity};
use bytes::Bytes;
use dialects::framing::query;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderValue, Method, StatusCode, request};
use model::Fault;
use shop_rules::order::OrderLine;
use shop_rules::{
    Buyer, ConfirmationToken, Currency, Error as RuleError, Item, Order, Product, Session, SessionId, SessionStatus,
    Site, Totals,
};

use super::error::Error;
use super::shop_of;
use gateway::GatewayVersion;
use gateway::fronts::{RequestLog, rest};
use web::body::{Response, ResponseBody};
use web::fault_codes::FaultCode;
use web::html::{self, Forms, escaped};
use web::response::not_allowed;

/// Answers a request; `id` is the path after `/checkout/`.
pub(crate) async fn answer(
    server: &Arc<GatewayVersion>,
    id: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Response {
    (log.dialect, log.operation) = (crate::aly::NAME, "checkout");
    let Some(shop) = shop_of(server) else { return rest::nothing_at(head.uri.path(), head, log) };
    if !matches!(head.method, Method::GET | Method::HEAD | Method::POST) {
        return not_allowed("GET, HEAD, POST");
    }
    match call(server, shop, id, head, body, log).await {
        Ok(response) => response,
        Err(refusal) => {
            log.fault = Some(refusal.message.clone());
            refused(&refusal)
        }
    }
}

async fn call(
    server: &Arc<GatewayVersion>,
    shop: &Shop,
    id: &str,
    head: &request::Parts,
    body: Result<Bytes, Fault>,
    log: &mut RequestLog,
) -> Result<Response, Error> {
    let body = body?;
    if let Some(throttle) = &server.throttle {
        throttle.admit(server.callers.anonymous(), log.address)?;
    }
    let said = query::value(head.uri.query().unwrap_or_default(), "token")?;
    let token = said.as_deref().and_then(ConfirmationToken::read).ok_or(ServiceError::Unknown(ShopEntity::Session))?;
    let id = SessionId::from(id);
    let session = shop.session(&id, &token).await?;
    let site = shop.site(&session.site).await?;
    let page = CheckoutPage { shop, site, session, token, here: head.uri.path() };
    match (page.session.status, head.method == Method::POST) {
        (SessionStatus::Open, false) => {
            let typed = FormInput {
                email: page.session.email.as_deref().unwrap_or_default().to_owned(),
                ..FormInput::default()
            };
            Ok(page.form(StatusCode::OK, &typed, &FieldErrors::default()))
        }
        (SessionStatus::Open, true) => page.complete(FormInput::read(head, &body)?, log).await,
        // The form was sent twice: show the order.
        (SessionStatus::Completed, true) => Ok(page.redirect()),
        (SessionStatus::Completed, false) => match shop.order(&page.token).await? {
            Bought::Order { order, products } => Ok(page.order(&order, &products)),
            Bought::NotYet(_) => Err(ServiceError::Unknown(ShopEntity::Session).into()),
        },
        (SessionStatus::Cancelled | SessionStatus::Expired, _) => Ok(page.over(page.session.status)),
    }
}

/// The fields of a submitted form.
#[derive(Debug, Default)]
struct FormInput {
    email: String,
    name: String,
    address: String,
}

/// Errors of a form: by field, and others.
#[derive(Debug, Default)]
struct FieldErrors {
    email: Option<String>,
    name: Option<String>,
    address: Option<String>,
    otherwise: Option<String>,
}

impl FieldErrors {
    fn is_nothing(&self) -> bool {
        self.email.is_none() && self.name.is_none() && self.address.is_none() && self.otherwise.is_none()
    }

    /// Adds an error to its field.
    fn note(&mut self, field: &str, says: String) {
        match field {
            "email" => self.email = Some(says),
            "name" => self.name = Some(says),
            "address" => self.address = Some(says),
            _ => self.otherwise = Some(format!("{field} {says}")),
        }
    }
}

impl FormInput {
    fn read(head: &request::Parts, body: &[u8]) -> Result<FormInput, Error> {
        let said = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let bare = said.split(';').next().unwrap_or_default().trim();
        if !bare.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(Error::new(
                FaultCode::MEDIA_TYPE,
                "send the form of this page: application/x-www-form-urlencoded",
            ));
        }
        let text = std::str::from_utf8(body).map_err(|_| Error::field("form", "is not UTF-8"))?;
        let mut typed = FormInput::default();
        for pair in query::pairs(text) {
            let (name, value) = pair?;
            match &*name {
                "email" => typed.email = value.trim().to_owned(),
                "name" => typed.name = value.trim().to_owned(),
                "address" => typed.address = value.trim().to_owned(),
                _ => {}
            }
        }
        Ok(typed)
    }

    /// The buyer, or all errors at once. `sent` is whether goods are shipped, which requires a name and an address.
    fn buyer(&self, sent: bool) -> Result<Buyer, FieldErrors> {
        let said = |text: &str| (!text.is_empty()).then(|| Arc::<str>::from(text));
        let mut wrong = FieldErrors::default();
        let alone = |email: &str, name: Option<Arc<str>>, address: Option<Arc<str>>| {
            Buyer { email: email.into(), name, address }.check().err()
        };
        // Each field is checked alone, so that all errors are found.
        const GOOD: &str = "ada@example.com";
        for refusal in [
            alone(&self.email, None, None),
            alone(GOOD, said(&self.name), None),
            alone(GOOD, None, said(&self.address)),
        ] {
            match refusal {
                Some(RuleError::Field { field, says }) => wrong.note(field, says),
                Some(refusal) => wrong.otherwise = Some(refusal.to_string()),
                None => {}
            }
        }
        if self.email.is_empty() {
            wrong.email = Some("must be there: what you bought is told to this address".to_owned());
        }
        if sent && self.name.is_empty() {
            wrong.name = Some("must be there: your order is sent to it".to_owned());
        }
        if sent && self.address.is_empty() {
            wrong.address = Some("must be there: your order is sent to it".to_owned());
        }
        if !wrong.is_nothing() {
            return Err(wrong);
        }
        Ok(Buyer { email: self.email.as_str().into(), name: said(&self.name), address: said(&self.address) })
    }
}

/// A checkout and its page.
struct CheckoutPage<'a> {
    shop: &'a Shop,
    site: Site,
    session: Session,
    token: ConfirmationToken,
    /// The path of the request.
    here: &'a str,
}

impl CheckoutPage<'_> {
    fn is_sent(&self) -> bool {
        self.session.items.iter().any(|item| !item.digital)
    }

    async fn complete(&self, typed: FormInput, log: &mut RequestLog) -> Result<Response, Error> {
        let buyer = match typed.buyer(self.is_sent()) {
            Ok(buyer) => buyer,
            Err(wrong) => return Ok(self.form(StatusCode::UNPROCESSABLE_ENTITY, &typed, &wrong)),
        };
        let refused = match self.shop.complete(&self.session.id, &self.token, &buyer, None).await {
            Ok(_) => return Ok(self.redirect()),
            Err(refused) => refused,
        };
        // A concurrent request with the same form may have completed the checkout.
        if matches!(self.shop.order(&self.token).await?, Bought::Order { .. }) {
            return Ok(self.redirect());
        }
        log.fault = Some(refused.to_string());
        match refused {
            ServiceError::Rule(RuleError::SessionClosed(_)) => {
                Ok(self.over(self.shop.session(&self.session.id, &self.token).await?.status))
            }
            ServiceError::Rule(RuleError::Field { field, says }) => {
                let mut wrong = FieldErrors::default();
                wrong.note(field, says);
                Ok(self.form(StatusCode::UNPROCESSABLE_ENTITY, &typed, &wrong))
            }
            ServiceError::Rule(rule) => {
                let wrong = FieldErrors { otherwise: Some(rule.to_string()), ..FieldErrors::default() };
                Ok(self.form(StatusCode::CONFLICT, &typed, &wrong))
            }
            refused => Err(refused.into()),
        }
    }

    /// Redirects to the same address with GET, so that a reload does not send the form again.
    fn redirect(&self) -> Response {
        let mut response = Response::new(ResponseBody::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        html::guard(response.headers_mut(), Forms::Here);
        match HeaderValue::from_str(&format!("{}?token={}", self.here, self.token.as_str())) {
            Ok(to) => {
                response.headers_mut().insert(LOCATION, to);
            }
            Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        }
        response
    }

    fn page(&self, status: StatusCode, title: &str, main: &str) -> Response {
        let title = format!("{title} - {}", self.site.title);
        html::response(status, html::document(&title, main), Forms::Here)
    }

    fn form(&self, status: StatusCode, typed: &FormInput, wrong: &FieldErrors) -> Response {
        let session = &self.session;
        let left = session.expires_at.0.saturating_sub(self.shop.now().0).max(0);
        let minutes = match left.unsigned_abs().div_ceil(60_000) {
            0 | 1 => "less than a minute".to_owned(),
            n => format!("{n} minutes"),
        };
        let mut main = format!("<h1>Your order at {}</h1>\n", escaped(&self.site.title));
        if let Some(otherwise) = &wrong.otherwise {
            main.push_str(&format!("<p class=\"wrong\" role=\"alert\">{}</p>\n", escaped(otherwise)));
        } else if !wrong.is_nothing() {
            main.push_str(
                "<p class=\"wrong\" role=\"alert\">Nothing was ordered yet: please correct what is marked.</p>\n",
            );
        }
        let items: Vec<(&Item, Option<String>)> = session.items.iter().map(|item| (item, None)).collect();
        main.push_str(&lines(&session.currency, &items, &session.totals, session.coupon.as_ref().map(|c| &*c.code)));
        let until = session.expires_at.to_string();
        main.push_str(&format!(
            "<p id=\"left\">Set aside for you for {minutes} more, until <time datetime=\"{0}\">{0}</time>.</p>\n",
            escaped(&until)
        ));
        main.push_str("<form method=\"post\">\n");
        main.push_str(&field(
            &Field { name: "email", label: "Email", kind: "email", complete: "email", most: 254, required: true },
            &typed.email,
            wrong.email.as_deref(),
        ));
        let sent = self.is_sent();
        main.push_str(&field(
            &Field { name: "name", label: "Name", kind: "text", complete: "name", most: 200, required: sent },
            &typed.name,
            wrong.name.as_deref(),
        ));
        if sent {
            let address = Field {
                name: "address",
                label: "Address",
                kind: "",
                complete: "street-address",
                most: 1_000,
                required: true,
            };
            main.push_str(&field(&address, &typed.address, wrong.address.as_deref()));
        }
        let sum = escaped(&session.currency.say(session.totals.total));
        main.push_str(&format!("<button>Buy for {sum}</button>\n</form>\n"));
        self.page(status, "Checkout", &main)
    }

    fn order(&self, order: &Order, products: &[Product]) -> Response {
        let state = order.state.name().replace('_', " ");
        let mut main = format!(
            "<h1>Thank you for your order</h1>\n<p class=\"said\" role=\"status\">Order <code id=\"order\">{}</code> at {} is \
<strong id=\"state\">{}</strong>.</p>\n",
            escaped(order.id.as_str()),
            escaped(&self.site.title),
            escaped(&state)
        );
        let sent = |line: &OrderLine| {
            (!line.item.digital && line.sent > 0).then(|| format!("{} of {} sent", line.sent, line.item.quantity))
        };
        let items: Vec<(&Item, Option<String>)> = order.lines.iter().map(|line| (&line.item, sent(line))).collect();
        main.push_str(&lines(&order.currency, &items, &order.totals, order.coupon.as_deref()));
        let of = |product: &&Product| order.lines.iter().any(|line| line.item.product == product.id);
        let fetched = products.iter().filter(of).filter(|product| product.digital && order.is_earned());
        let links: String = fetched
            .flat_map(|product| product.downloads.iter().map(move |url| (product, url)))
            .map(|(product, url)| {
                let (url, name) = (escaped(url), escaped(&product.name));
                format!("<li><a href=\"{url}\" rel=\"noreferrer noopener\">{name}</a></li>\n")
            })
            .collect();
        if !links.is_empty() {
            main.push_str(&format!("<h2>To fetch</h2>\n<ul>\n{links}</ul>\n"));
        }
        main.push_str(&format!("<p>For <span id=\"buyer\">{}</span>.</p>\n", escaped(&order.buyer.email)));
        if let Some(address) = &order.buyer.address {
            let name = order.buyer.name.as_deref().unwrap_or_default();
            let (name, address) = (escaped(name), escaped(address));
            main.push_str(&format!("<h2>Sent to</h2>\n<p class=\"lines\" id=\"address\">{name}\n{address}</p>\n"));
        }
        if !order.tracking.is_empty() {
            let tracking: String = order.tracking.iter().map(|one| format!("<li>{}</li>\n", escaped(one))).collect();
            main.push_str(&format!("<h2>Under way as</h2>\n<ul>\n{tracking}</ul>\n"));
        }
        main.push_str(
            "<p>This page stays at this address. Keep it to yourself: whoever has it can read your order.</p>\n",
        );
        self.page(StatusCode::OK, "Your order", &main)
    }

    fn over(&self, status: SessionStatus) -> Response {
        let (title, why) = match status {
            SessionStatus::Cancelled => ("This checkout was cancelled", "Nothing was ordered."),
            SessionStatus::Expired | SessionStatus::Open | SessionStatus::Completed => {
                ("This checkout has expired", "Nothing was ordered, and what was set aside for you is for sale again.")
            }
        };
        let next = "To buy it all the same, begin a new checkout where you came from.";
        let main = format!("<h1>{title}</h1>\n<p class=\"said\" role=\"status\">{why} {next}</p>\n");
        self.page(StatusCode::GONE, title, &main)
    }
}

struct Field {
    name: &'static str,
    label: &'static str,
    /// Type of the input; empty for a text area.
    kind: &'static str,
    complete: &'static str,
    most: usize,
    required: bool,
}

fn field(field: &Field, value: &str, wrong: Option<&str>) -> String {
    let Field { name, label, kind, complete, most, required } = field;
    let value = escaped(value);
    let needed = if *required { " required" } else { "" };
    let (beside, described) = match wrong {
        Some(says) => (
            format!("<p class=\"wrong\" id=\"{name}-wrong\">{label} {}</p>\n", escaped(says)),
            format!(" aria-invalid=\"true\" aria-describedby=\"{name}-wrong\""),
        ),
        None => (String::new(), String::new()),
    };
    let common =
        format!("id=\"{name}\" name=\"{name}\" autocomplete=\"{complete}\" maxlength=\"{most}\"{needed}{described}");
    let optional = if *required { "" } else { " (optional)" };
    let input = if kind.is_empty() {
        // HTML ignores a line break directly after the tag.
        format!("<textarea rows=\"4\" {common}>\n{value}</textarea>\n")
    } else {
        format!("<input type=\"{kind}\" value=\"{value}\" {common}>\n")
    };
    format!("<label for=\"{name}\">{label}{optional}</label>\n{input}{beside}")
}

fn lines(currency: &Currency, items: &[(&Item, Option<String>)], totals: &Totals, coupon: Option<&str>) -> String {
    let say = |amount| escaped(&currency.say(amount));
    let mut table = String::from(
        "<table><caption>ShopEntity you buy</caption>\n<thead><tr><th scope=\"col\">Product</th>\
<th scope=\"col\" class=\"number\">Quantity</th><th scope=\"col\" class=\"number\">Price</th></tr></thead>\n<tbody>\n",
    );
    for (item, note) in items {
        let options: Vec<String> = item.options.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let more: Vec<String> = options.into_iter().chain(note.clone()).collect();
        let more = if more.is_empty() { String::new() } else { format!(" ({})", escaped(&more.join(", "))) };
        let sum = shop_rules::Minor(item.price.0.saturating_mul(i64::from(item.quantity)));
        table.push_str(&format!(
            "<tr><td>{}{more}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>\n",
            escaped(&item.name),
            item.quantity,
            say(sum)
        ));
    }
    table.push_str("</tbody>\n<tfoot>\n");
    let mut row = |name: &str, amount: String| {
        let name = escaped(name);
        table.push_str(&format!(
            "<tr><th scope=\"row\" colspan=\"2\">{name}</th><td class=\"number\">{amount}</td></tr>\n"
        ));
    };
    row("Subtotal", say(totals.subtotal));
    if totals.discount.0 > 0 {
        row(
            &coupon.map_or("Discount".to_owned(), |code| format!("Discount ({code})")),
            format!("-{}", say(totals.discount)),
        );
    }
    if totals.shipping.0 > 0 {
        row("Shipping", say(totals.shipping));
    }
    if totals.tax.0 > 0 {
        row("Tax", say(totals.tax));
    }
    row("Total", say(totals.total));
    table.push_str("</tfoot></table>\n");
    table
}

/// The error page.
fn refused(refusal: &Error) -> Response {
    let status = refusal.status();
    let (title, why) = if status == StatusCode::NOT_FOUND {
        let why = "Open the whole address that you were given: the part after the question mark belongs to it. \
                   A checkout that nobody completed is forgotten after a while.";
        ("There is no such checkout", why.to_owned())
    } else {
        ("This did not work", format!("{}.", refusal.message))
    };
    let main = format!("<h1>{title}</h1>\n<p class=\"wrong\" role=\"alert\">{}</p>\n", escaped(&why));
    let mut response = html::response(status, html::document(title, &main), Forms::Here);
    if let Some(seconds) = refusal.retry_after_s {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_wrong_is_said_at_once_beside_its_field() {
        let typed = |email: &str, name: &str, address: &str| FormInput {
            email: email.to_owned(),
            name: name.to_owned(),
            address: address.to_owned(),
        };
        let wrong = typed("ada", "", "").buyer(true).unwrap_err();
        assert!(wrong.email.unwrap().contains("ada@example.com"));
        assert!(wrong.name.is_some() && wrong.address.is_some() && wrong.otherwise.is_none());
        let wrong = typed("", &"x".repeat(201), "").buyer(false).unwrap_err();
        assert!(wrong.email.is_some() && wrong.name.is_some() && wrong.address.is_none());
        let buyer = typed("ada@example.com", "", "").buyer(false).unwrap();
        assert_eq!((buyer.name, buyer.address), (None, None));
    }

    #[test]
    fn what_was_typed_is_shown_again_and_is_no_markup() {
        let email = Field { name: "email", label: "Email", kind: "email", complete: "email", most: 9, required: true };
        let shown = field(&email, "\"><script>", Some("<b>"));
        assert!(!shown.contains("<script>") && !shown.contains("<b>"), "{shown}");
        assert!(shown.contains("aria-describedby=\"email-wrong\"") && shown.contains("for=\"email\""), "{shown}");
        let address = Field { name: "address", label: "Address", kind: "", ..email };
        assert!(!field(&address, "</textarea><script>", None).contains("<script>"));
    }
}
