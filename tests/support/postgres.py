"""A real PostgreSQL for tests, from installed binaries: one server per test session, one database per test."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest

_FAST = "-c fsync=off -c full_page_writes=off -c synchronous_commit=on -c shared_buffers=16MB -c max_connections=60"
_TEMPLATE = "hermes_template"


class PostgresServer:
    """A server that listens on a unix socket in its own directory."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._numbers = count(1)

    def url(self, database: str) -> str:
        return f"postgresql://hermes@/{database}?host={self._socket}"

    def execute(self, statement: str) -> None:
        import psycopg

        with closing(psycopg.connect(self.url("postgres"), autocommit=True)) as connection:
            connection.execute(statement)

    def empty_database(self) -> str:
        """Create a database without tables and return its URL."""
        return self._create("template0")

    def database(self) -> str:
        """Create a migrated database and return its URL."""
        return self._create(_TEMPLATE)

    def _create(self, template: str) -> str:
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def drop(self, url: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {_name(url)} WITH (FORCE)")

    def cut_connections(self, url: str) -> None:
        self.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{_name(url)}'")


def _name(url: str) -> str:
    return url.split("/")[3].partition("?")[0]


def why_not() -> str:
    """Return why no server can be started; empty if it can."""
    try:
        import psycopg  # noqa: F401
        import psycopg_pool  # noqa: F401
    except ImportError:
        return "psycopg is not installed: make test installs it"
    if not _binaries():
        return "PostgreSQL is not installed: make postgres installs it on Debian"
    if os.geteuid() == 0 and not _user():
        return "PostgreSQL does not run as root, and there is no user `postgres` or `nobody`"
    return ""


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Start a server with a migrated template database, and stop it at the end."""
    if reason := why_not():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="hermes-pg-", dir=_fast_disk()) as folder:
        home = Path(folder)
        if user := _user():
            os.chown(home, user.pw_uid, user.pw_gid)
        data = home / "data"
        _run("initdb", "-D", data, "-U", "hermes", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        options = f"-k {home} -c listen_addresses='' {_FAST}"
        _run("pg_ctl", "-D", data, "-l", home / "log", "-w", "-t", "60", "-o", options, "start")
        try:
            server = PostgresServer(home)
            server.execute(f"CREATE DATABASE {_TEMPLATE} TEMPLATE template0")
            _migrate(server.url(_TEMPLATE))
            yield server
        finally:
            _run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")


def _fast_disk() -> Path | None:
    """Return a folder in memory with enough space, or None for the usual place."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 2**30 else None


def _migrate(url: str) -> None:
    from gateway.store.postgres.connection import PostgresConnection, connect
    from gateway.store.postgres.migrate import load_migrations, migrate

    with closing(connect(url)) as connection:
        migrate(PostgresConnection(connection), load_migrations())


def _run(program: str, *arguments: object) -> None:
    command = [str(_binaries() / program), *map(str, arguments)]
    if user := _user():
        identity = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        command = ["setpriv", *identity, *command]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd="/", stdin=subprocess.DEVNULL
    )
    if ran.returncode:
        raise RuntimeError(f"{program}: {ran.stdout}{ran.stderr}")


def _binaries() -> Path | None:
    """Return the folder of the newest installed PostgreSQL."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    found = debian[-1] if debian else shutil.which("initdb")
    return Path(found).parent if found else None


def _user() -> pwd.struct_passwd | None:
    """Return the user that runs the server: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None
