//! The consent page: plain HTML without a script.

use super::endpoints::AuthorizationRequest;
use web::html::{document, escaped, hidden};

/// Fields of the authorization request that the form sends back.
pub(super) const CARRIED: [&str; 8] = [
    "client_id",
    "redirect_uri",
    "response_type",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
];

const TITLE: &str = "Access to a workspace";

/// The consent form; `said` is the error of the previous submission.
pub(super) fn ask<'a>(
    request: &AuthorizationRequest,
    fields: impl Iterator<Item = &'a (String, String)>,
    nonce: &str,
    said: Option<&str>,
) -> String {
    let mut html = String::new();
    let name = escaped(&request.client.shown_name());
    html.push_str(&format!("<h1>{name} asks for access</h1>\n"));
    if let Some(said) = said {
        html.push_str(&format!("<p class=\"wrong\" role=\"alert\">{}</p>\n", escaped(said)));
    }
    html.push_str("<p>To your workspace, it would be able to:</p>\n<ul>\n");
    for scope in &request.scopes {
        let words = crate::aly::SCOPES.iter().find(|(name, _)| name == scope).map_or("", |(_, words)| words);
        html.push_str(&format!("<li>{} (<code>{}</code>)</li>\n", escaped(words), escaped(scope)));
    }
    html.push_str("</ul>\n");
    html.push_str(&format!("<p>You will be sent back to <code>{}</code>.</p>\n", escaped(&request.redirect)));
    html.push_str("<form method=\"post\" autocomplete=\"off\">\n");
    for (name, value) in fields {
        html.push_str(&hidden(name, value));
    }
    html.push_str(&hidden("csrf", nonce));
    html.push_str(
        "<label for=\"key\">An API key of the workspace; what it is not good for is not given</label>\n\
<input id=\"key\" name=\"key\" type=\"password\" autocomplete=\"off\" spellcheck=\"false\">\n\
<button name=\"decision\" value=\"allow\">Allow</button>\
<button name=\"decision\" value=\"deny\">Deny</button>\n</form>\n",
    );
    document(TITLE, &html)
}

/// The error page for a request without a usable redirect URI.
pub(super) fn refusal(said: &str) -> String {
    let said = escaped(said);
    document(TITLE, &format!("<h1>This cannot be asked</h1>\n<p class=\"wrong\" role=\"alert\">{said}</p>\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_clients_are_escaped() {
        assert!(!refusal("<script>").contains("<script>"));
    }
}
