"""Finds synonyms of the glossary's terms in names, docstrings, the help of commands, and pages.

`SYNONYMS` maps each synonym, a pattern, to its term. `ALLOWED` lists the uses that mean something else, with the reason.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click

from tests import tidy
from tests.docs.pages import ROOT

TERM = re.compile(r"^\| ([\w -]+) \| (.+) \|$", re.MULTILINE)

_BEFORE_NOUN = r"\b(?:a|an|the|each|every|this|that|its|one|no|first|second|third|last|next|further|another|earlier|many|several|all|of|open|\d+)"
SYNONYMS = {
    r"activit(?:y|ies)": "step",
    r"alarms?": "wake-up",
    r"bells?": "notification",
    r"(?:borrow|lend|lent)\w*": "lease",
    r"compensat\w+": "undo",
    r"heralds?": "notification",
    r"journals?": "log",
    r"keepers?": "supervisor",
    r"(?<!dead[ _])(?<!dead-)letters?(?! of an? name)": "message",
    r"loans?": "lease",
    r"lodgers?": "holder",
    r"(?<![-/])mails?": "message",
    r"nurser(?:y|ies)": "supervisor",
    r"rings?": "notification",
    r"sagas?": "undo",
    r"strands?": "branch",
    r"tries(?! to)": "attempt",
    rf"{_BEFORE_NOUN} try": "attempt",
    r"warm": "resident",
    r"cold": "evicted",
}

ALLOWED = {
    ("cli/dead_letter_commands.py", "letters"): "dead letters",
    ("docs/guides/approvals.md", "mail"): "electronic mail",
    ("docs/guides/attributes.md", "letter"): "letters of an alphabet",
    ("docs/reference/formats.md", "letter"): "letters of an alphabet",
    ("docs/guides/versions.md", "mail"): "electronic mail",
    ("docs/reference/patterns.md", "activity"): "names of the patterns",
    ("dialects/token_graph/node_reader.py", "compensator"): "a field of that format",
    ("definitions/expr/references.py", "letter"): "letters of an alphabet",
    ("definitions/format/shapes.py", "letter"): "letters of an alphabet",
    ("docs/coming-from.md", "activit"): "a word of Temporal",
    ("docs/coming-from.md", "saga"): "a word of Temporal",
    ("docs/glossary.md", "compensation"): "the glossary says that others call it so",
    ("lint/workflow_code.py", "tries"): "`try` statements of Python",
    ("service/dead_letter_groups.py", "letter"): "dead letters, as the module says",
    ("testing/runs.py", "letter"): "dead letters",
    ("testing/world.py", "letter"): "dead letters",
}
"""Where a word means something else, and what."""


class Use(NamedTuple):
    """A use of a synonym: in which scope and file, the word, its term, and the text around it."""

    scope: str
    file: str
    word: str
    term: str
    text: str


def terms(page: str) -> list[str]:
    """The terms of the glossary, in their order."""
    return [term for term, _ in TERM.findall(page) if term not in ("term", "---")]


def synonyms_in(scope: str, file: str, text: str) -> Iterator[Use]:
    """The synonyms in a text that are not allowed there."""
    for found in _pattern().finditer(text):
        word = found[0].lower().split()[-1]
        term = next(
            term
            for pattern, term in SYNONYMS.items()
            if re.fullmatch(pattern, found[0], re.IGNORECASE) or re.fullmatch(_bare(pattern), found[0], re.IGNORECASE)
        )
        if not any(file == name and word.startswith(stem) for name, stem in ALLOWED):
            yield Use(scope, file, word, term, " ".join(text[max(0, found.start() - 40) : found.end() + 40].split()))


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in SYNONYMS), re.IGNORECASE)


def _bare(pattern: str) -> str:
    return re.sub(r"\(\?<?[!=](?:[^()]|\([^()]*\))*\)", "", pattern)


def words_of(name: str) -> str:
    """The words of an identifier: `DeadLetterGroup` and `dead_letter_group` are ``dead letter group``."""
    return " ".join(word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name))


def names() -> Iterator[tuple[str, str]]:
    """The modules, classes, functions, parameters and fields of the package, each with its file. Tests are named by sentences, and are left out."""
    for path, file in _modules():
        for name in (path.stem, *(name for node in tidy.nodes_of(path.read_text(encoding="utf-8")) for name in _names_of(node))):
            if not name.startswith("test_"):
                yield file, words_of(name)


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name, body=body):
            yield name
            yield from (field.target.id for field in body if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name))
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.arg(arg=name):
            yield name


def _modules() -> Iterator[tuple[Path, str]]:
    """The modules of the package, each with its path inside of it."""
    package = ROOT / "src/perdure"
    yield from ((path, path.relative_to(package).as_posix()) for path in sorted(package.rglob("*.py")))


def docstrings() -> Iterator[tuple[str, str]]:
    """The docstrings of the package, each with its file."""
    for path, file in _modules():
        for node in tidy.nodes_of(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
                yield file, prose(text)


def helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command and of those below it, each with the command as it is typed."""
    yield name, command.help or ""
    yield from ((name, option.help or "") for option in command.params if isinstance(option, click.Option))
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            if (found := command.get_command(context, below)) is not None:
                yield from helps(found, f"{name} {below}")


def pages() -> Iterator[tuple[str, str]]:
    """The prose of the pages that people write by hand. Decisions are left as they were when they were made."""
    hand_written = (path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions" and path.name not in ("proof.md", "benchmarks.md"))
    for path in sorted((ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *hand_written)):
        yield path.relative_to(ROOT).as_posix(), prose(path.read_text(encoding="utf-8"))


def prose(text: str) -> str:
    """A text without what is code in it."""
    return re.sub(r"`+[^`\n]*`+", "`…`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def uses(scope: str, texts: Iterable[tuple[str, str]]) -> list[Use]:
    """The uses of synonyms in the texts of a scope."""
    return [use for file, text in texts for use in synonyms_in(scope, file, text)]
