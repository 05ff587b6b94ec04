"""Names, docstrings, the help of commands and pages use the terms of the glossary, not synonyms for them."""

from collections.abc import Callable, Iterator

import pytest

from perdure.cli.command_list import root
from tests.docs import glossary
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
TERMS = glossary.terms(PAGE)
TEXTS: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "names": glossary.names,
    "docstrings": glossary.docstrings,
    "help": lambda: glossary.helps(root, "perdure"),
    "pages": glossary.pages,
}


@pytest.mark.slow
@pytest.mark.parametrize("scope", TEXTS)
def test_a_term_has_no_synonym(scope: str) -> None:
    uses = glossary.uses(scope, TEXTS[scope]())
    shown = "\n".join(f"{use.file}: {use.word!r} is {use.term!r} in the glossary: …{use.text}…" for use in uses)
    assert not uses, shown


def test_every_synonym_belongs_to_a_term_of_the_glossary() -> None:
    named = " ".join(TERMS)
    assert [term for term in glossary.SYNONYMS.values() if term not in named and term != "evicted"] == []


def test_a_term_has_one_line() -> None:
    assert len(TERMS) == len(set(TERMS)) >= 60


@pytest.mark.parametrize(
    ("text", "term"),
    [("The loan ends.", "lease"), ("Each try waits.", "attempt"), ("Three tries.", "attempt"), ("Its letters are read.", "message"), ("A saga.", "undo")],
)
def test_a_synonym_is_found(text: str, term: str) -> None:
    assert [use.term for use in glossary.synonyms_in("pages", "page.md", text)] == [term]


@pytest.mark.parametrize("text", ["A dead letter.", "Perdure tries to read it.", "`letters` and `mail`", "An e-mail."])
def test_other_words_and_code_are_not(text: str) -> None:
    assert [*glossary.synonyms_in("pages", "page.md", glossary.prose(text))] == []


def test_an_identifier_is_read_as_words() -> None:
    assert [glossary.words_of(name) for name in ("DeadLetterGroup", "dead_letter_group", "HTTPRequest")] == [
        "dead letter group",
        "dead letter group",
        "http request",
    ]
