"""Chromium at Rialto's pages, as a person has them: `pages.py URL TOKEN`.

URL is a demo, TOKEN its key `aly.token`. The checkout page is used without JavaScript; where scripts could run, none does."""

import base64
import hashlib
import html
import http.server
import json
import re
import secrets
import shutil
import sys
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import expect, sync_playwright

BASE, TOKEN = sys.argv[1:3]
APP = "https://app.example"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or sys.exit("there is no chromium; run scripts/setup-e2e")


def call(method, path, body=None, token=None, form=None):
    """A request without a browser: its status and its JSON."""
    headers = {"idempotency-key": secrets.token_hex(16)}
    data = None
    if body is not None:
        data, headers["content-type"] = json.dumps(body).encode(), "application/json"
    if form is not None:
        data, headers["content-type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
    if token:
        headers["authorization"] = f"Bearer {token}"
    url = path if path.startswith("http") else BASE + path
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def made(method, path, body=None, **more):
    status, answer = call(method, path, body, **more)
    assert status in (200, 201), (status, answer)
    return answer


def checkout(*items, coupon=None):
    """A checkout of a cart with these in it."""
    cart = "/api/storefront/v1/carts/" + made("POST", "/api/storefront/v1/carts", {"site_slug": "acme"})["token"]
    for item in items:
        made("POST", cart + "/items", item)
    if coupon:
        made("POST", cart + "/coupon", {"code": coupon})
    begun = made("POST", cart + "/checkout", {})
    assert begun["redirect_url"] == begun["checkout"]["complete_url"], begun
    return begun["checkout"]


def orders():
    return made("GET", "/api/storefront/v1/orders?site_slug=acme&limit=100", token=TOKEN)["orders"]


@contextmanager
def person(scripts=False, **more):
    """A page of a new browser. Fails on any console message: the pages load and run nothing that could be refused."""
    context = browser.new_context(java_script_enabled=scripts, **more)
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    context.close()
    # The browser's messages about error statuses are not about the page.
    said = [one for one in said if "status of 4" not in one]
    assert not said, said


def opened(page, url, status=200):
    answer = page.goto(url)
    assert answer.status == status, (url, answer.status)
    return answer


def a_person_completes_a_checkout():
    begun = checkout({"product_id": "sun", "quantity": 2}, {"product_id": "felt", "variant_options": {"Size": "M"}}, coupon="HATS10")
    before = len(orders())
    with person() as page:
        opened(page, begun["complete_url"])
        expect(page.get_by_role("heading", name="Your order at Acme")).to_be_visible()
        expect(page.get_by_role("row", name=re.compile(r"Sun hat 2 39\.80 USD"))).to_be_visible()
        expect(page.get_by_role("row", name=re.compile(r"Felt hat \(Size M\) 1 39\.00 USD"))).to_be_visible()
        expect(page.get_by_role("row", name=re.compile(r"Discount \(HATS10\)"))).to_be_visible()
        total = begun["totals"]["total"]
        total = f"{total // 100}.{total % 100:02} USD"
        buy = page.get_by_role("button", name=f"Buy for {total}")
        expect(page.locator("#left")).to_contain_text("minutes")

        # The browser itself asks for missing fields: nothing is sent.
        buy.click()
        expect(page.get_by_role("alert")).to_have_count(0)

        # The shop may refuse an address that the browser accepts: the form returns with its values and the reason.
        page.get_by_label("Email").fill("ada@nowhere")
        page.get_by_label("Name").fill("Ada <b>Lovelace</b>")
        page.get_by_label("Address").fill("1 Main St\nLondon")
        with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
            buy.click()
        assert answered.value.status == 422, answered.value.status
        expect(page.get_by_role("alert")).to_contain_text("Nothing was ordered yet")
        expect(page.locator("#email-wrong")).to_contain_text("ada@example.com")
        email = page.get_by_label("Email")
        expect(email).to_have_value("ada@nowhere")
        expect(email).to_have_attribute("aria-describedby", "email-wrong")
        expect(page.get_by_label("Name")).to_have_value("Ada <b>Lovelace</b>")
        expect(page.get_by_label("Address")).to_have_value("1 Main St\nLondon")
        assert len(orders()) == before

        email.fill("ada@example.com")
        buy.click()
        expect(page.get_by_role("heading", name="Thank you for your order")).to_be_visible()
        assert page.url == begun["complete_url"], page.url
        expect(page.locator("#state")).to_have_text("pending")
        expect(page.locator("#address")).to_have_text("Ada <b>Lovelace</b>\n1 Main St\nLondon")
        number = page.locator("#order").inner_text()
        # The page can be read again, and sending the form once more shows the same order.
        opened(page, begun["complete_url"])
        expect(page.locator("#order")).to_have_text(number)
        expect(page.get_by_role("button")).to_have_count(0)
    now = orders()
    assert len(now) == before + 1 and now[0]["order_id"] == number, now
    assert now[0]["buyer"]["email"] == "ada@example.com" and now[0]["totals"] == begun["totals"], now[0]


def an_impatient_person_buys_once():
    begun, before = checkout({"product_id": "cap", "quantity": 3}), len(orders())
    with person() as page, person() as other:
        for one in (page, other):
            opened(one, begun["complete_url"])
            one.get_by_label("Email").fill("ada@example.com")
            one.get_by_label("Name").fill("Ada")
            one.get_by_label("Address").fill("1 Main St")
        page.get_by_role("button").dblclick()
        expect(page.get_by_role("heading", name="Thank you for your order")).to_be_visible()
        # The form is still open in another window.
        other.get_by_role("button").click()
        expect(other.locator("#order")).to_have_text(page.locator("#order").inner_text())
    assert len(orders()) == before + 1


def what_is_fetched_needs_no_address():
    begun = checkout({"product_id": "pattern"})
    with person() as page:
        opened(page, begun["complete_url"])
        expect(page.get_by_label("Address")).to_have_count(0)
        page.get_by_label("Email").fill("ada@example.com")
        page.get_by_role("button").click()
        expect(page.locator("#state")).to_have_text("fulfilled")
        expect(page.get_by_role("link", name="Hat pattern")).to_have_attribute("href", "https://files.example/hat-pattern.pdf")


def what_is_over_says_so():
    begun = checkout({"product_id": "cap"})
    made("POST", f"/api/ucp/v1/checkout-sessions/{begun['id']}/cancel", {"confirmation_token": begun["confirmation_token"]})
    with person() as page:
        opened(page, begun["complete_url"], 410)
        expect(page.get_by_role("heading", name="This checkout was cancelled")).to_be_visible()
        opened(page, begun["complete_url"].split("?")[0], 404)
        expect(page.get_by_role("heading", name="There is no such checkout")).to_be_visible()


def nothing_runs_where_scripts_could():
    begun = checkout({"product_id": "cap"})
    with person(scripts=True, viewport={"width": 320, "height": 640}) as page:
        opened(page, begun["complete_url"])
        assert page.evaluate("document.scripts.length") == 0
        assert page.evaluate("getComputedStyle(document.querySelector('label')).display") == "block", "the style is the page's own"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it fits a small screen"
        page.get_by_label("Email").fill("ada@example.com")
        page.get_by_label("Name").fill("<img src=x onerror=\"window.ran=1\">")
        page.get_by_label("Address").fill("</p><script>window.ran=1</script>")
        page.get_by_role("button").click()
        expect(page.locator("#address")).to_have_text('<img src=x onerror="window.ran=1">\n</p><script>window.ran=1</script>')
        assert page.evaluate("window.ran === undefined && document.images.length === 0")


class Framing(http.server.BaseHTTPRequestHandler):
    """A third-party site that shows the URL in its query in a frame."""

    def do_GET(self):
        shown = html.escape(parse_qs(urlsplit(self.path).query).get("src", [""])[0])
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(f"<iframe src='{shown}'></iframe>".encode())

    def log_message(self, *_):
        pass


def no_page_of_ours_is_shown_in_anothers():
    begun = checkout({"product_id": "cap"})
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Framing)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    context = browser.new_context()
    page = context.new_page()
    framing = lambda url: f"http://127.0.0.1:{site.server_port}/?{urlencode({'src': url})}"
    page.goto(framing(f"{BASE}/healthz"))
    expect(page.frame_locator("iframe").get_by_text("ok")).to_be_visible()
    for url in (begun["complete_url"], f"{BASE}/oauth/authorize?{urlencode(asked()[1])}"):
        refused = lambda message: "frame-ancestors" in message.text or "X-Frame-Options" in message.text
        with page.expect_console_message(refused):
            page.goto(framing(url))
        expect(page.frame_locator("iframe").get_by_role("button", name=re.compile("Buy|Allow"))).to_have_count(0)
    context.close()
    site.shutdown()


def asked():
    """A program's consent request: its client, the query, and its secret."""
    client = made("POST", "/oauth/register", {
        "client_name": "An <i>app</i>", "redirect_uris": [APP + "/back"], "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
    })
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "client_id": client["client_id"], "redirect_uri": APP + "/back", "response_type": "code",
        "scope": "read:orders", "state": "s&1", "code_challenge": challenge, "code_challenge_method": "S256",
    }
    return client, query, verifier


def sent_from_the_app(page, query):
    """The person comes from the program's own site, and what is told to that is seen here."""
    url, back = f"{BASE}/oauth/authorize?{urlencode(query)}", []

    def app(route):
        if "/back" in route.request.url:
            back.append(parse_qs(urlsplit(route.request.url).query))
            assert "referer" not in route.request.headers, "where it was is told to nobody"
        route.fulfill(content_type="text/html", body=f"<h1>The app</h1><a href='{url.replace('&', '&amp;')}'>log in</a>")

    page.route(f"{APP}/**", app)
    page.goto(APP + "/")
    page.get_by_role("link", name="log in").click()
    expect(page.get_by_role("heading", name="An <i>app</i> asks for access")).to_be_visible()
    return back


def a_person_agrees_in_a_browser():
    client, query, verifier = asked()
    with person() as page:
        back = sent_from_the_app(page, query)
        expect(page.get_by_text("read:orders")).to_be_visible()
        page.get_by_label(re.compile("An API key")).fill("aly_guessed")
        page.get_by_role("button", name="Allow").click()
        expect(page.get_by_role("alert")).to_contain_text("no API key")
        page.get_by_label(re.compile("An API key")).fill(TOKEN)
        page.get_by_role("button", name="Allow").click()
        expect(page.get_by_role("heading", name="The app")).to_be_visible()
        assert back and back[0]["state"] == ["s&1"] and back[0]["iss"] == [BASE], back
    form = {
        "grant_type": "authorization_code", "client_id": client["client_id"], "code": back[0]["code"][0],
        "redirect_uri": query["redirect_uri"], "code_verifier": verifier,
    }
    token = made("POST", "/oauth/token", form=form)["access_token"]
    assert call("GET", "/api/storefront/v1/orders?site_slug=acme", token=token)[0] == 200
    status, refusal = call("POST", "/api/storefront/v1/orders/ord_x/refund", {}, token=token)
    assert (status, refusal["error"]["code"]) == (403, "forbidden_scope"), refusal


def a_person_says_no_in_a_browser():
    _, query, _ = asked()
    with person() as page:
        back = sent_from_the_app(page, query)
        page.get_by_role("button", name="Deny").click()
        expect(page.get_by_role("heading", name="The app")).to_be_visible()
        assert back[0]["error"] == ["access_denied"] and "code" not in back[0], back


SCENARIOS = [
    a_person_completes_a_checkout,
    an_impatient_person_buys_once,
    what_is_fetched_needs_no_address,
    what_is_over_says_so,
    nothing_runs_where_scripts_could,
    no_page_of_ours_is_shown_in_anothers,
    a_person_agrees_in_a_browser,
    a_person_says_no_in_a_browser,
]

with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
    for scenario in SCENARIOS:
        scenario()
        print("ok", scenario.__name__)
    browser.close()
