"""Chromium at the views of the server and its agents; console_kit says how it is called."""

import re

from console_kit import ADMIN, BASE, VIEWER, axe_check, expect, link_to, message, rpc, run, scripted, sent, signed_in


def the_last_hour_is_drawn_and_told():
    for number in range(8):
        sent({"text": f"number {number}"})
    scripted({"fail": "no"})
    with signed_in(ADMIN) as page:
        expect(page.get_by_role("heading", name="The last hour of this process")).to_be_visible()
        expect(page.locator("canvas")).to_have_count(4)
        expect(page.get_by_text(re.compile(r"tasks opened, .* of them failed"))).to_be_visible()
        for words in ("open streams", "deliveries in retry", "stored", "process"):
            expect(page.get_by_role("listitem").filter(has_text=words).first).to_be_visible()
        page.get_by_text("The same as a table").click()
        table = page.get_by_role("table").filter(has=page.get_by_role("columnheader", name="Highest p99"))
        expect(table.get_by_role("row")).not_to_have_count(0)
        # Another theme is another drawing, and the numbers go on.
        page.get_by_role("button", name=re.compile("Colours")).click()
        expect(page.locator("canvas")).to_have_count(4)


def agents_show_their_turns_and_cards():
    for _ in range(3):
        scripted({"fail": "no"})
    with signed_in(ADMIN, "agents") as page:
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="scripted", exact=True))
        expect(row).to_contain_text("failing")
        expect(row).to_contain_text("of 16")
        page.get_by_role("link", name="scripted", exact=True).click()
        expect(page.get_by_text("Its last turns all failed.")).to_be_visible()
        sent({"text": "hello"})
        expect(page.get_by_text("It works.")).to_be_visible()
        page.get_by_role("link", name="Cards").click()
        assert page.url.endswith("/agents/scripted/cards"), page.url
        for version in ("1.0", "0.3", "0.2", "0.1"):
            expect(page.get_by_role("heading", name=f"A2A {version}")).to_be_visible()
        expect(page.get_by_role("region", name="Card of A2A 0.3")).to_contain_text("protocolVersion")
        page.reload()
        expect(page.get_by_role("region", name="Card of A2A 1.0")).to_contain_text("supportedInterfaces")
        page.goto(f"{BASE}/console/agents/%3Cb%3Ebold/cards")
        expect(page.get_by_role("region", name="Card of A2A 1.0")).to_contain_text("<b>bold")
        assert page.locator("main b").count() == 0


def a_card_elsewhere_is_compared():
    with signed_in(ADMIN, "agents/far/drift") as page:
        expect(page.get_by_text("The card is as this server took it up.")).to_be_visible()
        page.goto(f"{BASE}/console/agents/scripted/drift")
        expect(page.get_by_text("its card is made here")).to_be_visible()


def an_agent_is_tested_after_a_question():
    with signed_in(ADMIN, "agents/scripted/test") as page:
        page.get_by_role("button", name="Send a test").click()
        page.get_by_role("dialog").get_by_role("button", name="Send a test").click()
        done = page.get_by_role("status").filter(has=page.get_by_role("link", name="the task"))
        expect(done).to_contain_text("completed")
        done.get_by_role("link", name="the task").click()
        expect(page.get_by_role("heading", name=re.compile("completed"))).to_be_visible()
        page.goto(f"{BASE}/console/audit")
        expect(page.get_by_role("row", name=re.compile("root-admin.*tested.*scripted"))).to_be_visible()


def the_config_is_found_by_a_word_and_read_again():
    with signed_in(ADMIN, "config") as page:
        page.get_by_label("Find").fill("streams_per")
        row = page.get_by_role("row", name=re.compile("limits.streams_per_caller"))
        expect(row).to_contain_text("50")
        expect(row).to_contain_text("line")
        assert "q=streams_per" in page.url, page.url
        page.get_by_label("Find").fill("")
        page.get_by_label("Source").select_option("default")
        expect(page.get_by_role("row", name=re.compile("limits.body_bytes"))).to_contain_text("default")
        expect(row).to_have_count(0)
        page.get_by_label("Source").select_option("")
        expect(page.get_by_role("row", name=re.compile("agents.far.headers.X-Plain"))).to_contain_text("***")
        assert "header-secret" not in page.content()
        page.get_by_role("button", name="Reload").click()
        page.get_by_role("dialog").get_by_role("button", name="Reload").click()
        expect(page.get_by_text("The config was read again")).to_be_visible()


def limits_and_the_store_are_shown():
    with signed_in(ADMIN, "limits") as page:
        expect(page.get_by_role("row", name=re.compile("limits.live_mib"))).to_contain_text("MiB")
        expect(page.get_by_role("row", name=re.compile("limits.rate.per_caller"))).to_contain_text("60000")
        expect(page.get_by_role("row", name=re.compile("^ann default"))).to_be_visible()
        page.goto(f"{BASE}/console/store")
        expect(page.get_by_role("heading", name="Replicas and store")).to_be_visible()
        expect(page.get_by_role("row", name=re.compile("^Size"))).to_contain_text("iB")
        expect(page.get_by_role("row", name=re.compile("^completed"))).to_be_visible()


def a_commit_is_on_the_screen_without_being_asked_for():
    with signed_in(ADMIN, "tasks?agent=scripted") as page:
        expect(link_to(page, scripted({"input": "first?"}))).to_be_visible()
        # While the server tells of changes, the page asks by itself once a minute, which is longer than this test waits.
        page.evaluate("window.same = 'page'")
        task = scripted({"input": "second?"})
        expect(link_to(page, task)).to_be_visible()
        rpc("SendMessage", {"message": message({"text": "yes"}, taskId=task)})
        expect(page.get_by_role("row", name=re.compile(f"completed.*{task}"))).to_be_visible()
        assert page.evaluate("window.same") == "page", "the page was loaded again"


def a_viewer_of_one_tenant_has_neither_numbers_nor_buttons():
    with signed_in(VIEWER) as page:
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        expect(page.get_by_text("open tasks")).to_be_visible()
        expect(page.get_by_role("heading", name="The last hour of this process")).to_have_count(0)
        expect(page.get_by_text("open streams")).to_have_count(0)
        page.goto(f"{BASE}/console/agents/scripted")
        expect(page.get_by_role("heading", name="Facts")).to_be_visible()
        expect(page.get_by_role("heading", name="Now")).to_have_count(0)
        parts = page.get_by_role("navigation", name="Parts of the agent").get_by_role("link").all_inner_texts()
        assert parts == ["About", "Cards"], parts
        views = page.get_by_role("navigation", name="Views").get_by_role("link").all_inner_texts()
        assert not {"Limits", "Config"} & set(views), views


def axe_finds_nothing_serious():
    for theme in ("light", "dark"):
        with signed_in(ADMIN, color_scheme=theme) as page:
            expect(page.locator("canvas")).to_have_count(4)
            page.get_by_text("The same as a table").click()
            axe_check(page, f"overview {theme}")
            for view, seen in (
                ("agents", "Failed turns"),
                ("agents/scripted", "Turns that ended"),
                ("agents/scripted/cards", "A2A 0.1"),
                ("agents/far/drift", "The card now"),
                ("agents/scripted/test", "Send a test"),
                ("config", "limits.attempts"),
                ("limits", "Shared by all"),
                ("store", "Tasks by state"),
            ):
                page.goto(f"{BASE}/console/{view}")
                expect(page.get_by_text(seen).first).to_be_visible()
                axe_check(page, f"{view} {theme}")


run(
    [
        the_last_hour_is_drawn_and_told,
        agents_show_their_turns_and_cards,
        a_card_elsewhere_is_compared,
        an_agent_is_tested_after_a_question,
        the_config_is_found_by_a_word_and_read_again,
        limits_and_the_store_are_shown,
        a_commit_is_on_the_screen_without_being_asked_for,
        a_viewer_of_one_tenant_has_neither_numbers_nor_buttons,
        axe_finds_nothing_serious,
    ]
)
