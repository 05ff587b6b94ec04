"""Claims about CSV, lines and XML as data: what they come to, and that nothing in them expands, is fetched or takes more than is allowed."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.definitions.kinds import text_formats
from perdure.definitions.kinds.text_formats import ContentError, csv_rows, csv_text, text_lines, xml_data

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5).filter(lambda name: name == name.strip() and name and name[0] != "\ufeff")
ROW = st.fixed_dictionaries(
    {"a": st.text(st.characters(codec="utf-8", exclude_characters="\0\r")), "b": st.text(st.characters(codec="utf-8", exclude_characters="\0\r"))}
)


def test_rows_are_called_as_the_first_line_says() -> None:
    text = '\ufeffitem, cents\r\ntea,300\r\n"green, ""fine""\nleaf",450\n\nlast\n'
    assert csv_rows(text) == [{"item": "tea", "cents": "300"}, {"item": 'green, "fine"\nleaf', "cents": "450"}, {"item": "last", "cents": None}]
    assert csv_rows("tea;300\n", ";", ["item", "cents"]) == [{"item": "tea", "cents": "300"}]
    assert csv_rows("") == csv_rows("item,cents\n") == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2,3\n", "line 2 has 3 fields, and there are 2 names"),
        ("a,a\n", "two fields in its first line are named 'a'"),
        ("a,,b\n", "field 2 of its first line has no name"),
        ('a\n"open\n', "unexpected end of data"),
        ("a\n" + "x" * 200_000, "field larger than field limit"),
    ],
)
def test_what_is_no_csv_says_where(text: str, why: str) -> None:
    with pytest.raises(ContentError, match=why):
        csv_rows(text)


@pytest.mark.slow
@given(st.lists(ROW, max_size=5))
def test_rows_that_are_written_are_read_again(given_rows: list[dict[str, str]]) -> None:
    wanted = [row for row in given_rows if row["a"] or row["b"]]
    assert csv_rows(csv_text(wanted)) == wanted


def test_lines_are_without_their_ends_and_only_those_of_files_end_one() -> None:
    assert text_lines("\ufeffa\r\nb\u2028c\n\nd") == ["a", "b\u2028c", "", "d"] and text_lines("") == []


def test_xml_is_attributes_elements_and_text() -> None:
    text = b'<?xml version="1.0" encoding="iso-8859-1"?><feed version="2"><item id="1">caf\xe9</item><item>b &amp; c</item><empty/><one>x<b>y</b></one></feed>'
    item = [{"@id": "1", "#text": "café"}, "b & c"]
    assert xml_data(text) == {"feed": {"@version": "2", "item": item, "empty": "", "one": {"b": "y", "#text": "x"}}}


ENTITIES = "".join(f'<!ENTITY {chr(98 + n)} "{("&" + chr(97 + n) + ";") * 10}">' for n in range(25))
LAUGHS = f'<!DOCTYPE a [<!ENTITY a "haha">{ENTITIES}]><a>&z;</a>'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LAUGHS, "a document type"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "a document type"),
        ('<!DOCTYPE a SYSTEM "http://127.0.0.1:1/a.dtd"><a/>', "a document type"),
        ("<a>&x;</a>", "not XML"),
        ("<a><b></a>", "not XML"),
        ("", "not XML"),
        ('<?xml version="1.0" encoding="nonsense"?><a/>', "not XML"),
        ("<a>" * 100 + "</a>" * 100, "more than 60 levels deep"),
    ],
)
def test_xml_that_is_wrong_or_would_expand_is_refused_at_once(text: str, why: str) -> None:
    began_s = time.monotonic()
    with pytest.raises(ContentError, match=why):
        xml_data(text.encode())
    assert time.monotonic() - began_s < 10


def test_values_are_bounded_and_not_only_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_formats, "VALUES_MAX", 100)
    for read, text in ((csv_rows, "a,b\n" + "1,2\n" * 51), (text_lines, "\n" * 101), (xml_data, f"<a>{'<b/>' * 100}</a>")):
        with pytest.raises(ContentError, match="more than 100"):
            read(text)


def test_what_no_field_can_hold_is_not_written() -> None:
    assert csv_text([{"a": None, "b": True}, {"c": 1.5}]) == "a,b,c\n,true,\n,,1.5\n"
    with pytest.raises(ContentError, match="row 1: 'a' can't be a field of CSV"):
        csv_text([{"a": [1]}])
