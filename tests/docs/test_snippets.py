"""What the documentation shows is what happens: each page is run from its top, in a process and a directory of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, PageRunner, PageSetup, Unlike, alike, blocks

ELSEWHERE = {
    "docs/guides/cli.md": "tests/cli/test_guide.py",
    "docs/guides/lint.md": "tests/lint/test_guide.py",
    "docs/guides/moving.md": "tests/docs/test_moving_guide.py",
    "docs/guides/notebooks.md": "tests/display/test_guide.py",
    "docs/guides/testing.md": "tests/testing/test_guide.py",
    "docs/guides/transactions-postgres.md": "tests/docs/test_postgres_guide.py",
    "docs/guides/workers.md": "tests/tasks/test_guide.py",
}
"""Pages that a test of their own runs, in their own way."""

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")))
SHOWING = [page for page in PAGES if any(block.language in ("python", "sh") for block in blocks((ROOT / page).read_text(encoding="utf-8")))]


LONG = {f"docs/guides/{name}.md" for name in ("models", "repair", "webhooks")}
"""Pages that show many processes."""


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, marks=pytest.mark.prove) if page in LONG else page for page in SHOWING if page not in ELSEWHERE])
def test_what_a_page_shows_is_what_happens(page: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.docs.pages", page]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_pages_that_are_run_elsewhere_are() -> None:
    for page, test in ELSEWHERE.items():
        assert (ROOT / page).is_file()
        near = (ROOT / test).read_text(encoding="utf-8") + "".join(path.read_text(encoding="utf-8") for path in (ROOT / test).parent.glob("guide_writer.py"))
        assert page.rpartition("/")[2] in near


def test_little_is_only_shown_and_it_says_why() -> None:
    shown = [(page, block.marks["not run"]) for page in SHOWING for block in blocks((ROOT / page).read_text(encoding="utf-8")) if "not run" in block.marks]
    assert len(shown) <= 3, shown
    assert all(len(why.split()) > 3 for _, why in shown), shown


def read(text: str, directory: Path) -> None:
    PageRunner("page.md", directory, PageSetup()).read(blocks(text))


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```\n\n```python\nprint(x)\n#> 1\n```\n",
        "```python\nprint('a')\n```\n\n```text\na\n```\n",
        "<!-- fails: KeyError -->\n```python\n{}[7]\n```\n\n```text\nKeyError: 7\n```\n",
        "<!-- not run: it is wrong on purpose -->\n```python\n1 / 0\n```\n",
        "<!-- exits: 3 -->\n```sh\npython -c 'print(5); exit(3)'\n```\n\n```text\n5\n```\n",
        "```python\n# there.py\nvalue = 3\n```\n\n```python\nfrom there import value\n```\n",
        "```yaml\n# there.yaml\nvalue: 3\n```\n\n```sh\npython -c 'print(open(\"there.yaml\").read())'\n```\n\n```text\n# there.yaml value: 3\n```\n",
    ],
)
def test_a_page_that_is_right_passes(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    read(text, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint('b')\n#> a\n```\n",
        "```python\n1 / 0\n```\n",
        "<!-- fails: KeyError -->\n```python\n1 / 0\n```\n",
        "<!-- fails: KeyError -->\n```python\npass\n```\n",
        "<!-- fails: ValueError -->\n```python\nint('x')\n```\n\n```text\nValueError: something else\n```\n",
        "```sh\npython -c 'exit(3)'\n```\n",
        "```sh\npython -c 'print(5)'\n```\n\n```text\nfive\n```\n",
    ],
)
def test_a_page_that_is_wrong_fails(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    with pytest.raises(Unlike, match=r"^page\.md:\d"):
        read(text, tmp_path)


def test_numbers_ids_and_dots_stand_for_others_and_words_do_not() -> None:
    assert alike("took 0.5 s in 3f2a9b1c7d", "took 12 s  in aa11bb22cc\n") and alike("begins …\nends", "begins\nand goes on\nends")
    assert not alike("begins … ends", "begins and never") and not alike("failed", "failed twice")
    assert blocks("```python\nx\n```\n") == [Block("python", "x\n", 0, {})]
