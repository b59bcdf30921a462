"""Servers under measurement: start, stop, and what /proc knows of them."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A process that answers A2A on a port of this machine."""

    def __init__(self, name, command, port, log):
        self.name, self.port = name, port
        self.began = time.perf_counter()
        with open(log, "ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        self._connect(log)

    def _connect(self, log):
        until = time.perf_counter() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            except OSError:
                if self.process.poll() is not None or time.perf_counter() > until:
                    raise RuntimeError(f"{self.name} did not start; see {log}") from None
                time.sleep(0.001)

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.port}{path}"

    def call(self, method, params, path="/"):
        """One JSON-RPC call; the result."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        connection.request("POST", path, body, {"Content-Type": "application/json", "A2A-Version": "1.0"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        if "result" not in answer:
            raise RuntimeError(f"{self.name}: {method}: {answer}")
        return answer["result"]

    def get(self, path):
        """The body of what a GET answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        if response.status != 200:
            raise RuntimeError(f"{self.name}: GET {path}: {response.status} {body[:200]!r}")
        return body

    def cpu_ns(self):
        """Nanoseconds on a core, by thread; `cpu_between` takes two of them."""
        threads = {}
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{thread}/schedstat") as stat:
                    threads[thread] = int(stat.read().split()[0])
            except OSError:
                pass
        return threads

    @staticmethod
    def cpu_between(before, after):
        return sum(spent - before.get(thread, 0) for thread, spent in after.items())

    def written(self, thread):
        """Bytes that the thread of this name has handed to write calls, whichever file they were for."""
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/comm") as comm:
                if comm.read().strip() != thread:
                    continue
            with open(f"/proc/{self.pid}/task/{task}/io") as io:
                return int(next(line.split()[1] for line in io if line.startswith("wchar:")))
        raise RuntimeError(f"{self.name} has no thread {thread}")

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        raise RuntimeError(f"{self.name} has no VmRSS")

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
