"""Chromium at gRPC-Web, with `fetch` and frames made by hand: `grpc_web.py URL ORIGIN`.

A page of the server's own origin and one of ORIGIN, which the server lets call it, send a message to the agents and show the answers."""

import http.server
import re
import shutil
import sys
import threading
from urllib.parse import urlsplit

from playwright.sync_api import expect, sync_playwright

BASE, OTHER = sys.argv[1:3]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or sys.exit("there is no chromium; run scripts/setup-e2e")

PAGE = """
<!doctype html><title>gRPC-Web</title>
<form><input id=words aria-label=Words><select id=agent aria-label=Agent><option>echo<option>scripted</select>
<select id=method aria-label=Method><option>SendMessage<option>SendStreamingMessage<option>GetTask</select>
<select id=form aria-label=Form><option>application/grpc-web+proto<option>application/grpc-web-text</select><button>Send</button></form>
<output id=status></output><ol id=messages></ol>
<script>
const utf8 = new TextEncoder();
const varint = number => number < 128 ? [number] : [number % 128 | 128, ...varint(Math.floor(number / 128))];
const field = (number, content) => {
  const bytes = typeof content == 'string' ? utf8.encode(content) : content;
  return [...varint(number * 8 + 2), ...varint(bytes.length), ...bytes];
};
// SendMessageRequest{message{message_id, role, parts{text}}}, or GetTaskRequest{id}.
const request = (method, words) => method == 'GetTask' ? field(2, words)
  : field(2, [...field(1, crypto.randomUUID()), ...varint(4 * 8), 1, ...field(5, field(1, words))]);
// The texts that are anywhere in a message, which is enough to show it.
const texts = bytes => new TextDecoder().decode(Uint8Array.from(bytes)).match(/[\\x20-\\x7e]{3,}/g) || [];
const untexted = text => text.match(/.{4}/g).map(atob).join('');

async function call(method, agent, form, words) {
  const message = request(method, words), length = message.length;
  const framed = Uint8Array.from([0, length >>> 24, length >>> 16 & 255, length >>> 8 & 255, length & 255, ...message]);
  const text = form == 'application/grpc-web-text';
  const answer = await fetch(`BASE/lf.a2a.v1.A2AService/${method}`, {
    method: 'POST',
    headers: { 'content-type': form, 'x-grpc-web': '1', 'x-user-agent': 'page', 'a2a-version': '1.0', 'x-a2a-agent': agent },
    body: text ? btoa(String.fromCharCode(...framed)) : framed,
  });
  let bytes = new Uint8Array(await answer.arrayBuffer());
  if (text) bytes = Uint8Array.from(untexted(new TextDecoder().decode(bytes)), letter => letter.charCodeAt(0));
  // A status may stand in the headers where there is no message.
  let status = answer.headers.get('grpc-status'), messages = [];
  for (let at = 0; at < bytes.length;) {
    const size = new DataView(bytes.buffer, bytes.byteOffset + at + 1).getUint32(0), content = bytes.slice(at + 5, at + 5 + size);
    if (bytes[at] & 128) status = /grpc-status: *(\\d+)/.exec(new TextDecoder().decode(content))[1];
    else messages.push(content);
    at += 5 + size;
  }
  return { status, messages };
}

document.forms[0].onsubmit = async event => {
  event.preventDefault();
  const value = id => document.getElementById(id).value;
  const { status, messages } = await call(value('method'), value('agent'), value('form'), value('words'));
  document.getElementById('messages').replaceChildren(...messages.map(message => {
    const item = document.createElement('li');
    item.textContent = texts(message).join(' | ');
    return item;
  }));
  document.getElementById('status').textContent = `status ${status}`;
};
</script>
""".replace("BASE", BASE)


class Site(http.server.BaseHTTPRequestHandler):
    """Another site that has the page. A browser takes a page that nobody served for one of a foreign network."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_):
        pass


def served(port):
    site = http.server.ThreadingHTTPServer(("127.0.0.1", port), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{site.server_port}"


def opened(browser, origin):
    page, said = browser.new_page(), []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    if origin == BASE:
        page.route(f"{origin}/grpc-web-page", lambda route: route.fulfill(content_type="text/html", body=PAGE))
    page.route("**/favicon.ico", lambda route: route.fulfill(status=204))
    page.goto(f"{origin}/grpc-web-page")
    return page, said


def sent(page, method, agent, form, words):
    page.locator("#status").evaluate("status => status.textContent = ''")
    page.get_by_label("Method").select_option(method)
    page.get_by_label("Agent").select_option(agent)
    page.get_by_label("Form").select_option(form)
    page.get_by_label("Words").fill(words)
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#status")).to_have_text(re.compile("status .+"), timeout=30_000)
    return page.locator("#status").text_content()


def calls_from(browser, origin):
    page, said = opened(browser, origin)
    for form in ("application/grpc-web+proto", "application/grpc-web-text"):
        for agent in ("echo", "scripted"):
            assert sent(page, "SendMessage", agent, form, "good morning") == "status 0", said
            expect(page.get_by_role("listitem")).to_have_count(1)
            expect(page.get_by_role("listitem")).to_contain_text("good morning")
        assert sent(page, "SendStreamingMessage", "scripted", form, "good evening") == "status 0", said
        expect(page.get_by_role("listitem").filter(has_text="good evening").first).to_be_visible()
        assert page.get_by_role("listitem").count() > 1, "a stream has more than one message"
        assert sent(page, "GetTask", "echo", form, "nobody") == "status 5", said
        expect(page.get_by_role("listitem")).to_have_count(0)
    assert not said, said
    page.close()


def a_page_of_the_server_calls(browser):
    calls_from(browser, BASE)


def a_page_that_the_server_lets_in_calls(browser):
    assert served(urlsplit(OTHER).port) == OTHER
    calls_from(browser, OTHER)


def a_page_that_it_does_not_let_in_reads_nothing(browser):
    page, _ = opened(browser, served(0))
    page.get_by_label("Words").fill("good morning")
    with page.expect_console_message(lambda message: "CORS" in message.text or "Failed to load" in message.text):
        page.get_by_role("button", name="Send").click()
    expect(page.locator("#status")).to_be_empty()
    expect(page.get_by_role("listitem")).to_have_count(0)
    page.close()


SCENARIOS = [a_page_of_the_server_calls, a_page_that_the_server_lets_in_calls, a_page_that_it_does_not_let_in_reads_nothing]

with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
    for scenario in SCENARIOS:
        scenario(browser)
        print("ok", scenario.__name__)
    browser.close()
