"""One way to write a definition: formatting twice is formatting once, what the text says stays, and so do its comments."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.core.errors import BadDefinition
from perdure.definitions.format.document_parser import parse_document
from perdure.definitions.format.formatter import document_as_yaml, format_document
from tests.definitions.format.examples import EXAMPLES

UGLY = """\
# Releases the nightly build.

# what it is called
name:   'release'   # the name
perdure: 1

steps:   # all
    # first
    -   tool: "BUILD"
        # why it has an id
        id: build # id
        with:
            script: |  # a script
                make
                  # not a comment
                make test

            to: "@input.to"
            flag: "yes"
        # retry: 3, once it is known how

    # second
    -
        # close to the dash
        id: ship
        note: >-
            one
            two
        with: {b: 1, # in braces
            a: [1,
              2]}
        tool: SHIP
# before the output
output: {x: "@ship",}
# the end
"""
NEAT = """\
# Releases the nightly build.

perdure: 1
# what it is called
name: release # the name

steps: # all
  # first
  # why it has an id
  - id: build # id
    tool: BUILD
    with:
      script: | # a script
        make
          # not a comment
        make test

      to: "@input.to"
      flag: "yes"
    # retry: 3, once it is known how

  # second
  # close to the dash
  - id: ship
    note: one two
    tool: SHIP
    with: {b: 1, a: [1, 2]} # in braces
# before the output
output: {x: "@ship"}
# the end
"""


def test_fields_are_ordered_and_comments_stay_where_they_belong() -> None:
    assert format_document(UGLY) == NEAT
    assert format_document(NEAT) == NEAT


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_a_definition_says_stays(name: str) -> None:
    once = format_document(EXAMPLES[name])
    assert parse_document(once).document == parse_document(EXAMPLES[name]).document
    assert format_document(once) == once
    assert all(line.split("#")[1].strip() in once for line in EXAMPLES[name].splitlines() if " # " in line)
    assert max(map(len, once.splitlines())) <= 160


def test_json_stays_json() -> None:
    document = parse_document(EXAMPLES["payment"]).document
    backwards = {name: document[name] for name in reversed(document)}
    once = format_document(json.dumps(backwards))
    assert json.loads(once) == document
    assert list(json.loads(once)) == ["perdure", "name", "limits", "order", "steps"]
    assert format_document(once) == once


def test_what_is_of_another_shape_keeps_its_order() -> None:
    assert format_document("title: x\nsteps:\n- {name: b, action: {toolName: T}}\n") == "title: x\nsteps:\n  - {name: b, action: {toolName: T}}\n"


def test_what_can_not_be_read_is_not_formatted() -> None:
    with pytest.raises(BadDefinition, match="occurs twice"):
        format_document("a: 1\na: 2\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("two words", "two words"),
        ("@input.x", '"@input.x"'),
        ("yes", '"yes"'),
        ("Null", '"Null"'),
        ("1.5", '"1.5"'),
        ("1.2.0", "1.2.0"),
        ("10m", "10m"),
        ("2026-01-01", '"2026-01-01"'),
        ("1_000", '"1_000"'),
        ("", '""'),
        ("a: b", '"a: b"'),
        ("a:b", "a:b"),
        ("a #b", '"a #b"'),
        ("- a", '"- a"'),
        ('say "x"', "'say \"x\"'"),
        (" blank", '" blank"'),
        ("tab\t", '"tab\\t"'),
        ("\u2028", '"\\u2028"'),
        ("\U0001f600", '"\U0001f600"'),
        ("ünïcode", "ünïcode"),
        (True, "true"),
        (None, "null"),
        (1e300, "1e+300"),
        ([], "[]"),
        ({}, "{}"),
    ],
)
def test_what_is_quoted(value: Any, text: str) -> None:
    assert document_as_yaml({"x": value}) == f"x: {text}\n"


TEXTS = (
    st.text(st.characters(codec="utf-8"), max_size=12)
    | st.text("ab #:-@{}[],&*!|>'\"%`\n\t \\?~01.", max_size=12)
    | st.sampled_from(["yes", "null", "1e3", "0x1", "12:30", "<<", "=", ".5", "+1", "- a", "? b", "a:", "x: |\n  y", "one\ntwo\n", " one\ntwo", "one\n\ntwo"])
)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def holds(value: dict[str, Any], random_: random.Random) -> None:
    """Written, commented at random and formatted, the data is the same, every comment is there, and formatting again changes nothing."""
    written = document_as_yaml(value)
    assert parse_document(written).document == value, written
    commented = []
    count = 0
    literal: int | None = None
    for line in written.splitlines():
        depth = len(line) - len(line.lstrip())
        literal = None if literal is not None and line.strip() and depth <= literal else literal
        if literal is None and random_.random() < 0.4:
            commented.append(" " * random_.choice((0, depth, depth, depth + 2)) + f"# c{(count := count + 1)}.")
        if literal is None and random_.random() < 0.2:
            commented.append("")
        beside = literal is None and not line.endswith(("-", "?")) and random_.random() < 0.3
        commented.append(line + (f"  # c{(count := count + 1)}." if beside else ""))
        if literal is None and line.rstrip().endswith(("|", "|-", "|2", "|2-")) and not line.rstrip().endswith('"'):
            literal = depth + (2 if line.lstrip().startswith("- ") and ": |" in line else 0)
    text = "\n".join(commented) + "\n"
    if parse_document(text).findings or parse_document(text).document != value:
        return  # the comments were taken for text of a block
    once = format_document(text)
    assert parse_document(once).document == value
    assert all(f"# c{number}." in once for number in range(1, count + 1)), (text, once)
    assert format_document(once) == once, (text, once)


@pytest.mark.slow
@given(st.dictionaries(TEXTS, DATA, min_size=1, max_size=4), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_no_comment_and_no_value_is_lost(value: dict[str, Any], random_: random.Random) -> None:
    holds(value, random_)


@pytest.mark.prove
@given(st.dictionaries(TEXTS, DATA, min_size=1, max_size=4), st.randoms(use_true_random=False))
@settings(max_examples=10_000, deadline=None)
def test_no_comment_and_no_value_is_lost_in_many(value: dict[str, Any], random_: random.Random) -> None:
    holds(value, random_)
