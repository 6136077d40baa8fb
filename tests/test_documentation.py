"""What the pages name exists: files of the repository, other pages, their sections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Files that a worked example adds.
INVENTED = {
    "instrumentor/locate/rules/meta_device.py",
    "instrumentor/profilers/strace.py",
    "tests/profilers/test_strace.py",
}
_NAMED = re.compile(r"`((?:instrumentor|analysis|tests|fixtures)/[\w./]+\.(?:py|yaml|j2|csv))`")
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = {name for name in _NAMED.findall(text) if name not in INVENTED}
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []
    linked = _LINK.findall(text)
    assert [link for link in linked if not (page.parent / link).exists()] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_all_pages_are_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f"(docs/{page.name})" in readme
