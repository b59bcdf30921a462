"""Chromium at the views of products; console_kit says how it is called. The server is the demo, and DEMO in the environment is its `demo.json`."""

import json
import os
import re
import secrets
import urllib.request

from console_kit import ADMIN, BASE, VIEWER, axe_check, expect, message, rpc, run, sent, signed_in

DEMO = json.loads(os.environ["DEMO"])
GATE = "/a2a/publish"


def asked_of(path, body, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{BASE}{path}", json.dumps(body).encode(), {"content-type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def market(who, path, body):
    """A call of the buyer or of the seller."""
    prefix = "" if who == "buyer" else "seller_"
    keys = {"x_api_key": DEMO["uumit"][f"{prefix}api_key"], "x_platform_user_id": DEMO["uumit"][f"{prefix}user_id"]}
    return asked_of(f"/api/v1{path}", body, **keys)["data"]


def bought():
    """A purchase whose money is set aside."""
    purchase = market("buyer", "/transactions", {"capability_id": DEMO["uumit"]["capability_id"]})["id"]
    market("buyer", f"/transactions/{purchase}/freeze", {})
    return purchase


def settled():
    purchase = bought()
    market("seller", f"/transactions/{purchase}/accept", {})
    market("seller", f"/transactions/{purchase}/deliver", {"result_payload": {"total": "99.50"}})
    market("buyer", f"/transactions/{purchase}/confirm", {})
    return purchase


def ordered(email):
    once = lambda: {"idempotency_key": secrets.token_hex(8)}  # noqa: E731
    wish = {"site_slug": "acme", "line_items": [{"product_id": "sun", "quantity": 2}]}
    begun = asked_of("/api/ucp/v1/checkout-sessions", wish, **once())
    buyer = {"email": email, "name": "Ada Buyer", "address": "1 Secret Street"}
    body = {"confirmation_token": begun["confirmation_token"], "buyer": buyer}
    done = asked_of(f"/api/ucp/v1/checkout-sessions/{begun['id']}/complete", body, **once())
    return done["order"].get("order_id") or done["order"]["id"]


def waiting_run():
    return sent({"text": f"to be published {secrets.token_hex(4)}"}, path=GATE)


def decide(run_id, decision):
    rpc("SendMessage", {"message": message({"data": {"decision": decision}}, taskId=run_id)}, GATE)


def node(page, name):
    return page.get_by_role("table", name="Nodes").get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))


def a_run_waits_at_its_node_until_it_is_approved():
    task = waiting_run()
    with signed_in(ADMIN, "systems") as page:
        page.get_by_role("link", name="publish", exact=True).click()
        expect(page.get_by_role("heading", name="System publish")).to_be_visible()
        graph = page.get_by_role("group", name="Graph of publish")
        expect(graph.get_by_text("needs an approval")).to_be_visible()
        expect(node(page, "publication")).to_contain_text("May it be published?")
        row = page.get_by_role("table", name="Runs").get_by_role("row", name=re.compile(task))
        expect(row).to_contain_text("approval at publication")
        row.get_by_role("link", name=task).click()
        assert page.url.endswith(f"/console/systems/publish/{task}"), page.url
        expect(page.get_by_text("Waits for an approval at publication")).to_be_visible()
        expect(graph.get_by_text("? waiting for approval")).to_be_visible()
        expect(graph.get_by_text("✓ done")).to_be_visible()
        expect(node(page, "draft")).to_contain_text(re.compile(r"done, .*(ms|s), 1 attempt"))
        expect(page.get_by_text("live", exact=True)).to_be_visible()
        page.evaluate("window.same = 'page'")
        # The question at the node leads to where it is answered.
        graph.get_by_role("link", name=re.compile("publication.*Answer")).click()
        expect(page.get_by_role("heading", name=task)).to_be_visible()
        assert f"/console/tasks/{task}/" in page.url, page.url
        page.go_back()
        expect(graph.get_by_text("? waiting for approval")).to_be_visible()
        decide(task, "approve")
        expect(graph.get_by_text("✓ done")).to_have_count(2)
        expect(page.get_by_role("heading", name="Run")).to_contain_text("completed")
        expect(page.get_by_text("it has ended")).to_be_visible()
        expect(page.get_by_text("Waits for an approval")).to_have_count(0)
        assert page.evaluate("window.same") == "page", "the page was loaded again"
        # Every node leads to its own task.
        graph.get_by_role("link", name=re.compile("draft")).click()
        expect(page.get_by_role("heading", name="Task")).to_be_visible()
        expect(page.get_by_role("link", name="echo", exact=True)).to_be_visible()


def a_denied_run_is_read_by_its_address():
    task = waiting_run()
    decide(task, "deny")
    with signed_in(VIEWER, f"systems/publish/{task}") as page:
        expect(node(page, "publication")).to_contain_text("⊘ denied")
        page.reload()
        expect(node(page, "publication")).to_contain_text("⊘ denied")
        page.get_by_role("link", name="System publish").click()
        expect(page.get_by_role("table", name="Runs").get_by_role("row", name=re.compile(task))).to_be_visible()
        page.goto(f"{BASE}/console/systems/none")
        expect(page.get_by_role("alert")).to_contain_text("no such system")


def a_purchase_is_in_the_journal_in_escrow_and_on_its_task():
    done, held = settled(), bought()
    with signed_in(ADMIN) as page:
        page.get_by_role("navigation", name="Views").get_by_role("link", name="Market").click()
        journal = page.get_by_role("table", name="Journal")
        expect(journal.get_by_role("link", name=done).first).to_be_visible()
        expect(journal.get_by_role("columnheader", name="Balance after")).to_be_visible()
        buyer = f"available:{DEMO['uumit']['user_id']}"
        journal.get_by_role("link", name=buyer).first.click()
        assert "account=" in page.url, page.url
        expect(journal.get_by_role("link", name=held).first).to_be_visible()
        page.get_by_role("button", name="Verify the ledger").click()
        expect(page.get_by_text("The books are right")).to_be_visible()
        page.get_by_role("link", name="Escrow").click()
        escrow = page.get_by_role("table", name="Escrow")
        expect(escrow.get_by_role("row", name=re.compile("settled"))).to_be_visible()
        expect(escrow.get_by_role("row", name=re.compile("running turns"))).to_be_visible()
        page.get_by_role("link", name="Listings").click()
        expect(page.get_by_role("table", name="Listings")).to_contain_text(DEMO["uumit"]["capability_id"])
        page.get_by_role("link", name="Accounts").click()
        expect(page.get_by_role("table", name="Accounts").get_by_role("link", name=buyer)).to_be_visible()
        page.get_by_role("link", name="Purchases").click()
        page.get_by_label("Status").select_option("settled")
        page.get_by_role("table", name="Purchases").get_by_role("link", name=done).click()
        page.get_by_role("link", name="Money").click()
        assert page.url.endswith("/money"), page.url
        expect(page.get_by_text(re.compile(r"120(\.00)? UT paid"))).to_be_visible()
    with signed_in(VIEWER, "market") as page:
        expect(page.get_by_role("heading", name="Market")).to_be_visible()
        expect(page.get_by_role("button", name="Verify the ledger")).to_have_count(0)


def an_order_is_in_the_shop_without_its_buyer():
    email = f"ada-{secrets.token_hex(4)}@example.com"
    order = ordered(email)
    with signed_in(ADMIN) as page:
        page.get_by_role("navigation", name="Views").get_by_role("link", name="Shop").click()
        row = page.get_by_role("table", name="Orders").get_by_role("row", name=re.compile(re.escape(order)))
        expect(row).to_contain_text("2 ×")
        for hidden in (email, "Ada Buyer", "Secret Street"):
            assert hidden not in page.content(), hidden
        page.get_by_role("link", name="Stock").click()
        expect(page.get_by_role("table", name="Stock").get_by_role("row", name=re.compile("sun"))).to_be_visible()
        begun = asked_of("/api/storefront/v1/carts", {"site_slug": "acme"})
        asked_of(f"/api/storefront/v1/carts/{begun['token']}/items", {"product_id": "sun", "quantity": 3})
        page.get_by_role("link", name="Carts").click()
        expect(page.get_by_role("table", name="Open carts").get_by_text("3 ×").first).to_be_visible()
        assert begun["token"] not in page.content()


def axe_finds_nothing_serious_in_the_views_of_products():
    waits, purchase = waiting_run(), settled()
    ordered("ada@example.com")
    views = [
        ("systems", "publish"), ("systems/publish", "approval at publication"), (f"systems/publish/{waits}", "Waits for an approval"),
        ("market", purchase), ("market/escrow", "running turns"), ("market/purchases", purchase), ("market/listings", DEMO["uumit"]["capability_id"]),
        ("market/accounts", "commission"), ("shop", "2 ×"), ("shop/carts", "Site"), ("shop/stock", "Sun"),
    ]
    for scheme in ("light", "dark"):
        with signed_in(ADMIN, color_scheme=scheme) as page:
            for view, says in views:
                page.goto(f"{BASE}/console/{view}")
                expect(page.locator("main").get_by_text(says).first).to_be_visible()
                axe_check(page, (scheme, view))
            page.goto(f"{BASE}/console/market/purchases?status=settled")
            page.get_by_role("link", name=purchase).click()
            page.get_by_role("link", name="Money").click()
            expect(page.get_by_role("table", name="Money")).to_be_visible()
            axe_check(page, (scheme, "money"))


run([
    a_run_waits_at_its_node_until_it_is_approved,
    a_denied_run_is_read_by_its_address,
    a_purchase_is_in_the_journal_in_escrow_and_on_its_task,
    an_order_is_in_the_shop_without_its_buyer,
    axe_finds_nothing_serious_in_the_views_of_products,
])
