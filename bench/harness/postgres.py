"""A private PostgreSQL on the disk that is measured, held by the script that the tests use too; it ends with its input."""

import glob
import os
import pwd
import secrets
import shutil
import subprocess

from .server import free_port

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEEPER = os.path.join(os.path.dirname(HOME), "crates", "cluster", "src", "keeper.sh")
SETTINGS = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 100\nshared_buffers = '128MB'\n"


def programs():
    """The folder of PostgreSQL's programs."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    path = found[-1] if found else shutil.which("initdb")
    if not path:
        raise RuntimeError("PostgreSQL is missing: apt-get install postgresql")
    return os.path.dirname(os.path.realpath(path))


class Postgres:
    def __init__(self, folder):
        self.bin, self.port, self.password = programs(), free_port(), secrets.token_hex(8)
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o777)
        user = {}
        if os.geteuid() == 0:
            # it does not run as root
            name = "postgres" if self._there("postgres") else "nobody"
            user = {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}
        env = {**os.environ, "bin": self.bin, "password": self.password, "port": str(self.port), "settings": SETTINGS,
               "TMPDIR": folder}
        self.keeper = self._keeper(env, user)
        for word in ("make", "start"):
            self._say(word)

    @staticmethod
    def _there(name):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            return None

    @staticmethod
    def _keeper(env, user):
        with open(KEEPER) as script:
            # by argument, so that whoever runs it need not be able to read our folder
            command = ["sh", "-c", script.read()]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd="/", **user)

    def _say(self, word):
        self.keeper.stdin.write(f"{word}\n")
        self.keeper.stdin.flush()
        said = []
        for line in self.keeper.stdout:
            if line.strip() in ("ok", "failed"):
                if line.strip() == "failed":
                    raise RuntimeError(f"PostgreSQL: {word}: {''.join(said)}")
                return
            said.append(line)
        raise RuntimeError(f"PostgreSQL ended: {''.join(said)}")

    def _run(self, program, *arguments):
        env = {**os.environ, "PGPASSWORD": self.password}
        common = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "rialto"]
        command = [os.path.join(self.bin, program), *common, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")
        return done.stdout

    def database(self, name):
        """A fresh database; how a config names it."""
        self._run("createdb", name)
        # servers that are started here inherit it
        os.environ[f"BENCH_{name.upper()}"] = self._address(name)
        return f"env:BENCH_{name.upper()}"

    def _address(self, name):
        return f"postgres://rialto:{self.password}@127.0.0.1:{self.port}/{name}"

    def round_trip_ms(self):
        """The mean of a question and its answer on an open connection."""
        env = {**os.environ, "PGPASSWORD": self.password}
        command = [os.path.join(self.bin, "pgbench"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "rialto", "-n", "-c1",
                   "-T2", "-M", "prepared", "-f", "/dev/stdin", "postgres"]
        done = subprocess.run(command, input="SELECT 1;\n", capture_output=True, text=True, env=env)
        line = next(line for line in done.stdout.splitlines() if line.startswith("latency average"))
        return float(line.split("=")[1].split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.keeper.stdin.close()
        self.keeper.wait(60)
