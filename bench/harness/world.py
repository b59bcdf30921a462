"""Where a run takes place: its binaries, its folder on disk, its servers and the stores it has filled."""

import json
import os
import re
import shutil
import statistics
import subprocess
import time

from .server import Server, free_port

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ECHO, SCRIPTED = "/a2a/echo", "/a2a/scripted"


class World:
    def __init__(self, rialto, tools, folder, options):
        self.rialto, self.tools, self.folder, self.options = rialto, tools, folder, options
        self.rounds, self.seconds = options.rounds, options.seconds
        self.syncs = []
        self.samples = []
        self.faults = []
        self._stores = {}
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    # servers

    def limit(self):
        port = free_port()
        return Server("limit", [os.path.join(self.tools, "limit"), str(port)], port, self.path("limit.log"))

    def tool(self, name, *arguments):
        """A server of the tools here: its port comes first."""
        port = free_port()
        command = [os.path.join(self.tools, name), str(port), *arguments]
        return Server(name, command, port, self.path(f"{name}.log"))

    def python_peer(self):
        """A server of the official Python SDK, as the end-to-end tests have it."""
        peers = os.path.join(os.path.dirname(HOME), "crates", "e2e", "clients", "peers")
        python = os.path.join(peers, "1.0", ".venv", "bin", "python")
        if not os.path.exists(python):
            raise RuntimeError("the Python SDK is missing: run scripts/setup-e2e")
        port, folder = free_port(), self.path("python-peer")
        os.makedirs(folder, exist_ok=True)
        command = ["env", f"PYTHONPATH={os.path.join(peers, '1.0')}", "PYTHONDONTWRITEBYTECODE=1", python,
                   os.path.join(peers, "peer.py"), str(port), folder]
        return Server("the Python SDK", command, port, self.path("python-peer.log"))

    def serve(self, data, **config):
        """Rialto on a data folder of this run; `config` as in its config file."""
        port = free_port()
        command = [self.rialto, "serve", "--listen", f"127.0.0.1:{port}", "--data", self.path(data)]
        if config:
            file = self.path(f"{data}.yaml")
            with open(file, "w") as out:
                # JSON is YAML too
                out.writelines(f"{key}: {json.dumps(value)}\n" for key, value in config.items())
            command += ["--config", file]
        return Server(f"rialto on {data}", command, port, self.path(f"{data}.log"))

    def forget(self, data):
        for name in (data, f"{data}.yaml", f"{data}.log"):
            path = self.path(name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.remove(path)

    def drop(self, data):
        """Forgets a filled store."""
        self.forget(data)
        self._stores.pop(data, None)

    def filled(self, name, count, **how):
        """A store with `count` settled tasks, made once in a run: its folder's name and the file of their ids."""
        ids = self.path(f"{name}.ids")
        if self._stores.get(name) != count:
            self.say(f"filling {name} with {count:,} tasks")
            self.forget(name)
            with self.serve(name, durability="relaxed") as server:
                self.load(server, "send", n=count, c=128, ids=ids, **how)
                server.stop()
            self._stores[name] = count
        return name, ids

    # measuring

    def wrk(self, server, script, path="/", seconds=None, ids=None, connections=64):
        """One run of wrk, at 64 connections unless told otherwise: requests/s and the server's CPU per request."""
        seconds = seconds or self.seconds
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "--latency"]
        command += ["-s", os.path.join(HOME, "wrk", f"{script}.lua"), server.url(path)]
        before = server.cpu_ns()
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "IDS": ids or ""})
        cpu = server.cpu_between(before, server.cpu_ns())
        rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
        count = re.search(r"(\d+) requests in", done.stdout)
        if not rate or not count or not int(count[1]):
            raise RuntimeError(f"wrk against {server.name}: {done.stdout}{done.stderr}")
        for fault in re.findall(r"(Non-2xx.*|Socket errors.*)", done.stdout):
            self.fault(f"wrk {script} against {server.name}: {fault}")
        return {"rps": float(rate[1]), "cpu_us": cpu / 1e3 / int(count[1])}

    def load(self, server, mode, path="/", **flags):
        """One run of the load client, which checks every answer."""
        command = [os.path.join(self.tools, "load"), mode, "--url", server.url(path)]
        for name, value in flags.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        before = server.cpu_ns()
        done = subprocess.run(command, capture_output=True, text=True)
        cpu = server.cpu_between(before, server.cpu_ns())
        if done.returncode or not done.stdout:
            raise RuntimeError(f"load {mode} against {server.name}: {done.stdout}{done.stderr}")
        result = json.loads(done.stdout)
        for error, times in result["errors"].items():
            self.fault(f"load {mode} against {server.name}: {times} x {error}")
        if not result["ok"]:
            raise RuntimeError(f"load {mode} against {server.name}: nothing succeeded: {result['errors']}")
        result["cpu_us"] = cpu / 1e3 / result["ok"]
        return result

    def hold(self, server, mode, path, count, grpc=None):
        """KiB of the server's memory for each of `count` silent streams; over gRPC, `grpc` of them on a connection."""
        command = [os.path.join(self.tools, "load"), mode, "--url", server.url(path), "--n", str(count)]
        command += ["--grpc", str(grpc)] if grpc else []
        before = server.rss_kib()
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as client:
            opened = json.loads(client.stdout.readline())
            if opened.get("open") != count:
                raise RuntimeError(f"load {mode} against {server.name}: {opened}")
            time.sleep(2)
            held = server.rss_kib() - before
            client.stdin.close()
            alive = json.loads(client.stdout.readline())["alive"]
        if alive != count:
            self.fault(f"load {mode} against {server.name}: {alive} of {count} streams were still open")
        return held / count

    def sync_ms(self, times=100):
        """Times fdatasync after an append of one page, on the disk of the data folders."""
        file = os.open(self.path("sync"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        page = b"x" * 4096
        for _ in range(times):
            os.write(file, page)
            began = time.perf_counter()
            os.fdatasync(file)
            self.syncs.append((time.perf_counter() - began) * 1e3)
        os.close(file)

    def sync_p50(self):
        return statistics.median(self.syncs)

    def sync_p10(self):
        return statistics.quantiles(self.syncs, n=10)[0]

    # telling

    def keep(self, case, what, **values):
        """Keeps a raw sample for the JSON file."""
        self.samples.append({"case": case, "what": what, **values})

    def fault(self, text):
        self.faults.append(text)
        self.say(f"FAULT {text}")

    def say(self, text):
        print(f"bench: {text}", file=self.options.progress, flush=True)
