"""Every link leads somewhere, and every page can be found."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.support.docs_pages import PAGES, ROOT, anchors, links, name_of

INDEX = ROOT / "docs" / "README.md"


def test_links_and_anchors_lead_somewhere() -> None:
    """Files exist, and so does the heading behind a `#`. Other sites are not asked."""
    broken = [
        f"{name_of(page)}: {link}"
        for page in PAGES
        for link in links(page)
        if not urlsplit(link).scheme and not _leads_somewhere(page, link)
    ]
    assert broken == []


def _leads_somewhere(page: Path, link: str) -> bool:
    address = urlsplit(link)
    target = (page.parent / unquote(address.path)).resolve() if address.path else page
    if not (target.exists() and target.is_relative_to(ROOT)):
        return False
    return not address.fragment or address.fragment in anchors(target)


def test_the_index_names_every_page_once() -> None:
    """`docs/README.md` lists every page."""
    linked = [(INDEX.parent / link).resolve() for link in links(INDEX) if not urlsplit(link).scheme]
    pages = sorted(page for page in linked if page.suffix == ".md" and page.parent == INDEX.parent)
    assert pages == [page for page in PAGES if page.parent == INDEX.parent and page != INDEX]


def test_every_picture_is_shown() -> None:
    """Nothing lies in `docs/images` that no page shows."""
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page)}
    assert [name_of(path) for path in sorted((ROOT / "docs/images").iterdir()) if path not in shown] == []
