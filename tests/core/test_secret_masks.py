"""Masks: a secret is hidden in every form that programs write it in, nothing else is changed, and nothing fails."""

import base64
import json
import re
import shlex
from collections.abc import Callable, Iterator
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure.core import values
from perdure.core.errors import ErrorInfo
from perdure.core.operations import Failure, Success
from perdure.core.secret_masks import MASKED, NO_MASK, Mask
from perdure.core.values import Blob

ODD = "k€y \"of\" 'the' <test> & more/and\\back+\ttab=%41"
PEM = (
    "-----BEGIN PRIVATE KEY-----\n"
    + "\n".join("".join(chr(65 + (row * 7 + column * 3) % 26) for column in range(64)) for row in range(6))
    + "\n-----END PRIVATE KEY-----\n"
)

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "JSON": lambda secret: json.dumps({"x": secret}, ensure_ascii=False),
    "JSON in ASCII": lambda secret: json.dumps({"x": secret}),
    "JSON with slashes escaped": lambda secret: json.dumps({"x": secret}).replace("/", "\\/"),
    "JSON in JSON": lambda secret: json.dumps(json.dumps({"x": secret}, ensure_ascii=False), ensure_ascii=False),
    "JSON in ASCII in JSON": lambda secret: json.dumps(json.dumps({"x": secret})),
    "repr": lambda secret: repr({"x": secret}),
    "ascii": lambda secret: ascii([secret]),
    "repr of bytes": lambda secret: repr(secret.encode()),
    "an address": lambda secret: f"https://x?a={quote(secret, safe='')}&b",
    "a path of an address": lambda secret: f"https://x/{quote(secret)}",
    "a form": lambda secret: f"a={quote_plus(secret)}&b=c",
    "an address in small letters": lambda secret: re.sub("%..", lambda found: found[0].lower(), quote(secret, safe="")),
    "HTML": lambda secret: f"<p>{escape(secret)}</p>",
    "text in HTML": lambda secret: f"<p>{escape(secret, quote=False)}</p>",
    "a shell": lambda secret: f"login {shlex.quote(secret)} && true",
    "hexadecimal": lambda secret: secret.encode().hex(),
    "large hexadecimal": lambda secret: secret.encode().hex().upper(),
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 without its end": lambda secret: base64.b64encode(secret.encode()).decode().rstrip("="),
    "base64 for addresses": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "base64 of basic authentication": lambda secret: base64.b64encode(f"me:{secret}".encode()).decode(),
    "base64 at another place": lambda secret: base64.b64encode(f"you:{secret}!".encode()).decode(),
    "base64 at the third place": lambda secret: base64.urlsafe_b64encode(f"users:{secret}?".encode()).decode(),
    "base64 in an address": lambda secret: quote(base64.b64encode(secret.encode()).decode(), safe=""),
    "base64 in lines": lambda secret: base64.encodebytes(f"some words before {secret} and behind".encode()).decode(),
    "base64 in lines in JSON": lambda secret: json.dumps(base64.encodebytes(secret.encode()).decode()),
}


def cores(secret: str) -> set[str]:
    """What must not be left of a secret: itself, and its middle in other forms."""
    middle = {base64.b64encode(b"\0" * before + secret.encode()).decode()[4:-4] for before in range(3)}
    return {secret, secret.encode().hex()[2:-2], *middle, *(one.translate(str.maketrans("+/", "-_")) for one in middle)}


@pytest.mark.slow
@pytest.mark.parametrize("secret", ["canary-0123456789", ODD, PEM, "ü" * 30], ids=["plain", "odd", "PEM", "beyond ASCII"])
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_hidden_in_every_form(form: str, secret: str) -> None:
    said = FORMS[form](secret)
    hidden = Mask([secret]).text(f"before {said} behind")
    assert hidden.startswith("before ") and hidden.endswith(" behind") and MASKED in hidden
    assert not [core for core in cores(secret) if core in hidden.replace("\n", "").replace("\\n", "")], hidden
    raw = Mask([secret]).raw(b"\xff" + said.encode() + b"\xfe")
    assert raw[:1] == b"\xff" and raw[-1:] == b"\xfe" and MASKED.encode() in raw


ESCAPED = ("JSON", "JSON in ASCII", "repr", "ascii", "repr of bytes", "a shell")


@pytest.mark.parametrize("outer", ["JSON", "JSON in ASCII", "repr", "ascii", "HTML", "an address"])
@pytest.mark.parametrize("inner", ESCAPED)
def test_a_secret_is_hidden_in_one_form_inside_of_another(inner: str, outer: str) -> None:
    for innermost in ("as it is", *ESCAPED) if outer in ESCAPED else ("as it is",):
        said = FORMS[outer](FORMS[inner](FORMS[innermost](ODD)))
        hidden = Mask([ODD]).text(said)
        assert MASKED in hidden and "test" not in hidden, hidden


def test_of_a_secret_of_several_lines_each_line_is_hidden_but_the_frame_of_a_key() -> None:
    lines = PEM.splitlines()
    assert Mask([PEM]).text(f"> {lines[3]} <\n{lines[0]}") == f"> {MASKED} <\n{lines[0]}"
    assert MASKED not in Mask(["{\n  a: 1\n}"]).text("{ a }")


def test_of_secrets_that_overlap_nothing_is_left() -> None:
    assert Mask(["abcdef", "defghi"]).text("xabcdefghix") == f"x{MASKED}x"
    assert Mask(["token", "token-and-more"]).text("token-and-more token") == f"{MASKED} {MASKED}"
    assert Mask(["abab"]).text("xabababx abab") == f"x{MASKED}x {MASKED}"
    assert Mask(["abab"]).text("abababab") == MASKED


@pytest.mark.parametrize("short", ["", "a", "abc", "   a   ", "     "])
def test_what_is_too_short_is_not_hidden(short: str) -> None:
    assert not Mask([short]) and Mask([short]).text(f"a {short} abc") == f"a {short} abc"


def test_data_is_gone_through_with_the_names_in_it() -> None:
    mask = Mask(["canary-1", "canary-2"])
    value = {"a": ["canary-1", 1, None, 1.5, True], "canary-1": {"x": b"\xffcanary-2"}, "canary-2": 2, "b": {3: "canary-1"}}
    hidden = {"a": [MASKED, 1, None, 1.5, True], MASKED: {"x": b"\xff***"}, f"{MASKED} (2)": 2, "b": {3: MASKED}}
    assert msgspec.msgpack.decode(mask.value(msgspec.msgpack.encode(value))) == hidden
    ext = msgspec.msgpack.Ext(5, b"a canary-1")
    assert msgspec.msgpack.decode(mask.value(msgspec.msgpack.encode([ext]))) == [msgspec.msgpack.Ext(5, b"a ***")]


def test_what_has_no_secret_in_it_stays_the_same_bytes() -> None:
    raw = values.encode({"a": "nothing", "b": [1, 2.5]}, "a value")
    assert Mask(["canary"]).value(raw) is raw and NO_MASK.value(raw) is raw
    ok, err = Success(raw), Failure("failed", 1, ErrorInfo("E", "m"))
    assert Mask(["canary"]).outcome(ok) is ok and Mask(["canary"]).outcome(err) == err and not NO_MASK


def test_an_outcome_is_hidden_in_all_that_it_has() -> None:
    mask = Mask(["canary-1"])
    data = values.encode(["canary-1"], "the arguments of an error")
    err = Failure("failed", 2, ErrorInfo("canary-1Error", "no canary-1", "raise X('canary-1')", data), 3.0)
    hidden = ErrorInfo("***Error", "no ***", "raise X('***')", values.encode(["***"], "them"))
    assert mask.outcome(err) == Failure("failed", 2, hidden, 3.0)
    assert mask.outcome(Success(values.encode("a canary-1", "it"), "port")) == Success(values.encode("a ***", "it"), "port")
    elsewhere = Success(Blob("0" * 64, 5))
    assert mask.outcome(elsewhere) is elsewhere


def test_what_can_t_be_searched_is_hidden_as_a_whole() -> None:
    broken = b"\x93" + msgspec.msgpack.encode("canary-1")
    assert Mask(["canary-1"]).value(broken) == msgspec.msgpack.encode(MASKED)
    deep: Any = "canary-1"
    for _ in range(900):
        deep = [deep]
    assert b"canary" not in Mask(["canary-1"]).value(msgspec.msgpack.encode(deep))


@pytest.mark.parametrize("secret", ["canary-0123456789", ODD, PEM], ids=["plain", "odd", "PEM"])
@pytest.mark.parametrize("form", ["as it is", "JSON in ASCII in JSON", "an address", "base64 in lines"])
def test_of_a_secret_that_a_cut_has_parted_nothing_is_left(form: str, secret: str) -> None:
    mask, said = Mask([secret]), FORMS[form](secret)
    whole = f"{'<' * mask.margin}{'|' * 9}{said}{'|' * 9}{'>' * mask.margin}"
    for at in range(mask.margin, len(whole) - mask.margin, max(1, len(said) // 40)):
        head, tail = mask.cut(whole[:at], whole[at:])
        assert not [piece for piece in (head, tail) if piece.strip("<>|*= \n")], (head, tail)
    both = Mask(["canary"]) | mask
    assert (both.margin, (mask | NO_MASK).margin) == (mask.margin, mask.margin) and both.cut("x" * both.margin, "")[0] == ""
    assert NO_MASK.cut("a", "b") == ("a", "b") and mask.cut("", "") == ("", "")


def test_a_mask_shows_nothing_of_what_it_hides() -> None:
    assert "canary" not in repr(Mask(["canary-1"])) + str(Mask(["canary-1"]))


LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="*")
SECRETS = st.text(LETTERS, min_size=5, max_size=40).filter(lambda text: len(text.strip()) >= 5)
LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4) | st.binary(max_size=4)
FLAT = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.text(max_size=4), LEAVES, max_size=3)
DATA = FLAT | st.lists(FLAT, max_size=3) | st.dictionaries(st.text(max_size=4), FLAT, max_size=3)


def texts(value: Any) -> Iterator[str]:
    """All texts in data."""
    match value:
        case str():
            yield value
        case list():
            yield from (text for item in value for text in texts(item))
        case dict():
            yield from (text for key, item in value.items() for text in (*texts(key), *texts(item)))


@pytest.mark.slow
@settings(deadline=None)  # others have the machine, too
@given(SECRETS, DATA, st.sampled_from(sorted(FORMS)))
@example("00" + "\x80" * 7 + "\U00010000\U00010000\U00012c3f\U0006aea5\U000aa94c\U000ac733", None, "base64 in lines")
@example("a password of 30 characters...", None, "base64 in lines")
def test_whatever_the_secret_is_it_is_gone_and_the_rest_is_as_it_was(secret: str, data: Any, form: str) -> None:
    raw = msgspec.msgpack.encode({"data": data, "said": FORMS[form](secret), secret: [secret]})
    found = msgspec.msgpack.decode(Mask([secret]).value(raw))
    assert not [text for text in texts(found) if secret in text]
    assert found["data"] == msgspec.msgpack.decode(msgspec.msgpack.encode(data)) and MASKED in found["said"] and len(found) == 3
