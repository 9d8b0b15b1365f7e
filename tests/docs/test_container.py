"""`Dockerfile`, `.dockerignore` and `compose.yaml`: linted, and what can be tried without an engine is tried."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config.schema import Config
from tests.support.docs_pages import ROOT
from tests.support.hermes_process import environment
from tests.support.warm import HERMES, run
from tests.support.wheel import build_wheel

BIN = Path(sys.executable).parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
PORT = Config().platforms.web.port
TOKEN = "0123456789abcdef"


def instructions(name: str) -> list[str]:
    """Return the arguments of each instruction of this name, with continued lines joined and comments removed."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return [line.removeprefix(name).strip() for line in text.splitlines() if line.startswith(f"{name} ")]


def copied() -> list[str]:
    """From the clone into the image."""
    lines = [line.split() for line in instructions("COPY") if not line.startswith("--from")]
    return [source for *sources, _ in lines for source in sources]


def variables() -> dict[str, str]:
    return dict(pair.split("=", 1) for line in instructions("ENV") for pair in line.split())


def service() -> dict[str, Any]:
    (only,) = COMPOSE["services"].values()
    assert isinstance(only, dict)
    return only


def test_the_dockerfile_is_linted() -> None:
    """Without a remark; and the linter is one that makes remarks."""
    assert _hadolint(DOCKERFILE) == ""
    assert "DL3006" in _hadolint("FROM python\n")


def test_everything_that_is_copied_is_there_and_is_enough(tmp_path: Path) -> None:
    """The wheel that the image installs, built from nothing but what is copied."""
    admitted = re.findall(r"^!(.+?)/?$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sorted(admitted) == sorted(copied())
    for name in copied():
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    with zipfile.ZipFile(build_wheel(tmp_path, tmp_path)) as wheel:
        inside = set(wheel.namelist())
    assert inside >= {"hermes.yaml", "gateway/cli/__init__.py", "gateway/platforms/web/static/page.css"}
    assert any(name.startswith("migrations/") for name in inside)


def test_what_is_installed_was_locked() -> None:
    """The image pins packages and model weights by hash, has a supported Python, and runs without root."""
    installs = [line for line in instructions("RUN") if "pip install" in line]
    assert [("--require-hashes" in line, re.findall(r"-r (\S+)", line)) for line in installs] == [
        (True, ["requirements.lock"]),
        (True, ["requirements-model.lock"]),
        (False, []),
    ]
    assert installs[-1].endswith("--no-deps --no-build-isolation .")
    (image,) = {line.split()[0] for line in instructions("FROM")}
    tag, _, digest = image.partition("@")
    assert tag == f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest), "a tag can be moved"
    assert "syntax=" not in DOCKERFILE, "it would fetch another image, which is not pinned"
    (user,) = instructions("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert not re.search(r"^(ARG|ADD)\b|TOKEN=|KEY=|SECRET=", DOCKERFILE, re.MULTILINE)


async def test_its_command_starts_and_its_check_tells(tmp_path: Path) -> None:
    """The same words, in the same folder; the check is well while it runs and ill afterwards."""
    (tmp_path / "hermes.yaml").write_text("platforms: {web: {host: '${HERMES_WEB_HOST}', port: 0}}\n")
    (command,), (check,) = map(json.loads, instructions("CMD")), _health_commands()
    ours = {**variables(), "PATH": f"{BIN}:/usr/bin:/bin", "HERMES_WEB_HOST": "127.0.0.1"}
    env = environment(tmp_path, **{**ours, "HERMES_HOME": str(tmp_path), "HERMES_WEB_TOKEN": TOKEN})
    pipe, out = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
    running = await asyncio.create_subprocess_exec(
        str(BIN / command[0]), *command[1:], env=env, cwd=tmp_path, stdout=pipe, stderr=out
    )
    assert running.stdout
    told = ""
    while b"Ctrl-C stops Hermes" not in (line := await asyncio.wait_for(running.stdout.readline(), 30)):
        assert line, f"it has ended:\n{told}"
        told += line.decode()
    (port,) = set(re.findall(r"http://127\.0\.0\.1:(\d+)", told))
    assert f":{PORT}/" in check[-1]
    program, *arguments = [word.replace(f":{PORT}/", f":{port}/") for word in check]

    async def health() -> int:
        asked = await asyncio.create_subprocess_exec(str(BIN / program), *arguments, stderr=pipe)
        await asked.communicate()
        return asked.returncode or 0

    assert await health() == 0
    running.terminate()
    await asyncio.wait_for(running.communicate(), 30)
    assert (running.returncode, await health()) == (0, 1)


@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        ("", "expected a token, because platforms.web.host is 0.0.0.0 and others can reach it"),
        (TOKEN[:15], "expected at least 16 characters, because platforms.web.host is 0.0.0.0"),
    ],
)
def test_without_a_token_it_says_so_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str, sentence: str
) -> None:
    """With the variables of the image and an empty volume, before anything listens."""
    monkeypatch.chdir(tmp_path)
    given = {**variables(), "PATH": "/usr/bin", "HERMES_HOME": str(tmp_path), "HERMES_WEB_TOKEN": token}
    ((_, *arguments),) = map(json.loads, instructions("CMD"))
    ended = run([*HERMES, *arguments], env=environment(tmp_path, **given))
    assert ended.returncode == 2
    assert sentence in ended.stderr


def test_compose_opens_nothing_to_others() -> None:
    """One service; its port on this machine's loopback, the same on both sides; no capability, nothing to write to but
    the volume and /tmp."""
    assert service()["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert instructions("EXPOSE") == [str(PORT)]
    assert service()["cap_drop"] == ["ALL"]
    assert (service()["read_only"], service()["tmpfs"]) == (True, ["/tmp"])
    assert service()["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "network_mode", "user", "pid"} & service().keys()


def test_compose_bounds_what_it_may_use() -> None:
    """Memory, processes and descriptors: a fault must not take the machine along."""
    assert service()["mem_limit"] == "2g"
    assert service()["pids_limit"] == 512
    assert service()["ulimits"]["nofile"] == {"soft": 65536, "hard": 65536}


def test_compose_keeps_what_was_said_and_knows_no_secret() -> None:
    """The state directory is a named volume; keys come from a file that neither git nor the image takes."""
    (mount,) = service()["volumes"]
    volume, _, target = mount.partition(":")
    assert volume in COMPOSE["volumes"]
    assert [target] == instructions("VOLUME") == instructions("WORKDIR")[-1:] == [variables()["HERMES_HOME"]]
    assert service()["env_file"] == ".env"
    assert "/.env" in (ROOT / ".gitignore").read_text().splitlines()
    ((name, value),) = service()["environment"].items()
    # The sentence that Compose prints when it is missing.
    assert re.fullmatch(
        rf"\$\{{{name}:\?put {name}=\.\.\. with at least 16 characters into \.env \(.+\)\}}", value
    )
    seconds = int(service()["stop_grace_period"].removesuffix("s"))
    assert seconds > Config().gateway.drain_seconds


def test_compose_can_read_it(tmp_path: Path) -> None:
    """With Docker's own parser, where there is one."""
    version = ["docker", "compose", "version"]
    if not shutil.which("docker") or subprocess.run(version, capture_output=True, check=False).returncode:
        pytest.skip("there is no `docker compose` here")
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    (tmp_path / ".env").write_text(f"HERMES_WEB_TOKEN={TOKEN}\n")
    compose = ["docker", "compose", "--project-directory", str(tmp_path), "config", "--quiet"]
    read = subprocess.run(compose, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr
    (tmp_path / ".env").write_text("")
    refused = subprocess.run(compose, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "16 characters" in refused.stderr


def _health_commands() -> list[list[str]]:
    return [json.loads(line.partition("CMD")[2]) for line in instructions("HEALTHCHECK")]


def _hadolint(text: str) -> str:
    command = [str(BIN / "hadolint"), "--no-color", "-"]
    linted = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    return linted.stdout + linted.stderr
