"""A small MCP server for the tests, with nothing but the standard library: over stdin and stdout, or with --http over
streamable HTTP at a port that it prints. The tools it offers are its arguments; what it notices goes into $NOTES."""
import json, os, subprocess, sys

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = {
    "shout": {"title": "Shout", "description": "In capitals.", "inputSchema": TEXT},
    "add": {"inputSchema": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                            "required": ["a", "b"]}},
    "slow": {"inputSchema": {"type": "object", "properties": {}}},
    "count": {"inputSchema": {"type": "object", "properties": {}}},
    "order": {"inputSchema": {"type": "object", "properties": {}}},
    "book": {"inputSchema": {"type": "object", "properties": {}}},
    "broken": {"inputSchema": {"type": "object", "properties": {}}},
    "crash": {"inputSchema": {"type": "object", "properties": {}}},
    "picture": {"inputSchema": {"type": "object", "properties": {}}},
    "env": {"inputSchema": TEXT},
}
OFFERED = [name for name in sys.argv[1:] if name in TOOLS]
waiting = {}  # questions that were asked: their id to the id of the call

def note(text):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(text + "\n")

def text(said, **more):
    return {"content": [{"type": "text", "text": said}], **more}

def ask(call, message, properties):
    question = f"q-{call}"
    waiting[question] = call
    return {"id": question, "method": "elicitation/create", "params": {"message": message, "requestedSchema": {
        "type": "object", "properties": properties, "required": list(properties)}}}

def handle(message):
    """What is said in return, one by one."""
    method, id = message.get("method"), message.get("id")
    if method is None:
        call = waiting.pop(id)
        yield {"id": call, "result": text("answered: " + json.dumps(message["result"], sort_keys=True))}
    elif method == "initialize":
        note("initialize")
        yield {"id": id, "result": {"protocolVersion": message["params"]["protocolVersion"],
                                    "capabilities": {"tools": {"listChanged": True}},
                                    "serverInfo": {"name": "test", "version": "1"}}}
    elif method == "notifications/cancelled":
        note("cancelled")
    elif id is None:
        pass
    elif method == "ping":
        yield {"id": id, "result": {}}
    elif method == "tools/list":
        yield {"id": id, "result": {"tools": [{"name": name, **TOOLS[name]} for name in OFFERED]}}
    elif method == "tools/call":
        name, given = message["params"]["name"], message["params"].get("arguments", {})
        token = message["params"].get("_meta", {}).get("progressToken")
        note("call " + name)
        if name == "shout":
            yield {"id": id, "result": text(given["text"].upper())}
        elif name == "add":
            total = {"sum": given["a"] + given["b"]}
            yield {"id": id, "result": text(json.dumps(total), structuredContent=total)}
        elif name == "slow":
            yield {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 3}}
        elif name == "count":
            for done in range(40):
                yield {"method": "notifications/progress", "params": {"progressToken": token, "progress": done}}
            yield {"id": id, "result": text("counted")}
        elif name == "order":
            yield ask(id, "how many?", {"count": {"type": "integer"}})
        elif name == "book":
            yield ask(id, "when and where?", {"day": {"type": "string"}, "place": {"type": "string"}})
        elif name == "broken":
            yield {"id": id, "result": text("no paper", isError=True)}
        elif name == "crash":
            print("out of ink", file=sys.stderr, flush=True)
            os._exit(3)
        elif name == "env":
            yield {"id": id, "result": text(os.environ.get(given["text"], "-"))}
        elif name == "picture":
            yield {"id": id, "result": {"content": [
                {"type": "text", "text": "look"},
                {"type": "image", "data": "R0lG", "mimeType": "image/gif"},
                {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/css", "text": "a{}"}},
                {"type": "resource_link", "uri": "https://x.test/b.pdf", "name": "b", "mimeType": "application/pdf"}]}}
    else:
        yield {"id": id, "error": {"code": -32601, "message": method}}

def line(message):
    return json.dumps({"jsonrpc": "2.0", **message})

def over_pipes():
    if "CHILD" in os.environ:
        note(f"child {subprocess.Popen(['sleep', '1000']).pid}")
    for said in sys.stdin:
        for answer in handle(json.loads(said)):
            print(line(answer), flush=True)
    note("closed")

def over_http():
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self):
            if self.headers.get("Authorization") != "Bearer s3cret":
                return self.send_error(401)
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = list(handle(message)) if "id" in message else list(handle(message)) and []
            self.send_response(200 if answers else 202)
            body = "".join(f"data: {line(answer)}\n\n" for answer in answers).encode()
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.send_error(405)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    print(server.server_port, flush=True)
    server.serve_forever()

over_http() if "--http" in sys.argv else over_pipes()
