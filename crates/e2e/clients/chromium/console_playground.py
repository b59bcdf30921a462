"""Chromium at the playground of the console; console_kit says how it is called. More arguments are the address of an agent of another server,
that of a server that lets no call reach this machine, and the key of the latter's admin."""

import json
import os
import re
import subprocess
import sys
from urllib.parse import quote

from console_kit import ADMIN, BASE, CALLER, MARKUP, VIEWER, axe_check, expect, run, signed_in

OTHER, STRICT, STRICT_ADMIN = sys.argv[7:10]
BINDINGS = [("1.0", "jsonrpc"), ("1.0", "http"), ("1.0", "grpc"), ("0.3", "jsonrpc"), ("0.3", "http"), ("0.3", "grpc"), ("0.2", "jsonrpc"), ("0.1", "jsonrpc")]
CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


def events(page):
    return page.get_by_role("list", name="Events").get_by_role("listitem")


def wire(page):
    """The newest call."""
    return page.locator("section[aria-labelledby=wire-title] > details").first


def credential(page, key=CALLER, kind="bearer"):
    page.get_by_label("Credential").select_option(kind)
    page.get_by_label("Its value").fill(key)


def script(page, *steps):
    page.get_by_label("Data (JSON)").fill(json.dumps({"script": list(steps)}))


def send(page):
    page.get_by_role("button", name="Send", exact=True).click()


def resting(page, state):
    """Waits until nothing is read and the task is in this state."""
    expect(page.get_by_text("Not connected.")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Not connected.")).to_contain_text(state)


def at(version, binding, **more):
    query = {"agent": "scripted", "version": version, "binding": binding, **more}
    return "playground?" + "&".join(f"{name}={value}" for name, value in query.items())


def a_message_is_answered_in_every_version_and_binding():
    with signed_in(ADMIN, **CLIPBOARD) as page:
        for version, binding in BINDINGS:
            place = (version, binding)
            page.goto(f"{BASE}/console/{at(version, binding)}")
            expect(page.get_by_label("Version")).to_have_value(version)
            credential(page)
            page.get_by_label("Text", exact=True).fill(f"hello in {version}")
            send(page)
            resting(page, "completed")
            expect(events(page).last).to_contain_text(f"hello in {version}")
            request = wire(page).locator("pre").first
            expect(request).to_contain_text("Authorization: Bearer ••••••")
            assert CALLER not in page.locator("main").inner_html(), place
            if binding == "grpc":
                expect(request).to_contain_text("A2AService/SendMessage")
                expect(wire(page)).to_contain_text("grpc-status: 0")
                expect(wire(page)).to_contain_text("as protobuf")
            elif version == "0.1":
                expect(wire(page)).to_contain_text('"tasks/send"')
            # The same by the command.
            page.get_by_role("button", name="Copy as curl").first.click()
            expect(page.get_by_text("Copied").first).to_be_visible()
            command = page.evaluate("navigator.clipboard.readText()")
            assert CALLER not in command, place
            done = subprocess.run(["bash", "-c", command], env={**os.environ, "A2A_KEY": CALLER}, capture_output=True, check=True)
            assert f"hello in {version}".encode() in done.stdout, (place, command, done.stdout)
            # Get and list.
            page.get_by_role("button", name="Get the task").click()
            expect(wire(page).locator("summary")).to_contain_text(re.compile("get|Get", re.I))
            expect(events(page).last).to_contain_text("Task: completed")
            lists = page.get_by_role("button", name="List tasks")
            if version == "1.0":
                lists.click()
                expect(events(page).last).to_contain_text("Tasks: ")
            else:
                expect(lists).to_have_count(0)


def a_stream_is_dropped_and_resumed_without_a_lost_or_repeated_event():
    chunks = 60
    with signed_in(ADMIN) as page:
        for version, binding in BINDINGS:
            page.goto(f"{BASE}/console/{at(version, binding, mode='stream')}")
            credential(page)
            # The stream is open until the task is canceled, so that there is something to drop whenever that happens.
            script(page, {"artifact": {"artifactId": "a", "parts": [{"text": "la "}]}, "chunks": chunks, "every_ms": 25}, {"hang": True})
            send(page)
            told = events(page).filter(has_text=re.compile(r"^\s*(Artifact|More of artifact) "))
            expect(told).not_to_have_count(0)
            page.get_by_role("button", name="Drop the connection").click()
            expect(page.get_by_text("Not connected.")).to_be_visible()
            expect(wire(page).locator("summary")).to_contain_text("dropped")
            page.get_by_role("button", name="Resume the stream").click()
            expect(wire(page).locator("pre").first).to_contain_text("Last-Event-ID: ")
            expect(told).to_have_count(chunks)
            page.get_by_role("button", name="Cancel the task").click()
            resting(page, "canceled")
            expect(told).to_have_count(chunks)
            # A settled task is told again after the event that was seen last, which is its last one.
            page.get_by_role("button", name="Resume the stream").click()
            resting(page, "canceled")
            expect(told).to_have_count(chunks)


def a_task_that_asks_is_continued():
    with signed_in(ADMIN) as page:
        for version, binding in BINDINGS:
            page.goto(f"{BASE}/console/{at(version, binding, mode='stream')}")
            credential(page)
            script(page, {"input": "which colour?"}, {"echo": True}, {"complete": "painted"})
            send(page)
            resting(page, "input-required")
            page.get_by_role("button", name="Continue the task").click()
            page.get_by_label("Data (JSON)").fill("")
            page.get_by_label("Text", exact=True).fill("the red one")
            send(page)
            resting(page, "completed")
            expect(events(page).filter(has_text="the red one")).not_to_have_count(0)


def a_task_is_canceled_while_its_stream_is_read():
    with signed_in(ADMIN) as page:
        for version, binding in BINDINGS:
            page.goto(f"{BASE}/console/{at(version, binding, mode='stream')}")
            credential(page, kind="key")
            script(page, {"status": "working", "text": "on it"}, {"hang": True})
            send(page)
            expect(events(page).filter(has_text="on it")).not_to_have_count(0)
            page.get_by_role("button", name="Cancel the task").click()
            resting(page, "canceled")
            expect(page.get_by_role("button", name="Cancel the task")).to_have_count(0)
            expect(wire(page).locator("pre").first).to_contain_text("X-Api-Key: ••••••")


def files_and_data_are_sent():
    with signed_in(ADMIN) as page:
        for version, binding in BINDINGS:
            page.goto(f"{BASE}/console/{at(version, binding)}")
            credential(page)
            page.get_by_label("Files: pick them").set_input_files([{"name": "a.txt", "mimeType": "text/plain", "buffer": b"in a file"}])
            # The same by dropping it.
            dropped = page.evaluate_handle("() => { const all = new DataTransfer(); all.items.add(new File(['dropped'], 'b.csv', { type: 'text/csv' })); return all; }")
            page.locator("fieldset").dispatch_event("drop", {"dataTransfer": dropped})
            picked = page.get_by_role("list", name="Files of the message").get_by_role("listitem")
            expect(picked).to_have_count(2)
            page.get_by_label("Data (JSON)").fill('{"n": [1, null, "x"]}')
            send(page)
            resting(page, "completed")
            for words in ("a.txt", "b.csv", '"n"'):
                expect(events(page).last).to_contain_text(words)
        page.get_by_role("button", name="Remove a.txt").click()
        expect(picked).to_have_count(1)
        page.get_by_label("Data (JSON)").fill("{")
        send(page)
        expect(page.get_by_role("alert")).to_contain_text("no JSON")


def a_wrong_credential_is_told():
    with signed_in(ADMIN) as page:
        for version, binding in BINDINGS:
            for kind in ("bearer", "none"):
                page.goto(f"{BASE}/console/{at(version, binding)}")
                if kind != "none":
                    credential(page, key="rk_wrong")
                page.get_by_label("Text", exact=True).fill("hello")
                send(page)
                # The cookie of the console is no credential of an agent.
                expect(events(page).last).to_contain_text(re.compile("Error|gRPC status 16"))
                resting(page, "")
                assert page.get_by_role("link", name="Its timeline").count() == 0


def extensions_and_headers_are_sent():
    with signed_in(ADMIN, at("1.0", "jsonrpc")) as page:
        credential(page)
        page.get_by_text("Task, extensions and headers").click()
        page.get_by_label("Extensions").fill("https://example.com/ext/a\nhttps://example.com/ext/b")
        page.get_by_label("Extra headers").fill("Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\nX-Secret: s3cr3t")
        page.get_by_label("Text", exact=True).fill("hello")
        with page.expect_request(f"{BASE}/a2a/scripted") as asked:
            send(page)
        sent_headers = asked.value.headers
        assert sent_headers["a2a-extensions"] == "https://example.com/ext/a, https://example.com/ext/b", sent_headers
        assert sent_headers["x-secret"] == "s3cr3t" and "cookie" not in sent_headers, sent_headers
        resting(page, "completed")
        page.get_by_label("Extra headers").fill("no header")
        send(page)
        expect(page.get_by_role("alert")).to_contain_text("Name: value")


def earlier_calls_are_replayed_without_stored_credentials():
    with signed_in(ADMIN, at("0.3", "http")) as page:
        credential(page)
        page.get_by_text("Task, extensions and headers").click()
        page.get_by_label("Extra headers").fill("Accept-Language: en\nX-Secret: s3cr3t\nAuthorization-Of: s3cr3t")
        page.get_by_label("Text", exact=True).fill("to be kept")
        send(page)
        resting(page, "completed")
        stored = page.evaluate("JSON.stringify(localStorage)")
        assert "to be kept" in stored and "Accept-Language: en" in stored, stored
        for secret in (CALLER, "s3cr3t", ADMIN):
            assert secret not in stored, stored
        page.goto(f"{BASE}/console/playground")
        page.get_by_text("Earlier calls (1)").click()
        # Without the credential of before it is refused.
        credential(page)
        page.get_by_role("button", name="Replay").click()
        resting(page, "completed")
        assert "version=0.3" in page.url and "binding=http" in page.url, page.url
        expect(events(page).last).to_contain_text("to be kept")
        expect(page.get_by_text("Earlier calls (2)")).to_be_visible()
        page.get_by_role("button", name="Clear the history").click()
        expect(page.get_by_text("Earlier calls (0)")).to_be_visible()
        assert "to be kept" not in page.evaluate("JSON.stringify(localStorage)")


def webhooks_arrive_at_the_receiver():
    with signed_in(ADMIN, at("1.0", "jsonrpc")) as page:
        page.get_by_role("button", name="Make a receiver").click()
        expect(page.get_by_text("Nothing has arrived yet.")).to_be_visible()
        arrived = page.get_by_role("list", name="Received webhooks").get_by_role("listitem")
        credential(page)
        for version, binding in BINDINGS:
            page.get_by_label("Version").select_option(version)
            if version in ("1.0", "0.3"):
                page.get_by_label("Binding").select_option(binding)
            page.get_by_label("Text", exact=True).fill(f"{version} by {binding}")
            before = arrived.count()
            send(page)
            resting(page, "completed")
            expect(arrived.first).to_contain_text(re.compile("completed", re.I))
            page.wait_for_function("before => document.querySelectorAll('[aria-label=\"Received webhooks\"] > li').length > before", arg=before)
            newest = arrived.filter(has_text=f"{version} by {binding}").first
            expect(newest).to_contain_text("webhook-signature: v1,")
            expect(newest).to_contain_text("x-a2a-notification-token: ")
        # Its requests are there after a reload.
        expect(page.get_by_text(re.compile(r"^\d+ arrived"))).to_be_visible()
        page.reload()
        expect(arrived.first).to_contain_text("webhook-signature: v1,")
        page.get_by_role("button", name="Remove the receiver").click()
        expect(page.get_by_role("button", name="Make a receiver")).to_be_visible()
        assert "receiver=" not in page.url, page.url


def elsewhere(page, address):
    page.get_by_role("combobox", name="Agent").select_option(label="An address elsewhere")
    page.get_by_role("textbox", name="Address").fill(address)
    page.get_by_role("textbox", name="Address").blur()
    page.get_by_label("Text", exact=True).fill("hello over there")


def an_address_elsewhere_is_called_by_the_server():
    with signed_in(ADMIN) as page:
        for version, binding in BINDINGS:
            for mode in ("send", "stream"):
                page.goto(f"{BASE}/console/playground?version={version}&binding={binding}&mode={mode}")
                elsewhere(page, OTHER)
                assert f"url={quote(OTHER, safe='')}" in page.url, page.url
                send(page)
                resting(page, "completed")
                expect(events(page).filter(has_text="hello over there")).not_to_have_count(0)
                expect(wire(page).locator("pre").first).to_contain_text(OTHER)
        # What may be secret in an address is in no address of the page.
        page.get_by_role("textbox", name="Address").fill(f"{OTHER}?key=s3cr3t")
        page.get_by_role("textbox", name="Address").blur()
        assert "s3cr3t" not in page.url, page.url
        page.get_by_role("textbox", name="Address").fill("http://169.254.169.254/latest")
        send(page)
        expect(events(page).last).to_contain_text("not public")
        assert "s3cr3t" not in page.evaluate("JSON.stringify(localStorage)")


def an_address_of_this_machine_is_refused_where_callers_come_from_elsewhere():
    with signed_in(STRICT_ADMIN, "playground", base=STRICT) as page:
        elsewhere(page, OTHER)
        send(page)
        expect(events(page).last).to_contain_text("push.allow")
        expect(wire(page).locator("summary")).to_contain_text("no answer")
        page.get_by_role("button", name="Make a receiver").click()
        expect(page.get_by_text("This server may not post to its own address")).to_contain_text("push.allow")


def a_viewer_calls_agents_and_is_told_what_the_rest_needs():
    with signed_in(VIEWER, f"playground?url={OTHER}") as page:
        expect(page.get_by_text("Addresses elsewhere are for admins of all tenants")).to_be_visible()
        expect(page.get_by_text("needs the role operator")).to_be_visible()
        expect(page.get_by_role("textbox", name="Address")).to_have_count(0)
        expect(page.get_by_role("button", name="Make a receiver")).to_have_count(0)
        page.get_by_role("combobox", name="Agent").select_option("echo")
        credential(page)
        page.get_by_label("Text", exact=True).fill("as a viewer")
        send(page)
        resting(page, "completed")
        page.get_by_role("link", name="Its timeline").click()
        expect(page.get_by_role("table").get_by_text("Task opened")).to_be_visible()


def markup_in_answers_stays_text():
    with signed_in(ADMIN, at("1.0", "jsonrpc", mode="stream")) as page:
        credential(page)
        parts = [{"text": MARKUP}, {"data": {MARKUP: MARKUP}}, {"raw": "aGk=", "filename": MARKUP}]
        script(page, {"artifact": {"name": MARKUP, "parts": parts}}, {"fail": MARKUP})
        page.get_by_role("button", name="Make a receiver").click()
        expect(page.get_by_text("Nothing has arrived yet.")).to_be_visible()
        send(page)
        resting(page, "failed")
        expect(page.get_by_role("list", name="Received webhooks").get_by_role("listitem").first).to_contain_text("<img src=x")
        assert page.locator("main img").count() == 0
        page.goto(f"{BASE}/console/playground?agent={MARKUP}")
        expect(page.get_by_text("There is no agent <img")).to_be_visible()


def axe_finds_nothing_serious():
    for scheme in ("light", "dark"):
        with signed_in(ADMIN, at("1.0", "grpc", mode="stream"), color_scheme=scheme) as page:
            axe_check(page, (scheme, "empty"))
            credential(page)
            page.get_by_role("button", name="Make a receiver").click()
            expect(page.get_by_text("Nothing has arrived yet.")).to_be_visible()
            page.get_by_label("Files: pick them").set_input_files([{"name": "a.txt", "mimeType": "text/plain", "buffer": b"in a file"}])
            script(page, {"artifact": {"name": "a", "parts": [{"text": "x"}]}}, {"fail": "out of paper"})
            send(page)
            resting(page, "failed")
            expect(page.get_by_role("list", name="Received webhooks").get_by_role("listitem").first).to_be_visible()
            page.get_by_text("Task, extensions and headers").click()
            page.get_by_text(re.compile("Earlier calls")).click()
            axe_check(page, (scheme, "after a call"))
            page.get_by_label("Credential").select_option("none")
            send(page)
            expect(events(page).last).to_contain_text("gRPC status 16")
            axe_check(page, (scheme, "after a failure"))


SCENARIOS = [
    a_message_is_answered_in_every_version_and_binding,
    a_stream_is_dropped_and_resumed_without_a_lost_or_repeated_event,
    a_task_that_asks_is_continued,
    a_task_is_canceled_while_its_stream_is_read,
    files_and_data_are_sent,
    a_wrong_credential_is_told,
    extensions_and_headers_are_sent,
    earlier_calls_are_replayed_without_stored_credentials,
    webhooks_arrive_at_the_receiver,
    an_address_elsewhere_is_called_by_the_server,
    an_address_of_this_machine_is_refused_where_callers_come_from_elsewhere,
    a_viewer_calls_agents_and_is_told_what_the_rest_needs,
    markup_in_answers_stays_text,
    axe_finds_nothing_serious,
]

run(SCENARIOS)
