"""Sign-in at an OpenID provider, in Chromium; console_kit says how it is called. Two more arguments are the provider's address, and the console of a server
that is a public client of it. Any name signs in there with any password: ann is of the group ops, bob of on-call, eve of neither.
"""

import json
import re
import sys
import urllib.request
from contextlib import contextmanager
from urllib.parse import parse_qs, quote, urlencode, urljoin, urlsplit

import console_kit
from console_kit import BASE, axe_check, expect, run

ISSUER, PUBLIC = sys.argv[7:9]
CALLBACK = "/api/admin/v1/session/oidc/callback"


@contextmanager
def browsing():
    with console_kit.browsing() as page:
        without_fonts(page)
        yield page


def without_fonts(page):
    """The provider's own pages ask for some of another server."""
    page.route(re.compile("^https://"), lambda route: route.fulfill(status=200, content_type="text/css", body=""))


def provider_is(mode):
    urllib.request.urlopen(f"{ISSUER}/mode?is={mode}", data=b"", timeout=30).read()


def begin(page, path="", base=BASE):
    page.goto(f"{base}/console/{path}")
    page.get_by_role("link", name="Sign in with Example").click()


def at_provider(page, name):
    """Signs in at the provider's own pages, up to its redirect."""
    page.locator("[name=login]").fill(name)
    page.locator("[name=password]").fill("anything")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def sign_in(page, name, path="", base=BASE):
    begin(page, path, base)
    at_provider(page, name)


def answered(page, change):
    """Gives the provider's answer the address that `change` makes of it, or keeps it."""

    def handle(route):
        answer = route.fetch(max_redirects=0)
        to = urljoin(route.request.url, answer.headers.get("location", ""))
        if "location" not in answer.headers:
            return route.fulfill(response=answer)
        if CALLBACK in to:
            to = change(to)
        # Each step is a page, because a redirect cannot be seen here.
        page = f"<script>location.replace({json.dumps(to)})</script>" if to else "kept"
        route.fulfill(status=200, content_type="text/html", body=page)

    page.route(re.compile(f"^{re.escape(ISSUER)}/"), handle)


def with_query(url, changes):
    parts = urlsplit(url)
    pairs = {name: values[0] for name, values in parse_qs(parts.query).items()} | changes
    return parts._replace(query=urlencode({name: value for name, value in pairs.items() if value is not None})).geturl()


def refused(page, words):
    expect(page.get_by_role("heading", name="Not signed in")).to_be_visible()
    expect(page.get_by_text(words)).to_be_visible()
    assert page.context.request.get(f"{BASE}/api/admin/v1/session").status == 401
    assert not [one for one in page.context.cookies() if one["name"].startswith("rialto_session")], page.context.cookies()


def one_lands_where_one_was_going_with_the_role_of_the_claim():
    with browsing() as page:
        page.goto(f"{BASE}/console/agents/echo?x=1%202")
        axe_check(page, "the sign-in page")
        page.get_by_role("link", name="Sign in with Example").click()
        page.wait_for_url(f"{ISSUER}/**")
        at_provider(page, "ann")
        expect(page.get_by_role("heading", name="Agent echo")).to_be_visible()
        assert page.url == f"{BASE}/console/agents/echo?x=1%202", page.url
        expect(page.get_by_text("#ann (admin)")).to_be_visible()
        cookies = [one for one in page.context.cookies(f"{BASE}/api/admin/v1/session/oidc") if one["name"].startswith("rialto_")]
        assert [(one["name"].startswith("rialto_session"), one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, True, "Strict")], cookies
        page.reload()
        expect(page.get_by_text("#ann (admin)")).to_be_visible()
        page.get_by_role("link", name="Audit").click()
        expect(page.get_by_text("#ann").first).to_be_visible()
        # A change needs the session's token, as in any session.
        status = "fetch('/api/admin/v1/config:reload', { method: 'POST' }).then((answer) => answer.status)"
        assert page.evaluate(status) == 403
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("link", name="Sign in with Example")).to_be_visible()
        page.reload()
        expect(page.get_by_role("link", name="Sign in with Example")).to_be_visible()


def a_role_of_a_claim_is_no_more_than_that():
    with browsing() as page:
        sign_in(page, "bob")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        session = page.evaluate("fetch('/api/admin/v1/session').then((answer) => answer.json())")
        assert (session["role"], session["tenant"], session["allTenants"]) == ("operator", "north", False), session
        expect(page.get_by_role("navigation", name="Views")).to_be_visible()
        expect(page.get_by_role("link", name="Keys")).to_have_count(0)
        assert page.evaluate("fetch('/api/admin/v1/keys').then((answer) => answer.status)") == 403
    with browsing() as page:
        sign_in(page, "eve")
        refused(page, "no rule of console.oidc.roles gives that account a role here")
        axe_check(page, "a refusal")
        page.get_by_role("link", name="To the console").click()
        expect(page.get_by_role("link", name="Sign in with Example")).to_be_visible()


def a_public_client_with_another_algorithm_signs_in():
    with browsing() as page:
        sign_in(page, "ann", "tasks?state=failed", PUBLIC)
        expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
        assert page.url == f"{PUBLIC}/console/tasks?state=failed", page.url


def an_answer_that_is_not_of_this_sign_in_is_refused():
    with browsing() as page:
        for query, words in [
            ("", "for the provider's answer"),
            ("?state=none&code=x", "used already"),
            ("?code=x", "for the provider's answer"),
        ]:
            page.goto(f"{BASE}{CALLBACK}{query}")
            refused(page, words)
    with browsing() as page:
        kept = []
        answered(page, lambda url: kept.append(url))
        sign_in(page, "ann")
        expect(page.get_by_text("kept")).to_be_visible()
        with browsing() as other:
            other.goto(kept[0])
            refused(other, "began in another browser")
        # It is used up by that.
        page.goto(kept[0])
        refused(page, "used already")
    with browsing() as page:
        used = []
        answered(page, lambda url: used.append(url) or url)
        sign_in(page, "ann")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("link", name="Sign in with Example")).to_be_visible()
        page.goto(used[0])
        refused(page, "used already")
    # The code of another sign-in, no code, and the answer of another provider.
    code = parse_qs(urlsplit(kept[0]).query)["code"][0]
    for wrong, words in [
        ({"code": code}, "(invalid_grant)"),
        ({"code": None}, "has no code"),
        ({"iss": "https://another.example"}, "not of the provider"),
        ({"iss": None}, "not of the provider"),
        ({"state": "x" * 43}, "used already"),
    ]:
        with browsing() as page:
            answered(page, lambda url: with_query(url, wrong))
            sign_in(page, "ann")
            refused(page, words)
    with browsing() as page:
        begin(page)
        page.get_by_text("Cancel").click()
        refused(page, "(access_denied)")


def a_token_that_is_not_right_is_refused():
    for mode, words in [
        ("nonce", "(nonce)"),
        ("audience", "another audience"),
        ("party", "(azp)"),
        ("issuer", "issuer is not trusted"),
        ("old", "has expired"),
        ("unsigned", "signed in a way that is not taken here"),
        ("foreign", "signature is not right"),
        ("late", "(invalid_grant)"),
    ]:
        provider_is(mode)
        with browsing() as page:
            sign_in(page, "ann")
            refused(page, words)
    provider_is("right")


def no_link_leads_elsewhere():
    for then in ["https://evil.example/", "//evil.example/console/", "/console/../../a2a/echo", "/a2a/echo"]:
        with browsing() as page:
            page.goto(f"{BASE}/api/admin/v1/session/oidc?then={quote(then, safe='')}")
            at_provider(page, "ann")
            expect(page.get_by_role("heading", name="Overview")).to_be_visible()
            assert page.url == f"{BASE}/console/", page.url


run(
    [
        one_lands_where_one_was_going_with_the_role_of_the_claim,
        a_role_of_a_claim_is_no_more_than_that,
        a_public_client_with_another_algorithm_signs_in,
        an_answer_that_is_not_of_this_sign_in_is_refused,
        a_token_that_is_not_right_is_refused,
        no_link_leads_elsewhere,
    ]
)
