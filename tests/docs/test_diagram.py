"""The diagram in docs/architecture.md: correct and legible."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tests.support.docs_pages import ROOT

PICTURE = ROOT / "docs" / "images" / "architecture.svg"
TEXT = PICTURE.read_text()
SVG = "{http://www.w3.org/2000/svg}"


def test_every_room_exists() -> None:
    """Every box names a path of the source."""
    named = [
        path
        for text in ElementTree.fromstring(TEXT).iter(f"{SVG}text")
        if text.get("class") in ("path", "label")
        for path in (text.text or "").split()
    ]
    assert len(named) > 15
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_it_can_be_read_without_eyes_and_loads_nothing() -> None:
    """A title, a description that names the stations, no script and no address."""
    picture = ElementTree.fromstring(TEXT)
    title, description = picture.find(f"{SVG}title"), picture.find(f"{SVG}desc")
    assert title is not None and description is not None
    assert picture.get("role") == "img"
    assert picture.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert all(
        word in (description.text or "") for word in ("inbox", "queue", "loop", "hub", "outbox", "store")
    )
    assert "<script" not in TEXT
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\((?!#)", TEXT) == []


def test_it_can_be_read_in_the_light_and_in_the_dark() -> None:
    """Texts have a contrast of at least 4.5 to 1, arrows of 3 to 1, in both color schemes."""
    light, dark = TEXT.split("@media (prefers-color-scheme: dark)")
    schemes = [_colours(light), {**_colours(light), **_colours(dark)}]
    for scheme in schemes:
        for text in ("name", "path", "label"):
            for behind in ("box", "room"):
                assert _contrast(scheme[text, "fill"], scheme[behind, "fill"]) >= 4.5, (text, behind)
        for line in (("way", "stroke"), ("back", "stroke"), ("tip", "fill"), ("tip-back", "fill")):
            assert _contrast(scheme[line], scheme["room", "fill"]) >= 3
    assert schemes[0] != schemes[1]


def _colours(style: str) -> dict[tuple[str, str], str]:
    rules = re.findall(r"((?:\.[\w-]+,? ?)+)\{([^}]*)\}", style)
    return {
        (name, what): colour
        for names, rule in rules
        for name in re.findall(r"\.([\w-]+)", names)
        for what, colour in re.findall(r"(fill|stroke): #(\w{6})", rule)
    }


def _contrast(one: str, other: str) -> float:
    """As the guidelines for accessible pages (WCAG) reckon it."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
