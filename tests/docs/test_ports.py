"""The guides for people who come from elsewhere show the code of the ported examples, and say where what they quote is from."""

import ast
import re

import pytest

from tests.docs.pages import ROOT, blocks

PORTS = {
    "from-celery": ("canvas",),
    "from-dbos": ("widget_store",),
    "from-prefect": ("articles_etl",),
    "from-temporal": ("money_transfer", "greetings"),
}
"""The guides, each with the examples whose code it shows."""

QUOTED_FROM = re.compile(r"https://github\.com/[\w-]+/[\w.-]+/(?:tree|blob)/[0-9a-f]{40}")
LICENCES_THAT_PERMIT_IT = ("MIT", "Apache-2.0")


def definitions(source: str) -> dict[str, str]:
    """The functions and classes at the top of a module, each with its text."""
    lines = source.splitlines()
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[node.name] = "\n".join(lines[begin - 1 : node.end_lineno])
    return found


def page(name: str) -> str:
    return (ROOT / "docs/guides" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PORTS)
def test_what_a_guide_shows_of_a_port_is_what_the_port_is(name: str) -> None:
    ported: dict[str, str] = {}
    for module in PORTS[name]:
        ported |= definitions((ROOT / "examples/ports" / f"{module}.py").read_text(encoding="utf-8"))
    shown: dict[str, str] = {}
    for block in blocks(page(name)):
        if block.language == "python":
            shown |= definitions(block.text)
    common = shown.keys() & ported.keys()
    assert len(common) >= 5
    for one in sorted(common):
        assert shown[one] == ported[one], f"docs/guides/{name}.md shows another {one} than its example"


@pytest.mark.parametrize("name", PORTS)
def test_a_guide_names_the_commit_and_the_licence_of_its_original(name: str) -> None:
    text = page(name)
    assert QUOTED_FROM.search(text)
    assert re.search("licen[cs]e|MIT|Apache-2.0", text)
    if any(block.language == "py" for block in blocks(text)):
        assert any(f"{licence})" in text for licence in LICENCES_THAT_PERMIT_IT), "only what may be quoted is quoted"
        assert "Copyright" in text


def test_only_these_guides_quote_code() -> None:
    quoting = [path.stem for path in ROOT.glob("docs/**/*.md") if any(block.language == "py" for block in blocks(path.read_text(encoding="utf-8")))]
    assert sorted(quoting) == ["from-prefect", "from-temporal"]
