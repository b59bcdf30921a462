"""What the scripts of the console share. Each is called with `URL LINK ADMIN VIEWER CALLER AXE`.

LINK is the address that the server printed, ADMIN, VIEWER and CALLER are keys, and AXE is the script of axe-core. Tasks are made by the scripted agent.
"""

import json
import secrets
import shutil
import sys
import urllib.request
from contextlib import contextmanager

from playwright.sync_api import expect, sync_playwright

BASE, LINK, ADMIN, VIEWER, CALLER, AXE = sys.argv[1:7]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or sys.exit("there is no chromium; run scripts/setup-e2e")
MARKUP = "<img src=x onerror=\"document.documentElement.dataset.pwned='yes'\">"
expect.set_options(timeout=30_000)


def rpc(method, params, path="/a2a/scripted"):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"content-type": "application/json", "a2a-version": "1.0", "authorization": f"Bearer {CALLER}"}
    with urllib.request.urlopen(urllib.request.Request(f"{BASE}{path}", body, headers), timeout=30) as answer:
        said = json.load(answer)
    assert "result" in said, said
    return said["result"]


def message(*parts, **more):
    return {"messageId": secrets.token_hex(8), "role": "ROLE_USER", "parts": list(parts), **more}


def sent(*parts, path="/a2a/scripted", **configuration):
    """The id of a new task."""
    return rpc("SendMessage", {"message": message(*parts), "configuration": configuration}, path)["task"]["id"]


def scripted(*steps, **configuration):
    return sent({"data": {"script": list(steps)}}, **configuration)


class Person:
    """Someone at a page, whose clicks are counted."""

    def __init__(self, page):
        self.page, self.clicks = page, 0

    def click(self, what):
        self.clicks += 1
        what.click()


@contextmanager
def browsing(**more):
    """A new browser. Fails if the page ran something that it should not, or broke its own policy."""
    context = browser.new_context(**more)
    page, said = context.new_page(), []
    page.on("console", lambda one: said.append(one.text) if one.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
    yield page
    assert page.evaluate("document.documentElement.dataset.pwned") is None, "markup of a task ran"
    context.close()
    # A question about the session before there is one is refused, and so is what a test does wrong.
    said = [one for one in said if "status of 4" not in one]
    assert not said, said


@contextmanager
def signed_in(key, path="", base=BASE, **more):
    with browsing(**more) as page:
        page.goto(f"{base}/console/{path}")
        page.get_by_label("Key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("navigation", name="Views")).to_be_visible()
        yield page


def link_to(page, task):
    """The task's row in the list."""
    return page.get_by_role("row").get_by_role("link", name=task, exact=True)


def axe_check(page, place):
    """Fails if axe-core finds a serious violation on the page."""
    with open(AXE) as script:
        page.evaluate(script.read())
    found = page.evaluate("axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })")["violations"]
    serious = [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found if one["impact"] in ("serious", "critical")]
    assert not serious, (place, serious)


def run(scenarios):
    global browser
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        for scenario in scenarios:
            scenario()
            print("ok", scenario.__name__)
        browser.close()
