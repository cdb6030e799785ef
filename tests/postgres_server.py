"""A PostgreSQL server for tests, where the machine has one."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest


def find_binaries() -> Path:
    """The folder of ``initdb`` and ``postgres``; without one the test is skipped."""
    there = [Path(found).resolve() for found in [shutil.which("initdb")] if found]
    installed = [*sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")), *there]
    if not installed:
        pytest.skip("PostgreSQL is not installed")
    return installed[-1].parent


@contextmanager
def serve():
    """The port of a server that runs as long as the block does; its user is ncgnn."""
    binaries, folder = find_binaries(), Path("/tmp") / f"ncgnn-pg-{os.getpid()}-{time.time_ns()}"
    folder.mkdir(mode=0o700)
    as_user = []
    if os.getuid() == 0:  # a server refuses to run as root
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    init = [binaries / "initdb", "-D", folder / "data", "-U", "ncgnn", "-A", "trust", "--no-sync"]
    subprocess.run([*as_user, *init, "-E", "UTF8"], check=True, capture_output=True, cwd="/")
    serving = [binaries / "postgres", "-D", folder / "data", "-p", str(port), "-k", folder]
    server = subprocess.Popen([*as_user, *serving, "-F"], stderr=subprocess.DEVNULL, cwd="/")
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    try:
        yield port
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)
        shutil.rmtree(folder)


class Psql:
    """The program ``psql``, connected to a server."""

    def __init__(self, port: int) -> None:
        program = find_binaries() / "psql"
        self._call = [program, "-h", "127.0.0.1", "-p", str(port), "-U", "ncgnn", "-d", "postgres"]
        self._call += ["-X", "-q", "-v", "ON_ERROR_STOP=1", "--csv"]

    def __call__(self, statements: str) -> str:
        """Run statements that are read like a file; returns what they print, as CSV."""
        given = {"input": statements, "capture_output": True, "text": True, "encoding": "utf-8"}
        done = subprocess.run([*self._call, "-f", "-"], check=False, **given)
        assert done.returncode == 0, done.stderr
        return done.stdout
