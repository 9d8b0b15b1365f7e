"""What is installed: exactly what was locked, byte for byte, and nothing that is known to be bad."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCKS = ["requirements.lock", "requirements-dev.lock", "requirements-model.lock"]
KNOWN_BAD = {"litellm": ("1.82.7", "1.82.8")}
"""Releases that carried malicious code."""

_LINE = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^\s;]+)(?: ; (?P<marker>[^\\]+?))?")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def _locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each requirement, and not a word besides."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    locked: dict[str, tuple[str, list[str]]] = {}
    for line in text.splitlines():
        requirement, *hashes = re.split(r"\s+(?=--hash=)", line.strip())
        found = _LINE.fullmatch(requirement)
        assert found, f"{name} holds something else than a pinned requirement: {line[:100]}"
        assert found["name"] not in locked
        locked[found["name"]] = (found["version"], [each.strip() for each in hashes])
    return locked


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_has_its_hashes(name: str) -> None:
    """Only packages with the recorded hash are installed."""
    locked = _locked(name)
    assert locked
    for package, (_, hashes) in locked.items():
        assert hashes, package
        assert all(_HASH.fullmatch(each) for each in hashes), package


@pytest.mark.parametrize("name", [*LOCKS, "pyproject.toml", "Makefile"])
def test_no_registry_is_named(name: str) -> None:
    """Where packages come from is the business of the machine that installs them."""
    text = (ROOT / name).read_text()
    for sign in ("://", "--index", "--extra-index", "--find-links", " @ ", "--trusted-host"):
        assert sign not in text, sign


def test_tests_run_on_what_people_run() -> None:
    """The lock for development holds everything of the other, in the same versions."""
    runtime, development = _locked("requirements.lock"), _locked("requirements-dev.lock")
    assert {name: development.get(name) for name in runtime} == runtime


def test_known_bad_releases_are_shut_out() -> None:
    """Neither locked nor admitted by what the next lock is made from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {one.name: one for one in map(Requirement, project["dependencies"])}
    for name, versions in KNOWN_BAD.items():
        for version in versions:
            assert not wanted[name].specifier.contains(version)
            assert all(_locked(lock).get(name, ("", []))[0] != version for lock in LOCKS)


def test_every_lock_is_installed_with_its_hashes() -> None:
    """pip looks at them only where it is told to, or where it finds one; a lock without any would pass."""
    lines = [
        line
        for line in (ROOT / "Makefile").read_text().splitlines()
        if " install " in line and " -r " in line
    ]
    assert len(lines) == len(LOCKS)
    assert all("--require-hashes" in line for line in lines)
