"""Links lead somewhere: from every page to the pages, headings and files that it names, and from docstrings to pages."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGES = sorted((ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")))
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
MENTIONED = re.compile(r"\bdocs/[\w/.-]+\.md\b")


def anchors(page: Path) -> set[str]:
    """What can be linked to in a page, as GitHub and others make it of the headings."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)).strip().lower().replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    text = re.sub(r"`[^`\n]*`", "`x`", FENCED.sub("", page.read_text(encoding="utf-8")))
    found = []
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


@pytest.mark.slow
def test_every_page_that_code_names_exists() -> None:
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("examples/*.py"), ROOT / "Makefile"]:
        if path != Path(__file__):
            missing = [name for name in MENTIONED.findall(path.read_text(encoding="utf-8")) if not (ROOT / name).exists()]
            assert missing == [], path


def test_the_index_has_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")]
    assert [page for page in pages if f"({page})" not in index and page != "README.md" and not page.startswith("decisions/")] == []
    assert "(decisions)" in index


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A heading, and `code`\n\n```sh\n# no heading\n```\n\n## Twice\n\n## Twice\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#a-heading-and-code) [b](there.md#twice-1) [c](https://x.y/z) `[d](gone.md)` [e](gone.md) [f](there.md#no-heading)\n")
    assert broken(page) == ["gone.md", "there.md#no-heading"]
