"""Authlib, as it comes, against Rialto's OAuth endpoints: `scenarios.py URL KEY FOREIGN_KEY`.

KEY is a key of the workspace `acme-ws` that is good for everything, FOREIGN_KEY one of another workspace. A person's part is
played by a browser that knows forms and cookies, and nothing else."""

import html.parser
import sys
from urllib.parse import parse_qs, urlsplit

import requests
from authlib.common.security import generate_token
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session

BASE, KEY, FOREIGN = sys.argv[1:4]
BACK = "http://127.0.0.1:9/back"
CART = {"skill": "cart-management", "action": "create", "site_slug": "acme"}

told = requests.get(f"{BASE}/.well-known/oauth-protected-resource", timeout=30).json()
META = requests.get(f"{told['authorization_servers'][0]}/.well-known/oauth-authorization-server", timeout=30).json()
assert META["issuer"] == BASE and META["code_challenge_methods_supported"] == ["S256"], META


class Fields(html.parser.HTMLParser):
    """The fields of the one form there is."""

    def __init__(self):
        super().__init__()
        self.fields = {}

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "input" and attrs.get("type") == "hidden":
            self.fields[attrs["name"]] = attrs["value"]


def person(url, key, decision="allow"):
    """Opens the page, says yes or no; where the browser is sent, or the status of the page it stays at."""
    browser = requests.Session()
    page = browser.get(url, allow_redirects=False, timeout=30)
    if page.status_code == 303:
        return page.headers["location"]
    assert page.status_code == 200, (page.status_code, page.text)
    form = Fields()
    form.feed(page.text)
    answer = {**form.fields, "key": key, "decision": decision}
    sent = browser.post(url, data=answer, allow_redirects=False, timeout=30)
    return sent.headers["location"] if sent.status_code == 303 else sent.status_code


def register(key=None, **said):
    headers = {"authorization": f"Bearer {key}"} if key else {}
    answer = requests.post(META["registration_endpoint"], json=said, headers=headers, timeout=30)
    assert answer.status_code == 201, answer.text
    return answer.json()


def app():
    """A public client that asks people."""
    grants = ["authorization_code", "refresh_token"]
    return register(client_name="Stock app", redirect_uris=[BACK], grant_types=grants, token_endpoint_auth_method="none")


def session(client, **more):
    more.setdefault("scope", "read:orders write:orders")
    method = client["token_endpoint_auth_method"]
    return OAuth2Session(
        client["client_id"], client.get("client_secret"), token_endpoint_auth_method=method,
        revocation_endpoint_auth_method=method, redirect_uri=BACK, code_challenge_method="S256", **more)


def agreed(client, key=KEY):
    """What comes back when a person says yes: the session, the address, and the verifier."""
    asks, verifier = session(client), generate_token(64)
    url, state = asks.create_authorization_url(META["authorization_endpoint"], code_verifier=verifier)
    back = person(url, key)
    assert isinstance(back, str) and parse_qs(urlsplit(back).query)["state"] == [state], back
    return asks, back, verifier


def fetched(client):
    asks, back, verifier = agreed(client)
    token = asks.fetch_token(META["token_endpoint"], authorization_response=back, code_verifier=verifier)
    assert token["access_token"].startswith("aly_oauth_") and token["expires_in"] == 3600, token
    return asks, back, verifier, token


def refused(error, act):
    try:
        act()
    except OAuthError as refusal:
        assert refusal.error == error, refusal
        return
    raise AssertionError(f"nothing was refused; expected {error}")


def call(token, method="ListTasks", params=None):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    headers = {"authorization": f"Bearer {token}"} if token else {}
    answer = requests.post(told["resource"], json=body, headers=headers, timeout=30).json()
    return answer["error"]["code"] if "error" in answer else answer["result"]


def buy(token):
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"mediaType": "application/json", "data": CART}]}
    return call(token, "SendMessage", {"message": message})


def authorization_code():
    asks, _, _, token = fetched(app())
    assert buy(token["access_token"])["task"]["id"].startswith("task_")
    # The library itself carries the token.
    assert asks.get(f"{BASE}/api/a2a/tasks").json()["totalSize"] >= 1
    url, _ = session(app()).create_authorization_url(META["authorization_endpoint"], code_verifier=generate_token(64))
    assert parse_qs(urlsplit(person(url, KEY, "deny")).query)["error"] == ["access_denied"]
    assert person(url, "aly_nobody") == 403


def client_credentials():
    for method in ["client_secret_basic", "client_secret_post"]:
        client = register(KEY, grant_types=["client_credentials"], scope="read:orders write:orders", token_endpoint_auth_method=method)
        asks = session(client)
        token = asks.fetch_token(META["token_endpoint"], grant_type="client_credentials")
        assert "refresh_token" not in token and buy(token["access_token"])["task"], token
        reads = session(client, scope="read:orders").fetch_token(META["token_endpoint"], grant_type="client_credentials")
        assert buy(reads["access_token"]) == -32003, "no scope"
        refused("invalid_scope", lambda: session(client, scope="delete:sites").fetch_token(META["token_endpoint"], grant_type="client_credentials"))
        wrong = {**client, "client_secret": "wrong"}
        refused("invalid_client", lambda: session(wrong).fetch_token(META["token_endpoint"], grant_type="client_credentials"))
        assert asks.revoke_token(META["revocation_endpoint"], token=token["access_token"]).status_code == 200
        assert call(token["access_token"]) == -32000


def refresh():
    asks, _, _, first = fetched(app())
    second = asks.refresh_token(META["token_endpoint"], refresh_token=first["refresh_token"])
    assert second["refresh_token"] != first["refresh_token"] and call(second["access_token"])["totalSize"] >= 0
    third = asks.refresh_token(META["token_endpoint"], refresh_token=second["refresh_token"])
    # One that was used already ends them all.
    refused("invalid_grant", lambda: asks.refresh_token(META["token_endpoint"], refresh_token=first["refresh_token"]))
    assert call(third["access_token"]) == -32000
    refused("invalid_grant", lambda: asks.refresh_token(META["token_endpoint"], refresh_token=third["refresh_token"]))


def revocation():
    asks, _, _, token = fetched(app())
    revoke = lambda which: asks.revoke_token(META["revocation_endpoint"], token=token[which], token_type_hint=which).status_code
    assert revoke("access_token") == 200 and call(token["access_token"]) == -32000
    again = asks.refresh_token(META["token_endpoint"], refresh_token=token["refresh_token"])
    token["refresh_token"] = again["refresh_token"]
    assert revoke("refresh_token") == 200 and call(again["access_token"]) == -32000
    refused("invalid_grant", lambda: asks.refresh_token(META["token_endpoint"], refresh_token=again["refresh_token"]))


def pkce_is_needed():
    client = app()
    asks, back, verifier = agreed(client)
    refused("invalid_request", lambda: asks.fetch_token(META["token_endpoint"], authorization_response=back))
    refused("invalid_grant", lambda: asks.fetch_token(META["token_endpoint"], authorization_response=back, code_verifier=generate_token(64)))
    assert asks.fetch_token(META["token_endpoint"], authorization_response=back, code_verifier=verifier)["access_token"]
    url, _ = session(client).create_authorization_url(META["authorization_endpoint"])
    assert parse_qs(urlsplit(person(url, KEY)).query)["error"] == ["invalid_request"], "no challenge"


def a_code_is_good_once():
    asks, back, verifier, token = fetched(app())
    assert call(token["access_token"])["totalSize"] >= 0
    refused("invalid_grant", lambda: asks.fetch_token(META["token_endpoint"], authorization_response=back, code_verifier=verifier))
    assert call(token["access_token"]) == -32000, "what came of it is over"


def another_workspace():
    client = app()
    asks, back, verifier = agreed(client, FOREIGN)
    token = asks.fetch_token(META["token_endpoint"], authorization_response=back, code_verifier=verifier)
    assert buy(token["access_token"]) == -32003, "the site is another workspace's"
    own = buy(fetched(client)[3]["access_token"])["task"]["id"]
    assert call(token["access_token"], "GetTask", {"taskId": own}) == -32001
    assert call(token["access_token"])["totalSize"] == 0


for scenario in [authorization_code, client_credentials, refresh, revocation, pkce_is_needed, a_code_is_good_once, another_workspace]:
    scenario()
    print("ok", scenario.__name__)
