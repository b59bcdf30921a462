"""Chromium at the console, as operators use it; console_kit says how it is called. Tasks are made by the scripted agent."""

import json
import os
import re
import secrets
import subprocess
from urllib.parse import quote

from console_kit import ADMIN, BASE, CALLER, LINK, MARKUP, VIEWER, Person, axe_check, browsing, expect, link_to, message, rpc, run, scripted, sent, signed_in


def the_printed_link_signs_in_once():
    with browsing() as page:
        page.goto(LINK)
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert "link=" not in page.url, page.url
        expect(page.get_by_text("console (admin)")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert page.evaluate("document.cookie") == "", "a script can read the cookie"
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        page.reload()
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    with browsing() as page:
        page.goto(LINK)
        expect(page.get_by_role("alert")).to_contain_text("used already")


def a_key_signs_in_where_one_was_going():
    with browsing() as page:
        page.goto(f"{BASE}/console/agents/echo")
        page.get_by_label("Key").fill("rk_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("not known")
        page.get_by_label("Key").fill(CALLER)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("no role")
        page.get_by_label("Key").fill(ADMIN)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Agent echo")).to_be_visible()


def tasks_are_listed_filtered_and_found():
    made = {sent({"text": f"number {number}"}) for number in range(120)}
    asking = scripted({"input": "which colour?"})
    words = secrets.token_hex(6)
    found = sent({"text": f"needle {words}"})
    with signed_in(ADMIN, "tasks") as page:
        expect(link_to(page, found)).to_be_visible()
        rows = page.locator(".rows [role=row]")
        assert rows.count() < len(made), "rows out of sight are in the page"
        # To the end: every task is reached, page by page.
        page.evaluate("window.seen = new Set()")
        page.wait_for_function(
            """made => {
                const list = document.querySelector('.list');
                for (const link of list.querySelectorAll('.rows a')) window.seen.add(link.pathname.split('/').pop());
                list.scrollTop += list.clientHeight / 3;
                return made.every(id => window.seen.has(id));
            }""",
            arg=list(made),
        )
        page.get_by_label("State").select_option("input-required")
        expect(link_to(page, asking)).to_be_visible()
        expect(link_to(page, found)).to_have_count(0)
        assert "state=input-required" in page.url, page.url
        page.get_by_role("button", name="Clear filters").click()
        page.keyboard.press("/")
        page.keyboard.type(words)
        page.keyboard.press("Enter")
        expect(link_to(page, found)).to_be_visible()
        expect(rows).to_have_count(1)
        # A new task appears by itself.
        page.goto(f"{BASE}/console/tasks?agent=scripted")
        expect(link_to(page, found)).to_be_visible()
        newest = sent({"text": "another"})
        expect(link_to(page, newest)).to_be_visible()


def a_timeline_grows_while_it_is_read():
    task = scripted({"status": "working", "text": "begun"}, {"input": "go on?"}, {"complete": "all done"})
    with signed_in(ADMIN, "tasks") as page:
        link_to(page, task).click()
        page.evaluate("window.same = 'page'")
        timeline = page.get_by_role("table")
        expect(timeline.get_by_text("Status: input-required")).to_be_visible()
        expect(page.get_by_text(re.compile(r"\d+ events, live"))).to_be_visible()
        before = timeline.get_by_role("row").count()
        rpc("SendMessage", {"message": message({"text": "yes, go on"}, taskId=task)})
        expect(timeline.get_by_text("yes, go on")).to_be_visible()
        expect(timeline.get_by_text("Status: completed")).to_be_visible()
        expect(page.get_by_text("the task is settled")).to_be_visible()
        assert timeline.get_by_role("row").count() > before
        numbers = [int(text) for text in timeline.locator("tbody th").all_inner_texts()]
        assert numbers == list(range(1, len(numbers) + 1)), numbers
        assert page.evaluate("window.same") == "page", "the page was loaded again"


def a_task_is_canceled_and_purged_after_a_question():
    task = scripted({"status": "working"}, {"hang": True}, returnImmediately=True)
    with signed_in(ADMIN, f"tasks/{task}") as page:
        cancel = page.get_by_role("button", name="Cancel the task")
        cancel.click()
        page.get_by_role("dialog").get_by_role("button", name="Go back").click()
        expect(page.get_by_role("heading", name=task)).to_contain_text("working")
        cancel.click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the task").click()
        expect(page.get_by_role("heading", name=task)).to_contain_text("canceled")
        expect(cancel).to_have_count(0)
        page.get_by_role("button", name="Purge the task").click()
        page.get_by_role("dialog").get_by_role("button", name="Purge the task").click()
        expect(page.get_by_role("heading", name="Tasks")).to_be_visible()
        page.goto(f"{BASE}/console/tasks/{task}")
        expect(page.get_by_role("alert")).to_contain_text("no such task")
        page.goto(f"{BASE}/console/audit")
        expect(page.get_by_role("row", name=re.compile(f"root-admin.*purged.*{task}"))).to_be_visible()


def a_viewer_sees_everything_and_changes_nothing():
    task = scripted({"status": "working"}, {"hang": True}, returnImmediately=True, taskPushNotificationConfig={"id": "hook", "url": "http://127.0.0.1:9/hook"})
    with signed_in(VIEWER, f"tasks/{task}") as page:
        expect(page.get_by_role("table").get_by_text("Task opened")).to_be_visible()
        views = page.get_by_role("navigation", name="Views").get_by_role("link").all_inner_texts()
        assert views == ["Overview", "Tasks", "Inbox", "Agents", "Playground", "Deliveries", "Store"], views
        buttons = set(page.get_by_role("button").all_inner_texts())
        assert buttons == {"Auto", "?", "Sign out", "Previous", "Next"}, buttons
        page.get_by_role("link", name="Deliveries").last.click()
        expect(page.get_by_role("row", name=re.compile("hook http"))).to_be_visible()
        expect(page.get_by_role("button", name="Deliver again")).to_have_count(0)
        # The server refuses as well.
        said = page.evaluate(
            """async path => {
                const { csrf } = await (await fetch('/api/admin/v1/session')).json();
                return (await fetch(path, { method: 'POST', headers: { 'x-csrf-token': csrf } })).status;
            }""",
            f"/api/admin/v1/tasks/{task}:cancel",
        )
        assert said == 403, said


def a_product_that_is_not_served_has_no_view():
    with signed_in(ADMIN, "market") as page:
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()


def markup_stays_text():
    parts = [
        {"text": f"{MARKUP}<script>document.documentElement.dataset.pwned='yes'</script>"},
        {"data": {MARKUP: {"deep": [MARKUP, {MARKUP: None}]}}},
        {"raw": "PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+", "filename": MARKUP, "mediaType": "image/svg+xml"},
        {"url": "javascript:document.documentElement.dataset.pwned='yes'", "filename": f"b{MARKUP}", "mediaType": "text/html"},
    ]
    ids = [
        sent(*parts),
        scripted({"artifact": {"name": MARKUP, "description": MARKUP, "parts": parts}}, {"fail": MARKUP}),
        sent({"text": MARKUP}, path="/"),
    ]
    with signed_in(ADMIN, "tasks") as page:
        for task in ids:
            for tab in ("", "/conversation", "/wire", "/deliveries"):
                page.goto(f"{BASE}/console/tasks/{task}{tab}")
                expect(page.get_by_role("heading", name=task)).to_be_visible()
                if tab != "/deliveries":
                    expect(page.get_by_text("<img src=x").first).to_be_visible()
                assert page.locator("main img[src=x], main b, main svg").count() == 0
                assert page.locator("a[href^=javascript]").count() == 0
        for view in ("tasks", "agents", "inbox", "audit", f"tasks?q={quote(MARKUP)}"):
            page.goto(f"{BASE}/console/{view}")
            expect(page.locator("main h1")).to_be_visible()
        page.goto(f"{BASE}/console/agents")
        page.get_by_role("link", name="<b>bold", exact=True).click()
        expect(page.get_by_role("heading", name="Agent <b>bold")).to_be_visible()
        assert page.locator("main b").count() == 0
    with browsing() as page:
        page.goto(BASE)
        expect(page.get_by_text("<b>bold")).to_be_visible()


def webhooks_are_shown_and_delivered_again():
    task = scripted({"complete": "done"}, taskPushNotificationConfig={"id": "hook", "url": "http://127.0.0.1:9/hook", "token": "tok-secret"})
    with signed_in(ADMIN, f"tasks/{task}/deliveries") as page:
        row = page.get_by_role("row", name=re.compile("hook http"))
        expect(row).to_contain_text("127.0.0.1:9")
        row.get_by_role("button", name="Deliver again").click()
        page.get_by_role("dialog").get_by_role("button", name="Deliver again").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert "tok-secret" not in page.content()
        page.get_by_role("link", name="Timeline").click()
        expect(page.get_by_role("table").get_by_text("127.0.0.1:9: ")).to_be_visible()


def a_key_is_made_shown_once_and_revoked_with_its_sessions():
    with signed_in(ADMIN, "keys") as page:
        page.get_by_label("Name").fill("guest")
        page.get_by_label("Scopes").fill("viewer")
        page.get_by_role("button", name="Make a key").click()
        secret = page.locator("code", has_text="rk_").inner_text()
        page.get_by_role("button", name="I have it").click()
        assert secret not in page.content()
        with signed_in(secret) as other:
            expect(other.get_by_text("guest (viewer)")).to_be_visible()
            page.get_by_role("row", name=re.compile("guest")).get_by_role("button", name="Revoke").click()
            page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
            expect(page.get_by_role("row", name=re.compile("guest.*revoked"))).to_be_visible()
            expect(other.get_by_role("button", name="Sign in")).to_be_visible()


def the_policy_is_asked_without_doing_anything():
    with signed_in(ADMIN, "policy") as page:
        page.get_by_label("Caller").fill("ann")
        page.get_by_label("Scopes").fill("tasks:read")
        page.get_by_label("Agent").select_option("echo")
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_text("No: no scope of the caller covers it")).to_be_visible()
        page.get_by_label("Operation").select_option("get")
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_text("the scope tasks:read covers it")).to_be_visible()


def everything_is_reached_by_the_keyboard():
    asking = scripted({"input": "may I?"})
    with signed_in(ADMIN) as page:
        page.keyboard.press("g")
        page.keyboard.press("t")
        expect(link_to(page, asking)).to_be_visible()
        page.keyboard.press("j")
        expect(link_to(page, asking)).to_be_focused()
        page.keyboard.press("j")
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=asking)).to_be_visible()
        page.keyboard.press("g")
        page.keyboard.press("i")
        expect(page.get_by_role("row", name=re.compile("may I")).get_by_role("link", name=asking)).to_be_visible()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("o")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def axe_finds_nothing_serious():
    task = scripted(
        {"artifact": {"name": "a", "parts": [{"data": {"a": [1, {"b": 2}]}}, {"raw": "aGk=", "filename": "a.txt"}]}},
        {"fail": "out of paper"},
        taskPushNotificationConfig={"id": "hook", "url": "http://127.0.0.1:9/hook"},
    )
    scripted({"input": "and now?"})
    views = [
        ("", "What to look at"), ("tasks", task), (f"tasks/{task}", "Status: failed"), (f"tasks/{task}/conversation", "Artifacts"),
        (f"tasks/{task}/wire", "lines differ"), (f"tasks/{task}/deliveries", "127.0.0.1:9"), ("inbox", "and now?"), ("agents", "scripted"),
        ("agents/scripted", "Limits"), ("deliveries", "127.0.0.1:9"), ("keys", "root-admin"), ("policy", "Nothing is done"), ("audit", "created"),
    ]

    for scheme in ("light", "dark"):
        with browsing(color_scheme=scheme) as page:
            page.goto(f"{BASE}/console/")
            expect(page.get_by_role("button", name="Sign in")).to_be_visible()
            axe_check(page, (scheme, "sign in"))
        with signed_in(ADMIN, color_scheme=scheme) as page:
            for view, says in views:
                page.goto(f"{BASE}/console/{view}")
                expect(page.locator("main").get_by_text(says).first).to_be_visible()
                axe_check(page, (scheme, view))


def three_questions_take_five_clicks_at_most():
    task = scripted({"status": "working"}, {"fail": "the printer is out of paper"})
    context = {"permissions": ["clipboard-read", "clipboard-write"]}
    with signed_in(ADMIN, **context) as page:
        # Why did this task fail?
        person = Person(page)
        person.click(page.get_by_role("link", name=re.compile("failed")))
        person.click(link_to(page, task))
        expect(page.get_by_text("Why it failed: the printer is out of paper")).to_be_visible()
        assert person.clicks <= 5, person.clicks
        # What did the caller receive?
        person = Person(page)
        person.click(page.get_by_role("link", name="Wire"))
        expect(page.get_by_role("columnheader", name="A2A 1.0")).to_be_visible()
        expect(page.get_by_role("cell", name=re.compile("TASK_STATE_FAILED"))).to_be_visible()
        assert person.clicks <= 5, person.clicks
        # Does 0.3 work? The other side shows what it answers, and the command asks for it.
        expect(page.get_by_role("columnheader", name="A2A 0.3")).to_be_visible()
        expect(page.get_by_role("cell", name='"state": "failed"')).to_be_visible()
        assert page.locator("mark").count() > 0
        for version in ("0.3", "1.0"):
            person.click(page.get_by_role("button", name=f"Copy as curl ({version})"))
            expect(page.get_by_text("Copied").first).to_be_visible()
            command = page.evaluate("navigator.clipboard.readText()")
            done = subprocess.run(["sh", "-c", command], env={**os.environ, "RIALTO_KEY": CALLER}, capture_output=True, text=True, check=True)
            answer = json.loads(done.stdout)
            assert answer.get("result", answer)["id"] == task, answer
        assert person.clicks <= 5, person.clicks
        page.get_by_label("Right").select_option("0.1")
        expect(page.get_by_role("columnheader", name="A2A 0.1")).to_be_visible()
        assert "right=0.1" in page.url, page.url


SCENARIOS = [
    the_printed_link_signs_in_once,
    a_key_signs_in_where_one_was_going,
    tasks_are_listed_filtered_and_found,
    a_timeline_grows_while_it_is_read,
    a_task_is_canceled_and_purged_after_a_question,
    a_viewer_sees_everything_and_changes_nothing,
    a_product_that_is_not_served_has_no_view,
    markup_stays_text,
    webhooks_are_shown_and_delivered_again,
    a_key_is_made_shown_once_and_revoked_with_its_sessions,
    the_policy_is_asked_without_doing_anything,
    everything_is_reached_by_the_keyboard,
    axe_finds_nothing_serious,
    three_questions_take_five_clicks_at_most,
]

run(SCENARIOS)
