"""Claims about the text of a statement: where a placeholder is, and what a statement of a step may not be."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.definitions.kinds.sql.sql_text import first_word, label_of_sql, parse_sql, text_problems


def numbered(text: str) -> str:
    return parse_sql(text).with_placeholders(lambda _, number: f"${number}")


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("SELECT :a", "SELECT $1"),
        ("SELECT :a, :b, :a", "SELECT $1, $2, $1"),
        ("SELECT ':a', :b", "SELECT ':a', $1"),
        ("SELECT 'it''s :a', :b", "SELECT 'it''s :a', $1"),
        (r"SELECT E'it\'s :a', :b", r"SELECT E'it\'s :a', $1"),
        ('SELECT ":a", `:b`, :c', 'SELECT ":a", `:b`, $1'),
        ("SELECT 1 -- :a\n, :b", "SELECT 1 -- :a\n, $1"),
        ("SELECT /* :a ' */ :b", "SELECT /* :a ' */ $1"),
        ("SELECT $$ :a $$, $x$ :b $$ $x$, :c", "SELECT $$ :a $$, $x$ :b $$ $x$, $1"),
        ("SELECT x::int, :a::jsonb", "SELECT x::int, $1::jsonb"),
        ("SELECT a[1:2], a[1 : n]", "SELECT a[1:2], a[1 : n]"),
        ("SELECT x @> :a, y ? 'k'", "SELECT x @> $1, y ? 'k'"),
        ("SELECT x := 1", "SELECT x := 1"),
        ("SELECT :ä", "SELECT :ä"),
    ],
)
def test_a_placeholder_is_found_outside_of_quotes_comments_and_casts(text: str, becomes: str) -> None:
    assert numbered(text) == becomes


@given(st.text(alphabet=":ab'\"`$-/* \n?;x1{}@[]\\", max_size=40))
def test_every_text_is_cut_without_losing_a_character(text: str) -> None:
    assert parse_sql(text).with_placeholders(lambda name, _: f":{name}") == text


@given(st.text(max_size=30))
def test_nothing_within_a_literal_is_a_placeholder(inside: str) -> None:
    literal = "'" + inside.replace("'", "''") + "'"
    assert parse_sql(f"SELECT {literal}, :a").names == ("a",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT * FROM @{input.table}", "as placeholders, not through its text"),
        ("SELECT '@{input.name}'", "as placeholders, not through its text"),
        ("@input.statement", "as placeholders, not through its text"),
        ("SELECT 1; DELETE FROM orders", "several statements"),
        ("SELECT $1", r"\$1 is no placeholder"),
        ("COMMIT", "COMMIT is for transactions"),
        ("/* x */ -- y\n rollback", "ROLLBACK is for transactions"),
        ("ATTACH 'other.db' AS other", "ATTACH acts on the session"),
        ("pragma journal_mode = off", "PRAGMA acts on the session"),
        ("COPY orders FROM PROGRAM 'id'", "COPY acts on the session"),
        ("SET ROLE admin", "SET acts on the session"),
        ("VACUUM INTO 'x'", "VACUUM acts on the session"),
        ("  -- nothing\n", "it has no statement"),
    ],
)
def test_what_no_statement_may_be_is_refused_with_what_to_do(text: str, why: str) -> None:
    problems = list(text_problems(text, reads=False))
    assert any(re.search(why, problem) for problem in problems), problems


@pytest.mark.parametrize("text", ["INSERT INTO a VALUES (1)", "update a set b = 1", "DROP TABLE a", "-- x\nDELETE FROM a"])
def test_a_query_that_changes_data_is_refused_when_it_is_read(text: str) -> None:
    assert "write it behind `execute`" in "".join(text_problems(text, reads=True))
    assert not list(text_problems(text, reads=False))


@pytest.mark.parametrize(
    "text", ["SELECT ';'", "SELECT 1;", "SELECT 1; -- the end\n", "SELECT data @> '{}' FROM a", "SELECT '@x'", "(SELECT 1) UNION (SELECT 2)"]
)
def test_what_only_looks_so_is_accepted(text: str) -> None:
    assert not list(text_problems(text, reads=True))


def test_a_label_is_one_line_and_short() -> None:
    assert label_of_sql("SELECT\n  1") == "SELECT 1" and len(label_of_sql("SELECT " + "x, " * 100)) == 61
    assert first_word("(( -- a\n/* b */ Select 1") == "select"
