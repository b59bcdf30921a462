"""The cases. Each yields rows; what is compared is measured by turns, within one round, and a ratio is the median of the
rounds' ratios."""

import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from .postgres import Postgres
from .report import Row, at_least, at_most, judge
from .server import Server, free_port
from .world import ECHO, SCRIPTED

CONNECTIONS = 64


def per_second(rate):
    return f"{rate:,.0f}/s"


def median(samples, key):
    return statistics.median(sample[key] for sample in samples)


class Pairs:
    """Samples of two sides, taken by turns."""

    def __init__(self):
        self.base, self.side = [], []

    def add(self, base, side):
        self.base.append(base)
        self.side.append(side)

    def row(self, case, what, key="rps", show=per_second):
        ratios = [side[key] / base[key] for base, side in zip(self.base, self.side)]
        base, side = show(median(self.base, key)), show(median(self.side, key))
        return Row(case, what, base, side, statistics.median(ratios), (min(ratios), max(ratios)))

    def cpu(self, case, what):
        """What a request costs the server: wall time is noisy, this is not."""
        return self.row(case, what, "cpu_us", lambda spent: f"{spent:.1f} µs")


def durable(world, row, wanted, commits=1):
    """The target of a durable send: a part of the limit; where the disk is slow, at most a part of what it allows."""
    p50 = world.sync_p50()
    if p50 <= 1:
        return at_least(row, wanted)
    allowed = 0.6 * CONNECTIONS / (p50 / 1e3) / commits
    rate = float(row.value.rstrip("/s").replace(",", ""))
    row.target = f"≥ {wanted:g}, or ≥ {per_second(allowed)} (slow disk)"
    row.verdict = judge(row.ratio >= wanted or rate >= allowed)
    return row


def send(world):
    """Blocking SendMessage: one commit, two commits, and without waiting for the disk; against the limit."""
    sides = {"durable": ("send-full", "/"), "two commits": ("send-full", SCRIPTED), "relaxed": ("send-relaxed", "/")}
    pairs = {name: Pairs() for name in sides}
    with world.limit() as limit, world.serve("send-full") as full, \
            world.serve("send-relaxed", durability="relaxed") as relaxed:
        servers = {"send-full": full, "send-relaxed": relaxed}
        world.wrk(limit, "send", seconds=1)
        for data, path in sides.values():
            world.wrk(servers[data], "send", path, seconds=1)
        for _ in range(world.rounds):
            for name, (data, path) in sides.items():
                world.sync_ms()
                base = world.wrk(limit, "send")
                side = world.wrk(servers[data], "send", path)
                world.keep("send", name, limit=base, rialto=side)
                pairs[name].add(base, side)
        for data, path in sides.values():
            world.load(servers[data], "send", path, c=256, n=3000)
    world.forget("send-full")
    world.forget("send-relaxed")
    yield durable(world, pairs["durable"].row("send", "durable SendMessage, one commit"), 0.3)
    yield durable(world, pairs["two commits"].row("send", "durable SendMessage, two commits"), 0.15, commits=2)
    yield at_least(pairs["relaxed"].row("send", "`--durability relaxed`"), 0.5)
    for name, pair in pairs.items():
        yield pair.cpu("send", f"CPU a request, {name}")


def get(world):
    """GetTask over uniform ids of 100,000 settled tasks, with the cache warm and without one; against the limit."""
    data, ids = world.filled("few", world.options.many, per_context=5)
    cold = "few-cold"
    shutil.copytree(world.path(data), world.path(cold))
    pairs = {"hot": Pairs(), "cache off": Pairs()}
    with world.limit() as limit, world.serve(data) as hot, world.serve(cold, cache_mib=0) as off:
        servers = {"hot": hot, "cache off": off}
        for server in servers.values():
            world.load(server, "get", ids=ids, n=0)
        for server in (limit, hot, off):
            world.wrk(server, "get", ids=ids, seconds=1)
        for _ in range(world.rounds):
            for name, server in servers.items():
                base = world.wrk(limit, "get", ids=ids)
                side = world.wrk(server, "get", ids=ids)
                world.keep("get", name, limit=base, rialto=side)
                pairs[name].add(base, side)
        hot.stop()
    world.forget(cold)
    tasks = f"{world.options.many // 1000:,}k tasks"
    yield at_least(pairs["hot"].row("get", f"GetTask, uniform in {tasks}, hot"), 0.7)
    yield at_least(pairs["cache off"].row("get", f"GetTask, uniform in {tasks}, cache off"), 0.35)
    for name, pair in pairs.items():
        yield pair.cpu("get", f"CPU a request, {name}")


def big(world):
    """A durable send on a store that holds many tasks, against a small one."""
    count = world.options.big
    world.filled("big", count)
    pairs = Pairs()
    # until the write-ahead log has its full length: a growing file costs more, whatever is in the store
    warm = {"n": 25_000, "c": CONNECTIONS}
    with world.serve("big") as large:
        world.load(large, "send", **warm)
        for _ in range(world.rounds):
            world.sync_ms()
            # a small store must stay small: each round has its own
            with world.serve("small") as small:
                world.load(small, "send", **warm)
                base = world.wrk(small, "send")
                side = world.wrk(large, "send")
            world.forget("small")
            world.keep("big", f"{count} tasks", small=base, big=side)
            pairs.add(base, side)
        world.load(large, "send", n=3000)
    world.drop("big")
    yield at_least(pairs.row("big", f"durable SendMessage on {count:,} tasks, against a small store"), 0.8)
    yield pairs.cpu("big", "CPU a request")


def stream(world):
    """Streams of four events, against the same events from bare axum."""
    pairs = Pairs()
    flags = {"c": CONNECTIONS, "events": 4}
    with world.limit() as limit, world.serve("stream") as server:
        for side in (limit, server):
            world.load(side, "stream", seconds=1, **flags)
        for _ in range(world.rounds):
            world.sync_ms()
            base = world.load(limit, "stream", seconds=world.seconds, **flags)
            side = world.load(server, "stream", seconds=world.seconds, **flags)
            world.keep("stream", "4 events", limit=base, rialto=side)
            pairs.add(base, side)
    world.forget("stream")
    yield durable(world, pairs.row("stream", "4-event streams"), 0.25)
    yield pairs.cpu("stream", "CPU a stream")


def chunk(world):
    """What one chunk costs in streams of more and more chunks."""
    sizes = (50, 200, 800, 3200)
    wall, cpu = {size: [] for size in sizes}, {size: [] for size in sizes}
    with world.serve("chunk") as server:
        world.load(server, "stream", SCRIPTED, c=1, n=20, text="chunks:200")
        for _ in range(world.rounds):
            for size in sizes:
                flags = {"c": 1, "n": max(4, 16_000 // size), "text": f"chunks:{size}", "events": size + 3}
                result = world.load(server, "stream", SCRIPTED, **flags)
                wall[size].append(result["mean_us"] / size)
                cpu[size].append(result["cpu_us"] / size)
                world.keep("chunk", f"{size} chunks", result=result)
    world.forget("chunk")
    for what, samples in (("µs a chunk", wall), ("CPU µs a chunk", cpu)):
        each = {size: statistics.median(samples[size]) for size in sizes}
        value = " → ".join(f"{each[size]:.1f}" for size in sizes)
        ratios = [last / first for first, last in zip(samples[sizes[0]], samples[sizes[-1]])]
        ratio, spread = each[sizes[-1]] / each[sizes[0]], (min(ratios), max(ratios))
        yield at_most(Row("chunk", f"{what}, 50 → 200 → 800 → 3,200 chunks", "50", value, ratio, spread), 1.2)


def lists(world):
    """A page of 50 with totalSize, at 1,000 and at many tasks."""
    many = world.options.many
    few, one = {"per_context": 5}, {"context": "the-one"}
    stores = {"few": (few, 1000), "one": (one, 1000)}
    page = {"pageSize": 50}
    done, working = {"status": "TASK_STATE_COMPLETED"}, {"status": "TASK_STATE_WORKING"}
    # which store, the filter, and the totalSize that must come back for that many tasks
    shapes = {
        "unfiltered": ("few", {}, lambda count: count),
        "by context, 5 tasks in it": ("few", {"contextId": "context-7"}, lambda _: 5),
        "by context, all tasks in it": ("one", {"contextId": "the-one"}, lambda count: count),
        "by status, all have it": ("few", done, lambda count: count),
        "by status, none has it": ("few", working, lambda _: 0),
        "by context and status, all": ("one", {"contextId": "the-one", **done}, lambda count: count),
    }
    servers = {}
    try:
        for name, (how, _) in stores.items():
            servers[name, 1000] = world.serve(world.filled(f"{name}-1k", 1000, **how)[0])
            servers[name, many] = world.serve(world.filled(name, many, **how)[0])
        pairs = {shape: Pairs() for shape in shapes}
        for turn in range(-1, world.rounds):
            for shape, (name, chosen, total) in shapes.items():
                sides = []
                for count in (1000, many):
                    flags = {"c": 1, "n": 150, "params": json.dumps({**page, **chosen}), "total": total(count)}
                    sides.append(world.load(servers[name, count], "list", **flags))
                if turn >= 0:  # the first turn warms up
                    world.keep("list", shape, small=sides[0], many=sides[1])
                    pairs[shape].add(*sides)
    finally:
        for server in servers.values():
            server.stop()
    for shape, pair in pairs.items():
        what = f"ListTasks page of 50, {shape}: {many // 1000}k against 1k tasks"
        row = pair.row("list", what, "p50_us", lambda spent: f"{spent:,.0f} µs")
        row.base += f", CPU {median(pair.base, 'cpu_us'):,.0f}"
        row.value += f", CPU {median(pair.side, 'cpu_us'):,.0f}"
        # Two filters at once are counted by walking, on the first page only; the token carries the total.
        if " and " in shape:
            row.target = "report"
            yield row
        else:
            yield at_most(row, 1.5)


def idle(world):
    """Memory for a silent stream: each with a task of its own, and all of one task."""
    count = 1000
    with world.limit() as limit:
        world.load(limit, "stream", n=200)
        base = world.hold(limit, "idle", "/", count)
    for mode, what in (("idle", f"{count:,} streams, a task each"), ("sub", f"{count:,} subscribers of one task")):
        held = []
        for _ in range(world.rounds):
            with world.serve("idle") as server:
                world.load(server, "stream", SCRIPTED, n=2000)
                held.append(world.hold(server, mode, SCRIPTED, count))
            world.forget("idle")
        world.keep("idle", what, kib=held, limit=base)
        each = statistics.median(held)
        row = Row("idle", what, f"{base:.1f} KiB", f"{each:.1f} KiB", target="≤ 30 KiB", verdict=judge(each <= 30))
        yield row


def grpc(world):
    """gRPC against JSON-RPC: the same agent, store and load client, by turns."""
    # how many connections, and how many calls at a time on each: as JSON-RPC is sent, and as clients of gRPC do it
    forms = {"64 × 1": {"c": 64, "grpc": 1}, "4 × 16": {"c": 4, "grpc": 16}}
    modes = {"send": ("durable SendMessage", {}), "stream": ("4-event streams", {"events": 4})}
    pairs = {(mode, form): Pairs() for mode in modes for form in forms}
    with world.serve("grpc") as server:
        for mode, (_, flags) in modes.items():
            for form in ({"c": CONNECTIONS}, *forms.values()):
                world.load(server, mode, ECHO, seconds=1, **form, **flags)
        for _ in range(world.rounds):
            world.sync_ms()
            for (mode, form), pair in pairs.items():
                flags = {"seconds": world.seconds, **modes[mode][1]}
                base = world.load(server, mode, ECHO, c=CONNECTIONS, **flags)
                side = world.load(server, mode, ECHO, **forms[form], **flags)
                world.keep("grpc", f"{mode}, {form}", jsonrpc=base, grpc=side)
                pair.add(base, side)
    world.forget("grpc")
    for (mode, form), pair in pairs.items():
        what = f"{modes[mode][0]}, {form} calls, against JSON-RPC"
        rate, cpu = pair.row("grpc", what), pair.cpu("grpc", f"CPU a {mode}, {form} calls")
        yield at_least(rate, 1.0)
        yield at_most(cpu, 1.0)
    yield from idle_grpc(world)


def idle_grpc(world):
    """Memory for a silent stream over gRPC, against one of SSE."""
    count = 1000
    forms = {"JSON-RPC": None, "one on a connection": 1, "100 on a connection": 100}
    held = {form: [] for form in forms}
    for _ in range(world.rounds):
        for form, calls in forms.items():
            with world.serve("idle-grpc") as server:
                world.load(server, "stream", SCRIPTED, n=2000, **({"grpc": 1} if calls else {}))
                held[form].append(world.hold(server, "idle", SCRIPTED, count, calls))
            world.forget("idle-grpc")
    world.keep("grpc", f"{count:,} silent streams", kib=held)
    base = statistics.median(held["JSON-RPC"])
    for form in list(forms)[1:]:
        ratios = [side / base for base, side in zip(held["JSON-RPC"], held[form])]
        each, spread = statistics.median(held[form]), (min(ratios), max(ratios))
        row = Row("grpc", f"memory of {count:,} silent streams, {form}", f"{base:.1f} KiB", f"{each:.1f} KiB",
                  statistics.median(ratios), spread)
        yield at_most(row, 1.0)


def start(world):
    """From the start of the process to its first answer, on a store of many tasks."""
    data, ids = world.filled("few", world.options.many, per_context=5)
    with open(ids) as lines:
        known = lines.readline().strip()
    for how, what in ((signal.SIGTERM, "after a stop"), (signal.SIGKILL, "after kill -9 under load")):
        took = []
        copy = "start"
        shutil.copytree(world.path(data), world.path(copy))
        for _ in range(max(world.rounds, 3)):
            with world.serve(copy) as server:
                if how == signal.SIGKILL:
                    world.wrk(server, "send", seconds=1)
                server.stop(how)
            with world.serve(copy) as server:
                server.call("GetTask", {"id": known})
                took.append((time.perf_counter() - server.began) * 1e3)
                server.stop()
        world.forget(copy)
        world.keep("start", what, ms=took)
        worst = max(took)
        value = f"{statistics.median(took):.0f} ms (worst {worst:.0f})"
        verdict = judge(statistics.median(took) < 100)
        what = f"start with {world.options.many // 1000:,}k tasks to the first answer, {what}"
        yield Row("start", what, "", value, target="< 100 ms", verdict=verdict)


def memory(world):
    """The server's memory while tasks come and finish."""
    marks = (50_000, 100_000, 150_000, 200_000)
    for name, config in (("cache 128 MiB", {}), ("cache off", {"cache_mib": 0})):
        sizes = []
        with world.serve("memory", **config) as server:
            for mark in marks:
                world.load(server, "send", n=50_000, c=128)
                time.sleep(1)
                sizes.append(server.rss_kib() / 1024)
                world.keep("memory", name, tasks=mark, mib=sizes[-1])
            server.stop()
        world.forget("memory")
        value = " → ".join(f"{size:.0f}" for size in sizes) + " MiB"
        grown = sizes[-1] / sizes[0]
        row = Row("memory", f"RSS at 50k → 100k → 150k → 200k finished tasks, {name}", "50k", value, grown)
        yield at_most(row, 1.1)


def hooks(world):
    """The outbox: a backlog of webhooks against a bare client loop, and what draining it does to sends meanwhile."""
    webhooks, drains, wide, sends = 10_000, Pairs(), Pairs(), Pairs()
    port = free_port()
    url = f"http://127.0.0.1:{port}/hook"
    tool = os.path.join(world.tools, "hooks")

    def seen(method="GET", path="/seen"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path)
        body = connection.getresponse().read()
        connection.close()
        return json.loads(body) if body else None

    def backlog(count):
        """Tasks with a webhook that nobody listens to yet: what is committed waits."""
        with world.serve("hooks") as server:
            each = world.load(server, "stream", n=10)["events"] // 10
            world.load(server, "send", n=count // each, c=64, push=url)
            capacity = world.wrk(server, "send", seconds=1)["rps"]
            server.stop(signal.SIGKILL)
        return count // each * each, capacity

    for _ in range(world.rounds):
        count, capacity = backlog(webhooks)
        with Server("receiver", [tool, "receive", str(port)], port, world.path("receiver.log")) as receiver:
            bare, abreast = (
                json.loads(subprocess.run([tool, "post", "--url", url, "--n", str(webhooks), "--c", str(connections)],
                                          capture_output=True, text=True, check=True).stdout)
                for connections in (1, 32))
            seen("POST", "/forget")
            with world.serve("hooks") as server:
                until = time.time() + 120
                while seen()["count"] < count and time.time() < until:
                    time.sleep(0.01)
                took = seen()
                if took["count"] < count:
                    world.fault(f"hooks: {took['count']} of {count} webhooks arrived")
                drains.add(bare, {"rps": took["count"] / took["seconds"]})
                wide.add(abreast, drains.side[-1])
                rate = int(capacity / 2)
                alone = world.load(server, "send", n=rate, c=64, rate=rate)
                server.stop()
            receiver.stop()
        # Enough of them that they last longer than the sends.
        backlog(webhooks * 4)
        with Server("receiver", [tool, "receive", str(port)], port, world.path("receiver.log")) as receiver:
            with world.serve("hooks") as server:
                while not seen()["count"]:
                    time.sleep(0.001)
                busy = world.load(server, "send", n=rate, c=64, rate=rate)
                if seen()["count"] >= webhooks * 4:
                    world.fault("hooks: the backlog ended before the sends did")
                server.stop()
            receiver.stop()
        sends.add(alone, busy)
        world.keep("hooks", "drain", bare=bare, abreast=abreast, took=took, alone=alone, busy=busy)
        world.forget("hooks")
    yield at_least(drains.row("hooks", f"{webhooks:,} webhooks drained, against a bare reqwest loop"), 0.5)
    yield wide.row("hooks", "the same, against 32 such loops at a time")
    micros = lambda spent: f"{spent:,.0f} µs"
    row = sends.row("hooks", "SendMessage at half its capacity, p50, while webhooks go out; against alone", "p50_us", micros)
    yield at_most(row, 1.25)
    yield sends.row("hooks", "the same, p99", "p99_us", micros)


def proxy(world):
    """An agent of another server, through Rialto and through a bare proxy. The peer is the official Python SDK's server; and
    Rialto itself: with `echo`, which costs nothing, so that both sides are as busy as they can be, and with an agent that
    takes 20 ms."""
    micros = lambda spent: f"{spent:,.0f} µs"
    rates, slow, sdk, waits = Pairs(), Pairs(), Pairs(), {mode: Pairs() for mode in ("relaxed", "full")}
    paced = {"c": CONNECTIONS, "seconds": world.seconds, "text": "chunks:2 every:20"}

    def front(data, peer, durability):
        urls = {"far": peer.url(), "slow": peer.url(SCRIPTED), "python": python.url("/rpc")}
        agents = {name: {"kind": "a2a", "url": url, "concurrency": 1000} for name, url in urls.items()}
        return world.serve(data, durability=durability, agents=agents, default="far")

    with world.python_peer() as python, world.tool("proxy", python.url("/rpc")) as bare_python, \
            world.serve("proxy-peer", durability="relaxed") as peer, world.tool("proxy", peer.url()) as bare, \
            world.tool("proxy", peer.url(SCRIPTED)) as bare_slow, \
            front("proxy-relaxed", peer, "relaxed") as relaxed, front("proxy-full", peer, "full") as full:
        sides = {"relaxed": relaxed, "full": full}
        for server in (bare, relaxed, full):
            world.load(server, "send", n=2000)
        for _ in range(world.rounds):
            base = world.wrk(bare, "send")
            side = world.wrk(relaxed, "send")
            world.keep("proxy", "relaxed", bare=base, rialto=side)
            rates.add(base, side)
            base = world.load(bare_slow, "send", **paced)
            side = world.load(relaxed, "send", "/a2a/slow", **paced)
            world.keep("proxy", "relaxed, 20 ms", bare=base, rialto=side)
            slow.add(base, side)
            base = world.load(bare_python, "send", c=CONNECTIONS, seconds=world.seconds)
            side = world.load(relaxed, "send", "/a2a/python", c=CONNECTIONS, seconds=world.seconds)
            world.keep("proxy", "relaxed, Python SDK", bare=base, rialto=side)
            sdk.add(base, side)
            for mode, server in sides.items():
                world.sync_ms()
                base = world.load(bare, "send", c=1, n=500)
                side = world.load(server, "send", c=1, n=500)
                world.keep("proxy", f"one at a time, {mode}", bare=base, rialto=side)
                waits[mode].add(base, side)
    for data in ("proxy-peer", "proxy-relaxed", "proxy-full"):
        world.forget(data)
    row = sdk.row("proxy", "SendMessage to an `a2a` agent of the Python SDK, relaxed; against a bare proxy")
    yield at_least(row, 0.8)
    yield rates.row("proxy", "the same, of a peer that costs nothing")
    yield rates.cpu("proxy", "CPU a request there")
    yield at_least(slow.row("proxy", "the same, of a peer that takes 20 ms"), 0.8)
    yield waits["relaxed"].row("proxy", "relaxed, one at a time, p50", "p50_us", micros)
    row = waits["full"].row("proxy", "durable, one at a time, p50", "p50_us", micros)
    # the turn is in the log before the peer hears of it, and so is what the peer said before it is passed on
    allowed = median(waits["full"].base, "p50_us") / 1e3 + 2 * world.sync_p50() + 1
    row.target = f"≤ {allowed:.1f} ms: two fdatasyncs and 1 ms more"
    row.verdict = judge(median(waits["full"].side, "p50_us") / 1e3 <= allowed)
    yield row


def tokens(world):
    """Streams of a model that says 50 tokens a second, through Rialto and from the model itself."""
    streams, each = 200, 250
    pairs, walls, cpu = Pairs(), [], []
    with world.tool("model") as upstream:
        agent = {"kind": "openai", "base_url": upstream.url("/v1"), "model": "bench", "concurrency": 1000}
        with world.serve("tokens", agents={"model": agent}, default="model") as server:
            flags = {"c": streams, "tokens": each}
            world.load(server, "tokens", c=streams, tokens=25)
            for _ in range(world.rounds):
                world.sync_ms()
                base = world.load(upstream, "chat", "/v1/chat/completions", **flags)
                before = server.written("rialto-writer")
                side = world.load(server, "tokens", **flags)
                walls.append((server.written("rialto-writer") - before) / side["tokens"])
                cpu.append(side["cpu_us"] * side["ok"] / side["tokens"])
                world.keep("tokens", "streams", model=base, rialto=side, wal=walls[-1], cpu=cpu[-1])
                pairs.add(base, side)
    world.forget("tokens")
    what = f"{streams} streams of 50 tokens/s"
    millis = lambda us: f"{us / 1e3:.2f} ms"
    row = pairs.row("tokens", f"{what}: sent to seen, p50; against the model itself", "p50_us", millis)
    added = [(side["p50_us"] - base["p50_us"]) / 1e3 for base, side in zip(pairs.base, pairs.side)]
    allowed = 10 + world.sync_p50()
    row.value += f", added {statistics.median(added):.2f} ({min(added):.2f}–{max(added):.2f})"
    row.target = f"≤ {allowed:.1f} ms added"
    row.verdict = judge(statistics.median(added) <= allowed)
    yield row
    yield pairs.row("tokens", "the same, p99", "p99_us", millis)
    wal = statistics.median(walls)
    value = f"{wal:,.0f} bytes ({min(walls):,.0f}–{max(walls):,.0f})"
    verdict = judge(wal <= 1024)
    yield Row("tokens", "written to the write-ahead log, a token", "", value, target="≤ 1,024", verdict=verdict)
    yield Row("tokens", "CPU a token", "", f"{statistics.median(cpu):.1f} µs ({min(cpu):.1f}–{max(cpu):.1f})")


def together(world, servers):
    """wrk against several servers at once, its 64 connections shared among them: requests/s in all."""
    each = CONNECTIONS // len(servers)
    with ThreadPoolExecutor(len(servers)) as pool:
        runs = list(pool.map(lambda server: world.wrk(server, "send", connections=each), servers))
    return {"rps": sum(run["rps"] for run in runs)}


def postgres(world):
    """Durable SendMessage on PostgreSQL against SQLite; two replicas on the same cores against one."""
    rates, shares = Pairs(), Pairs()
    with Postgres(world.path("postgres")) as database:
        store = database.database("send")
        with world.serve("pg-sqlite") as sqlite, world.serve("pg-one", store=store) as one, \
                world.serve("pg-two", store=store) as two:
            for server in (sqlite, one, two):
                world.load(server, "send", n=2000)
            for _ in range(world.rounds):
                world.sync_ms()
                base, side = world.wrk(sqlite, "send"), world.wrk(one, "send")
                world.keep("postgres", "send", sqlite=base, postgres=side)
                rates.add(base, side)
                # as many clients on both sides: they share the cores too
                base, side = together(world, [one, one]), together(world, [one, two])
                world.keep("postgres", "replicas", one=base, two=side)
                shares.add(base, side)
    for data in ("pg-sqlite", "pg-one", "pg-two"):
        world.forget(data)
    yield at_least(rates.row("postgres", "durable SendMessage on PostgreSQL; against SQLite"), 0.4)
    yield rates.cpu("postgres", "CPU a request, without PostgreSQL's own")
    yield at_least(shares.row("postgres", "two replicas on these cores; against one"), 0.85)


def traders(world, data, pairs):
    """Buyers with money, sellers and what they sell, made by the operator's commands: the file for `load buy`."""
    def market(*words):
        done = subprocess.run([world.rialto, "market", *words, "--json", "--data", world.path(data)],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def rest(server, person, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Content-Type": "application/json", "X-Api-Key": person["api_key"],
                   "X-Platform-User-Id": person["user_id"]}
        connection.request("POST", f"/api/v1{path}", json.dumps(body), headers)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        if answer["code"]:
            raise RuntimeError(f"{path}: {answer}")
        return answer["data"]

    file = world.path(f"{data}.people")
    with world.serve(data, **MARKET) as server, open(file, "w") as out:
        # it listens before operators can talk to it
        server.get("/readyz")
        for _ in range(pairs):
            buyer = market("open", "--key", "user", "--per-call", "1000", "--daily", "100000000")
            seller = market("open", "--key", "user")
            market("credit", buyer["user_id"], "10000000")
            made = rest(server, seller, "/capabilities", {
                "title": "OCR", "description": "Reads an invoice", "category": "documents",
                "capability_type": "service", "pricing_model": "per_use", "price_ut": "1.20"})
            rest(server, seller, f"/capabilities/{made['id']}/submit-review", {})
            out.write(json.dumps({"buyer": buyer, "seller": seller, "capability": made["id"]}) + "\n")
        server.stop()
    return file


MARKET = {"agents": {"echo": {"kind": "echo"}}, "market": True}


def purchases(world):
    """Purchases from order to settlement, five durable steps each, against plain durable SendMessage."""
    people, pairs = traders(world, "purchases", 64), Pairs()
    with world.serve("purchases", **MARKET) as server:
        world.load(server, "buy", "/api/v1", people=people, seconds=1)
        for _ in range(world.rounds):
            world.sync_ms()
            base = world.wrk(server, "send")
            side = world.load(server, "buy", "/api/v1", people=people, seconds=world.seconds)
            world.keep("purchases", "whole", send=base, purchases=side)
            pairs.add(base, side)
        server.stop()
    verified = subprocess.run([world.rialto, "market", "verify", "--data", world.path("purchases")],
                              capture_output=True, text=True)
    if verified.returncode:
        world.fault(f"market verify: {verified.stdout}{verified.stderr}")
    world.forget("purchases")
    yield at_least(pairs.row("purchases", "purchases whole, durable; against durable SendMessage"), 0.1)
    yield pairs.cpu("purchases", "CPU a purchase; against a SendMessage")


NODES, FAN = 200, 50


def wide(agent):
    """200 nodes: one leads to 50 branches, 48 of four nodes and two of three, which meet in the last."""
    graph = {"begin": {"agent": agent, "edges": [{"to": f"a{n}"} for n in range(FAN)]}}
    for n in range(FAN):
        branch = [f"{step}{n}" for step in ("abcd" if n < FAN - 2 else "abc")] + ["end"]
        for node, follows in zip(branch, branch[1:]):
            graph[node] = {"agent": agent, "next": follows}
    graph["end"] = {"agent": agent}
    assert len(graph) == NODES
    return {"graph": graph}


def systems(world):
    """A system of 200 nodes, 50 of them at a time, against the same turns sent by a client with 50 connections."""
    pairs = {name: Pairs() for name in ("echo", "scripted")}
    agents = {name: {"kind": name, "concurrency": 1000} for name in pairs}
    wides = {f"wide-{name}": wide(name) for name in pairs}
    with world.serve("systems", agents=agents, default="echo", systems=wides) as server:
        for name in pairs:
            world.load(server, "send", f"/a2a/{name}", c=FAN, n=20 * NODES)
            world.load(server, "send", f"/a2a/wide-{name}", c=1, n=5)
        for _ in range(world.rounds):
            for name, pair in pairs.items():
                world.sync_ms()
                base = world.load(server, "send", f"/a2a/{name}", c=FAN, seconds=world.seconds)
                side = world.load(server, "send", f"/a2a/wide-{name}", c=1, seconds=world.seconds)
                world.keep("systems", name, send=base, system=side)
                pair.add(base, {"rps": side["rps"] * NODES, "cpu_us": side["cpu_us"] / NODES})
    world.forget("systems")
    for name, commits in (("echo", "one commit"), ("scripted", "two commits")):
        what = f"a system of {NODES} nodes, fan-out {FAN}, durable; against the same turns sent ({commits})"
        yield at_least(pairs[name].row("systems", f"turns of {what}"), 0.5)
        yield pairs[name].cpu("systems", "CPU a turn there")


SHOP = {"agents": {"echo": {"kind": "echo"}}, "aly": {"sites": {"acme": {"workspace": "acme", "title": "Acme"}}}}
MATCHES = 20


def shelves(world, data, count):
    """A shop with so many hats, of which every so manieth is rare, imported as an operator does."""
    file, every = world.path(f"{data}.csv"), count // MATCHES
    with open(file, "w") as out:
        out.write("id,name,subtitle,price,stock,tags\n")
        for n in range(count):
            name = f"Rare hat {n}" if n % every == 0 else f"Plain hat {n}"
            out.write(f"hat-{n},{name},Number {n} of the collection,{10 + n % 90}.90,5,winter|wool\n")
    with world.serve(data, **SHOP) as server:
        # it listens before operators can talk to it
        server.get("/readyz")
        done = subprocess.run([world.rialto, "shop", "import", "--site", "acme", "--data", world.path(data), file],
                              capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"shop import: {done.stdout}{done.stderr}")
        server.stop()
    os.remove(file)


def shop(world):
    """A search that finds 20 products, of many against of 1,000: by the skill and by the storefront. One question has a rare
    word alone, one has a word beside it that is in every product."""
    many, sizes = world.options.many, {}
    for count in (1000, many):
        sizes[count] = f"shop-{count}"
        shelves(world, sizes[count], count)
    questions = {"a rare word": "rare", "a rare word and one that all have": "rare hats"}
    pairs = {(how, what): Pairs() for how in ("skill", "storefront") for what in questions}
    with world.serve(sizes[1000], **SHOP) as few, world.serve(sizes[many], **SHOP) as full:
        for turn in range(-1, world.rounds):
            for what, words in questions.items():
                path = f"/api/storefront/v1/search?site_slug=acme&q={words.replace(' ', '+')}&limit={MATCHES}"
                asked = {"c": 1, "n": 300, "text": f"Search for {words} on store acme."}
                sides = {"skill": [], "storefront": []}
                for server in (few, full):
                    found = json.loads(server.get(path))
                    if found["total"] != MATCHES or len(found["products"]) != MATCHES:
                        raise RuntimeError(f"{server.name}: {words!r} found {found['total']}")
                    sides["skill"].append(world.load(server, "send", "/api/a2a", **asked))
                    sides["storefront"].append(world.wrk(server, "fetch", path, connections=1))
                if turn >= 0:  # the first turn warms up
                    for how, both in sides.items():
                        each = [{**one, "us": one.get("mean_us", 1e6 / one["rps"])} for one in both]
                        world.keep("shop", f"{how}, {what}", few=each[0], many=each[1])
                        pairs[how, what].add(*each)
    for data in sizes.values():
        world.forget(data)
    names = {"skill": "`product-search` by SendMessage", "storefront": "`GET …/search`"}
    for (how, what), pair in pairs.items():
        about = f"{names[how]}, {what}: {MATCHES} found of {many:,} products, against of 1,000"
        row = pair.row("shop", about, "us", lambda spent: f"{spent:,.0f} µs")
        yield at_most(row, 3)
        yield pair.cpu("shop", "CPU a search")


class Watcher(threading.Thread):
    """Subscribes to a task, and notes when each event came."""

    def __init__(self, server, task):
        super().__init__(daemon=True)
        self.seen, self.ready = {}, threading.Event()
        self.server, self.task = server, task

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": self.task}})
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0", "Accept": "text/event-stream"}
        connection.request("POST", SCRIPTED, body, headers)
        response = connection.getresponse()
        self.ready.set()
        while line := response.readline():
            if line.startswith(b"id:"):
                self.seen[line.split(b":", 1)[1].strip()] = time.perf_counter()
        connection.close()


def follow(world):
    """How much later a subscriber of one replica sees what happens on another, in milliseconds."""
    delays = []
    with Postgres(world.path("postgres")) as database:
        store = database.database("follow")
        with world.serve("follow-here", store=store) as here, world.serve("follow-there", store=store) as there:
            for _ in range(world.rounds):
                message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "chunks:60 every:20"}]}
                params = {"message": message, "configuration": {"returnImmediately": True}}
                task = there.call("SendMessage", params, SCRIPTED)["task"]["id"]
                watchers = [Watcher(here, task), Watcher(there, task)]
                for watcher in watchers:
                    watcher.start()
                for watcher in watchers:
                    watcher.join(60)
                both = watchers[0].seen.keys() & watchers[1].seen.keys()
                if len(both) < 30:
                    raise RuntimeError(f"only {len(both)} events were seen by both")
                some = [(watchers[0].seen[event] - watchers[1].seen[event]) * 1e3 for event in both]
                world.keep("follow", "delay", ms=some)
                delays.append(statistics.median(some))
            trip = database.round_trip_ms()
    for data in ("follow-here", "follow-there"):
        world.forget(data)
    delay, allowed = statistics.median(delays), 3 * trip + 2
    value = f"{delay:.2f} ms ({min(delays):.2f}–{max(delays):.2f})"
    target = f"≤ {allowed:.2f} ms: three round trips of {trip:.2f} ms, and 2 ms"
    yield Row("follow", "an event on one replica, seen on another: later by", "", value, target=target,
              verdict=judge(delay <= allowed))


def workers(world):
    """One and two worker threads, for the choice of the default."""
    pairs = {"durable SendMessage": Pairs(), "GetTask, hot": Pairs()}
    with world.serve("one-worker", workers=1) as one, world.serve("two-workers", workers=2) as two:
        ids = {}
        for server in (one, two):
            ids[server] = world.path(f"{server.port}.ids")
            world.load(server, "send", n=5000, ids=ids[server])
            world.load(server, "get", n=0, ids=ids[server])
        for _ in range(world.rounds):
            sends = [world.wrk(server, "send") for server in (one, two)]
            gets = [world.wrk(server, "get", ids=ids[server]) for server in (one, two)]
            for (name, pair), sides in zip(pairs.items(), (sends, gets)):
                world.keep("workers", name, one=sides[0], two=sides[1])
                pair.add(*sides)
    for name in ("one-worker", "two-workers"):
        world.forget(name)
    for name, pair in pairs.items():
        yield pair.row("workers", f"{name}: `workers: 2` against `workers: 1`")
        yield pair.cpu("workers", f"CPU a request, {name}")


CASES = {
    "send": send, "get": get, "stream": stream, "chunk": chunk, "list": lists, "idle": idle, "start": start,
    "memory": memory, "big": big, "hooks": hooks, "proxy": proxy,
    "grpc": grpc, "tokens": tokens, "postgres": postgres, "follow": follow, "purchases": purchases, "systems": systems,
    "shop": shop, "workers": workers,
}
