"""What `ls`, `find` and `grep` print: how much, and grouped by where and of which kind."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from .room import Findings, Section
from .source import Source
from .values import as_written, counted, one_line

_SAMPLE = 200
_LEAST_SHARE = 0.85
_SHOWN = 40
_FEW_FOLDERS = 5
"""Where all lies in so few, those in them tell more."""
_HIT = re.compile(r"((?:\.{0,2}/)?[^\s:][^:\n]{0,300}?)[:](\d{1,8})[:](.*)")
_LONG = re.compile(
    r"([-dlbcps])[-rwxsStT]{9}[.+@]?\s+\d+\s+\S{1,60}\s+\S{1,60}\s+([\d.,]+[KMGT]?)\s+(.{11,14}?) (\S.{0,300})"
)
_PATH = re.compile(
    r"(?:\.{0,2}/|[\w@~.+-]+/)[^\s:;,(){}<>\"'=|]{0,300}|[\w@+-][\w@.+-]{0,80}\.[A-Za-z][\w]{0,7}"
)
_FILE_LIKE = re.compile(r".*(?:[/\\]|\.[A-Za-z]\w{0,7}$)")
_ADDRESS = re.compile(r"https?$")


def read_listing(source: Source) -> Findings | None:
    sample = [line[:600] for line in islice(source.lines, _SAMPLE) if line.strip()]
    if len(sample) < 5:
        return None
    enough = len(sample) * _LEAST_SHARE
    if sum(bool(_LONG.match(line)) for line in sample) >= enough - 2:
        return _long_listing(source)
    if sum(_is_hit(line) for line in sample) >= enough:
        return _hits(source)
    if sum(bool(_PATH.fullmatch(line.strip())) for line in sample) >= enough:
        return _paths(source)
    return None


def _is_hit(line: str) -> bool:
    hit = _HIT.match(line)
    return hit is not None and _FILE_LIKE.match(hit[1]) is not None and not _ADDRESS.search(hit[1])


def _lines(source: Source) -> list[str]:
    return [line[:1_000] for line in source.lines if line.strip()]


def _beginning_only(source: Source) -> str:
    return "" if source.all_read else " in its beginning"


def _long_listing(source: Source) -> Findings | None:
    entries = [found for line in _lines(source) if (found := _LONG.match(line))]
    if not entries:
        return None
    folders = sum(entry[1] == "d" for entry in entries)
    files = [entry for entry in entries if entry[1] == "-"]
    largest = sorted(files, key=lambda entry: -_bytes(entry[2]))[:_SHOWN]
    facts = (
        f"{counted(len(files), 'file')}, {counted(folders, 'folder')}{_beginning_only(source)}, "
        f"{sum(_bytes(entry[2]) for entry in files):,} bytes"
    )
    names = [one_line(entry[4]) + ("/" if entry[1] == "d" else "") for entry in entries]
    return Findings(
        "listing",
        facts,
        [
            _by_extension([entry[4] for entry in files]),
            Section.flat("Largest:", [f"{entry[2]} {one_line(entry[4])}" for entry in largest[:10]]),
            Section.flat("Entries:", names[:_SHOWN], more=max(0, len(names) - _SHOWN)),
        ],
    )


def _bytes(size: str) -> int:
    unit = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}.get(size[-1:], 1)
    try:
        return int(float(size.rstrip("KMGT").replace(",", "")) * unit)
    except ValueError:
        return 0


def _hits(source: Source) -> Findings:
    files: Counter[str] = Counter()
    first: dict[str, str] = {}
    for line in _lines(source):
        if hit := _HIT.match(line):
            files[hit[1]] += 1
            if len(first) < _SHOWN:
                first.setdefault(hit[1], f"  {hit[2]}: {hit[3].strip()}")
    facts = (
        f"{counted(sum(files.values()), 'match')} in {counted(len(files), 'file')}{_beginning_only(source)}"
    )
    lines: list[tuple[int, str]] = []
    for path, number in files.most_common(_SHOWN):
        lines.append((0, f"{one_line(path)}: {number:,}"))
        if path in first:
            lines.append((1, as_written(first[path], 120)))
    return Findings("search results", facts, [Section("By file:", lines, more=max(0, len(files) - _SHOWN))])


def _paths(source: Source) -> Findings:
    paths = [line.strip() for line in _lines(source)]
    depth = _shared_depth(paths)
    folders = Counter(_folder(path, depth) for path in paths)
    if len(folders) < _FEW_FOLDERS:
        folders = Counter(_folder(path, depth + 1) for path in paths)
    grouped = [f"{one_line(folder)}: {number:,}" for folder, number in folders.most_common(_SHOWN)]
    names = list(map(one_line, paths[:_SHOWN]))
    return Findings(
        "listing",
        f"{counted(len(paths), 'path')}{_beginning_only(source)}",
        [
            _by_extension(paths),
            Section.flat(
                "By folder:", grouped if len(folders) > 1 else [], more=max(0, len(folders) - _SHOWN)
            ),
            Section.flat("First:", names, more=max(0, len(paths) - _SHOWN)),
        ],
    )


def _shared_depth(paths: list[str]) -> int:
    """How many folders all of them have in common."""
    low, high = min(paths).split("/")[:-1], max(paths).split("/")[:-1]
    pairs = enumerate(zip(low, high, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(low), len(high)))


def _folder(path: str, depth: int) -> str:
    return "/".join(path.split("/")[:-1][: depth + 1]) + "/"


def _by_extension(paths: list[str]) -> Section:
    names = (path.rstrip("/").rpartition("/")[2] for path in paths)
    kinds = Counter(f".{name.rpartition('.')[2][:12]}" if "." in name[1:] else "without" for name in names)
    return Section.flat(
        "",
        [
            one_line(
                f"Extensions: {', '.join(f'{kind} {number:,}' for kind, number in kinds.most_common(12))}"
            )
        ],
    )
