"""Chromium at the page of a task and at the inbox; console_kit says how it is called. Programs that the console offers are run."""

import json
import os
import re
import subprocess
from pathlib import Path

from console_kit import ADMIN, BASE, CALLER, MARKUP, VIEWER, axe_check, expect, rpc, run, scripted, sent, signed_in

CLIENTS = Path(__file__).resolve().parent.parent
SCHEMA = {
    "type": "object",
    "required": ["colour", "count"],
    "properties": {
        "colour": {"type": "string", "enum": ["red", "blue"], "enumNames": ["Red", MARKUP], "title": "Colour"},
        "count": {"type": "integer", "minimum": 1, "title": "Count", "description": f"How many? {MARKUP}"},
        "price": {"type": "number", "title": "Price"},
        "note": {"type": "string", "title": "Note"},
        "gloss": {"type": "boolean", "title": "Gloss"},
    },
}


def asking(schema=None, **more):
    """A task that asks, and gives the answer back."""
    data = [{"data": {"question": "paint?", "schema": schema}}] if schema else []
    return scripted({"input": {"parts": [{"text": "Which paint?"}, *data]}}, {"echo": True}, {"complete": "painted"}, **more)


def answer_of(task):
    """The parts that the agent gave back."""
    return rpc("GetTask", {"id": task})["artifacts"][0]["parts"]


def a_form_made_from_the_schema_answers():
    task = asking(SCHEMA)
    with signed_in(ADMIN, f"tasks/{task}/wire") as page:
        form = page.get_by_role("form", name="Answer")
        expect(form.get_by_text("How many?")).to_be_visible()
        assert page.locator("main img[src=x]").count() == 0
        axe_check(page, "answer")
        form.get_by_label("Colour").select_option(label="Red")
        form.get_by_label("Count").fill("3")
        form.get_by_label("Price").fill("2.5")
        form.get_by_label("Gloss").check()
        form.get_by_role("button", name="JSON").click()
        assert json.loads(form.get_by_label("Data of the answer").input_value()) == {"colour": "red", "count": 3, "price": 2.5, "gloss": True}
        form.get_by_label("Data of the answer").fill("{")
        form.get_by_role("button", name="Answer", exact=True).click()
        expect(form.get_by_role("alert")).to_contain_text("not JSON")
        form.get_by_role("button", name="Form").click()
        form.get_by_role("button", name="Answer", exact=True).click()
        expect(page.get_by_role("heading", name=task)).to_contain_text("completed")
        expect(form).to_have_count(0)
    assert answer_of(task) == [{"data": {"colour": "red", "count": 3, "price": 2.5, "gloss": True}}], answer_of(task)


def a_question_is_answered_by_text_and_file_in_the_inbox():
    first, second = asking(), asking()
    with signed_in(ADMIN, "inbox") as page:
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=first, exact=True))
        row.get_by_role("button", name="Answer").click()
        assert f"answer={first}" in page.url, page.url
        form = page.get_by_role("form", name="Answer")
        form.get_by_role("textbox", name="Answer").fill(f"blue {MARKUP}")
        form.get_by_label("Files").set_input_files({"name": "swatch.txt", "mimeType": "text/plain", "buffer": b"blue"})
        axe_check(page, "inbox")
        form.get_by_role("button", name="Answer", exact=True).click()
        expect(page.get_by_role("link", name=first, exact=True)).to_have_count(0)
        # An address opens the question that it names.
        page.goto(f"{BASE}/console/inbox?answer={second}")
        expect(form).to_be_visible()
        rpc("SendMessage", {"message": {"messageId": "own", "role": "ROLE_USER", "taskId": second, "parts": [{"text": "mine"}]}})
        expect(form).to_have_count(0)
        page.goto(f"{BASE}/console/audit")
        expect(page.get_by_role("row", name=re.compile(f"root-admin.*answered.*{first}"))).to_be_visible()
    assert answer_of(first) == [{"text": f"blue {MARKUP}"}, {"raw": "Ymx1ZQ==", "filename": "swatch.txt", "mediaType": "text/plain"}], answer_of(first)


def a_viewer_answers_and_sends_nothing():
    task = asking(SCHEMA)
    with signed_in(VIEWER, f"tasks/{task}/resend") as page:
        expect(page.get_by_text("Your role sends no messages.")).to_be_visible()
        expect(page.get_by_role("link", name="Resend")).to_have_count(0)
        expect(page.get_by_role("form", name="Answer")).to_have_count(0)
        page.goto(f"{BASE}/console/inbox?answer={task}")
        expect(page.get_by_role("link", name=task, exact=True)).to_be_visible()
        expect(page.get_by_role("form", name="Answer")).to_have_count(0)
        expect(page.get_by_role("button", name="Answer")).to_have_count(0)


def copied(page, label):
    page.evaluate("navigator.clipboard.writeText('')")
    page.get_by_role("button", name=label, exact=True).click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()) !== ''")
    return page.evaluate("navigator.clipboard.readText()")


def done(*command, stdin=None, key=CALLER):
    ran = subprocess.run(command, input=stdin, env={**os.environ, "RIALTO_KEY": key}, capture_output=True, text=True)
    assert ran.returncode == 0, (command, ran.stderr)
    return ran.stdout


def shown_text(page, side):
    """A side of the comparison as text."""
    return page.evaluate(
        """side => [...document.querySelectorAll('main tbody tr')]
            .map(row => row.children[side].querySelector('pre')?.textContent)
            .filter(line => line !== undefined).join('\\n')""",
        side,
    )


def every_form_is_shown_and_what_is_copied_runs():
    task = scripted({"artifact": {"name": "a", "parts": [{"text": "it's \"quoted\""}, {"data": {"k": [1, True, None]}}]}}, {"complete": "done"})
    with signed_in(ADMIN, f"tasks/{task}/wire", permissions=["clipboard-read", "clipboard-write"]) as page:
        expect(page.get_by_role("columnheader", name="A2A 1.0", exact=True)).to_be_visible()
        names = page.get_by_label("Left").locator("option").evaluate_all("all => all.map(one => one.value)")
        assert names[:7] == ["1.0", "0.3", "0.3-rest", "0.2", "0.1", "grpc", "grpc-0.3"], names
        for name in names:
            page.get_by_label("Left").select_option(name)
            expect(page.get_by_role("button", name=f"Copy as rialto ({name})")).to_be_visible()
            page.get_by_label("Right").select_option("0.2" if name == "1.0" else "1.0")
            title = page.get_by_label("Left").locator(f"option[value='{name}']").inner_text().removesuffix(" (what the caller speaks)")
            expect(page.get_by_role("columnheader", name=title, exact=True)).to_be_visible()
            expect(page.get_by_text(re.compile("lines differ|are the same"))).to_be_visible()
            assert f"left={name}" in page.url, page.url
            assert copied(page, f"Copy as rialto ({name})") == f"rialto task show {task}"
            python = copied(page, f"Copy as Python ({name})")
            if name.startswith("grpc"):
                assert "grpcurl" in copied(page, f"Copy as grpcurl ({name})")
                expect(page.locator("main tbody")).to_contain_text("state: TASK_STATE_COMPLETED")
                client = "python" if name == "grpc" else "python-0.3"
                said = done(CLIENTS / client / ".venv/bin/python", "-", stdin=python)
                # Maps have no order in Python.
                assert sorted(said.strip().split("\n")) == sorted(shown_text(page, 0).split("\n")), (name, said, shown_text(page, 0))
                continue
            # The form of a product is asked for at the admin API.
            key = CALLER if name[0].isdigit() else ADMIN
            answers = [
                done(CLIENTS / "python/.venv/bin/python", "-", stdin=python, key=key),
                done("node", "--input-type=module", "-", stdin=copied(page, f"Copy as JavaScript ({name})"), key=key),
                done("sh", "-c", copied(page, f"Copy as curl ({name})"), key=key),
            ]
            for answer in answers:
                answer = json.loads(answer)
                assert task in answer.get("result", answer)["id"] or name == "aly", (name, answer)
        page.get_by_label("Left").select_option("grpc")
        page.get_by_label("Right").select_option("grpc-0.3")
        expect(page.get_by_role("columnheader", name="A2A 0.3 over gRPC")).to_be_visible()
        axe_check(page, "wire")


def a_message_is_sent_again_and_the_outcomes_are_compared():
    task = sent({"text": "fail: out of paper"})
    with signed_in(ADMIN, f"tasks/{task}") as page:
        page.get_by_role("link", name="Resend").click()
        draft = page.get_by_label("Message", exact=True)
        expect(draft).to_have_value("fail: out of paper")
        draft.fill("complete: printed")
        page.get_by_role("button", name="Send as a new task").click()
        outcomes = page.get_by_role("table", name="Outcomes")
        expect(outcomes.get_by_role("cell", name="state: completed")).to_be_visible()
        expect(outcomes.get_by_role("cell", name="state: failed")).to_be_visible()
        expect(outcomes.locator("mark").filter(has_text="printed")).to_be_visible()
        axe_check(page, "resend")
        new = re.search("with=([0-9a-f-]+)", page.url)[1]
        page.reload()
        expect(outcomes.get_by_role("cell", name="state: completed")).to_be_visible()
        outcomes.get_by_role("link", name=new).click()
        expect(page.get_by_role("heading", name=new)).to_contain_text("completed")
        expect(page.get_by_text("root-admin", exact=True)).to_be_visible()
        # As JSON, to another agent.
        page.goto(f"{BASE}/console/tasks/{task}/resend")
        page.get_by_role("button", name="Edit as JSON").click()
        draft = page.get_by_label("Message, as JSON")
        assert json.loads(draft.input_value()) == {"role": "ROLE_USER", "parts": [{"text": "fail: out of paper"}]}, draft.input_value()
        draft.fill("[]")
        page.get_by_role("button", name="Send as a new task").click()
        expect(page.get_by_role("alert")).to_contain_text("no message")
        draft.fill(json.dumps({"parts": [{"text": MARKUP}, {"data": {"a": 1}}]}))
        page.get_by_label("Agent").select_option("echo")
        page.get_by_role("button", name="Send as a new task").click()
        expect(outcomes.locator("mark").filter(has_text="<img src=x").first).to_be_visible()
        expect(outcomes.get_by_role("cell", name=re.compile("by echo"))).to_be_visible()
        assert page.locator("main img[src=x]").count() == 0


def a_task_is_shown_as_of_any_event():
    task = scripted({"status": "working", "text": "begun"}, {"artifact": {"name": "a", "parts": [{"text": "first"}]}}, {"fail": "out of paper"})
    with signed_in(ADMIN, f"tasks/{task}") as page:
        slider = page.get_by_role("slider", name="As of event")
        expect(page.get_by_text("the task is settled")).to_be_visible()
        numbers = {row.get_attribute("data-item"): row.inner_text() for row in page.locator("summary[data-item]").all()}
        seq = {title: int(number) for number, title in numbers.items()}
        slider.fill(str(seq["Artifact a"]))
        then = page.get_by_role("region", name=f"The task as of event {seq['Artifact a']}")
        expect(then).to_contain_text("working")
        expect(then).to_contain_text("begun")
        expect(then).to_contain_text("first")
        assert f"at={seq['Artifact a']}" in page.url, page.url
        axe_check(page, "as of")
        page.reload()
        expect(then).to_contain_text("first")
        page.get_by_role("button", name="Previous").click()
        then = page.get_by_role("region", name=f"The task as of event {seq['Artifact a'] - 1}")
        expect(then).to_be_visible()
        expect(then).not_to_contain_text("first")
        page.get_by_role("button", name="Next").click()
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_role("region", name=f"The task as of event {seq['Status: failed']}")).to_contain_text("out of paper")
        page.get_by_role("button", name="Back to now").click()
        expect(page.get_by_role("region")).to_have_count(0)
        assert "at=" not in page.url, page.url


def a_bundle_is_downloaded():
    task = scripted({"complete": "done"})
    with signed_in(VIEWER, f"tasks/{task}") as page:
        for link, content in [("Bundle for a bug report", "whole"), ("Bundle without content", "none")]:
            with page.expect_download() as download:
                page.get_by_role("link", name=link).click()
            assert download.value.suggested_filename == f"rialto-task-{task}.json", download.value.suggested_filename
            bundle = json.loads(Path(download.value.path()).read_text())
            assert (bundle["id"], bundle["content"]) == (task, content), bundle


def many_tasks_are_canceled_at_once():
    hanging = [scripted({"status": "working"}, {"hang": True}, returnImmediately=True) for _ in range(2)]
    over = scripted({"complete": "done"})
    with signed_in(ADMIN, "tasks?agent=scripted") as page:
        for task in [*hanging, over]:
            page.get_by_role("checkbox", name=f"Choose {task}").check()
        expect(page.get_by_text("3 tasks chosen")).to_be_visible()
        page.get_by_role("button", name="Cancel them").click()
        expect(page.get_by_role("dialog")).to_contain_text("Cancel 3 tasks?")
        page.get_by_role("dialog").get_by_role("button", name="Cancel them").click()
        expect(page.get_by_text("2 canceled; 1 refused: ")).to_be_visible()
        expect(page.get_by_text("tasks chosen")).to_have_count(0)
        for task in hanging:
            expect(page.get_by_role("row").filter(has=page.get_by_role("link", name=task, exact=True))).to_contain_text("canceled")
        page.get_by_role("checkbox", name="Choose all that are loaded").check()
        expect(page.get_by_text(re.compile(r"\d+ tasks chosen"))).to_be_visible()
        axe_check(page, "bulk")
        page.get_by_role("button", name="Choose none").click()
        expect(page.get_by_role("checkbox", name="Choose all that are loaded")).not_to_be_checked()
    told = scripted({"complete": "done"}, taskPushNotificationConfig={"id": "hook", "url": "http://127.0.0.1:9/hook"})
    with signed_in(ADMIN, "tasks?agent=scripted") as page:
        page.get_by_role("checkbox", name=f"Choose {told}").check()
        page.get_by_role("button", name="Deliver again").click()
        page.get_by_role("dialog").get_by_role("button", name="Deliver again").click()
        expect(page.get_by_text("1 delivered again")).to_be_visible()
    with signed_in(VIEWER, "tasks") as page:
        expect(page.get_by_role("link", name=told, exact=True)).to_be_visible()
        expect(page.get_by_role("checkbox")).to_have_count(0)


SCENARIOS = [
    a_form_made_from_the_schema_answers,
    a_question_is_answered_by_text_and_file_in_the_inbox,
    a_viewer_answers_and_sends_nothing,
    every_form_is_shown_and_what_is_copied_runs,
    a_message_is_sent_again_and_the_outcomes_are_compared,
    a_task_is_shown_as_of_any_event,
    many_tasks_are_canceled_at_once,
    a_bundle_is_downloaded,
]

run(SCENARIOS)
