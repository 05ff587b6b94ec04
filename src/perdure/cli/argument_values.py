"""Parses values on the command line: JSON where it parses, otherwise text; named values as `key=value`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from perdure.core.attribute_filter import parse_attribute_value
from perdure.core.attributes import AttributeValue, ShownAttributes
from perdure.core.errors import BadValue

INTEGER_DIGITS_MAX = 4_300
"""The digits of the largest integer that Python reads."""


def parse_value(text: str, hint: Any = Any) -> Any:
    """Parses `text` as JSON (``3``, ``true``, ``{"a": 1}``), else returns the text itself.

    If the hint is `str`, ``007`` and ``true`` stay text; only a text ``"in quotes"`` is parsed.

    Raises:
        BadValue: it has a number that JSON can't pass on, or is nested too deeply.
    """
    try:
        read = _json(text)
    except BadValue:
        if hint is str:
            return text
        raise
    except ValueError:
        return text
    return text if hint is str and not isinstance(read, str) else read


def parse_sent_value(text: str, what: str) -> Any:
    """Parses `text` as `parse_value` does, for an execution that exists: what it is given can't be taken back, and a wrong value may end it.

    Raises:
        BadValue: as there; or it begins as an object or an array does, and is no JSON. `what` it is, is in the message, such as ``the message``.
    """
    if text.lstrip().startswith(("{", "[")):
        try:
            return _json(text)
        except BadValue:
            raise
        except ValueError as error:
            raise BadValue(what, text, f"JSON: {error}. Put the names and texts in it into double quotes; or all of it, if it is a text") from error
    return parse_value(text)


def workflow_arguments(given: Mapping[str, Any], parameters: Sequence[Parameter]) -> tuple[list[Any], dict[str, Any]]:
    """The input of a workflow, by position and by name.

    `given` has `arguments`, `pairs` (``key=value``) and a `source`, a file of JSON (``-``: standard input). `parameters` are the workflow's, as far as they are
    known.

    Raises:
        BadValue: a value can't be read, or the file and the command line both give arguments by position.
    """
    positional = [parse_value(text, _hint(parameters, number)) for number, text in enumerate(given["arguments"])]
    keywords = parse_pairs(given["pairs"], {one.name: one.annotation for one in parameters})
    source = given["source"]
    match _document(source) if source is not None else {}:
        case list(items):
            if positional:
                raise BadValue("--input", source, "to be combined with arguments by position, for it holds an array; give one of the two")
            positional = items
        case dict(members):
            keywords = {**members, **keywords}
        case other:
            raise BadValue("--input", other, "an object (arguments by name) or an array (arguments by position)")
    return positional, keywords


def workflow_parameters(fn: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a workflow's function without its context. Annotations that can't be resolved are ignored."""
    try:
        found = signature(fn, eval_str=True)
    except Exception:  # evaluating the user's annotations can raise anything
        found = signature(fn)
    return list(found.parameters.values())[1:]


def parse_pairs(pairs: Sequence[str], hints: Mapping[str, Any], option: str = "-i") -> dict[str, Any]:
    """Parses the ``key=value`` pairs of an option.

    Raises:
        BadValue: a pair has another form, or a key occurs twice.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise BadValue(option, pair, "of the form key=value")
        if key in found:
            raise BadValue(option, pair, f"the only value of {key}; give each key once")
        found[key] = parse_value(text, hints.get(key, Any))
    return found


def parse_attributes(pairs: Sequence[str]) -> ShownAttributes:
    """Parses ``name=value`` pairs of attributes, with values written as in conditions. A name that occurs several times has several values.

    Raises:
        BadValue: a pair has another form.
    """
    found: dict[str, list[AttributeValue]] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            raise BadValue("--attribute", pair, "of the form name=value")
        found.setdefault(name, []).append(parse_attribute_value(text, name))
    return {name: given[0] if len(given) == 1 else given for name, given in found.items()}


def _hint(parameters: Sequence[Parameter], number: int) -> Any:
    """The annotation of the argument at this position."""
    places = [one for one in parameters if one.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
    if number < len(places):
        return places[number].annotation
    return next((one.annotation for one in parameters if one.kind is Parameter.VAR_POSITIONAL), Any)


def _document(source: str) -> Any:
    where = "standard input" if source == "-" else source
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
        return _json(text)
    except BadValue:
        raise
    except OSError as error:
        raise BadValue("--input", source, f"a file that can be read: {error.strerror}") from error
    except ValueError as error:
        raise BadValue("--input", where, f"JSON: {error}") from error


def _json(text: str) -> Any:
    from json import loads

    try:
        return loads(text, parse_constant=_no_json, parse_float=_finite, parse_int=_whole)
    except RecursionError:
        raise BadValue("the input", text, "nested less deeply; pass deep data as a text of JSON") from None


def _finite(number: str) -> float:
    if abs(found := float(number)) == float("inf"):
        raise BadValue("the input", number, "a number of at most 1.797e308; put text in double quotes ('\"...\"')")
    return found


def _whole(number: str) -> int:
    if len(number) > INTEGER_DIGITS_MAX + 1:  # the sign
        raise BadValue("the input", number, f"an integer of at most {INTEGER_DIGITS_MAX} digits; put text in double quotes ('\"...\"')")
    return int(number)


def _no_json(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def time_option(text: str, option: str) -> float:
    """Reads a time with its zone, in seconds since 1970.

    Raises:
        BadValue: it is none.
    """
    from perdure.core.errors import BadValue
    from perdure.service.triggers.trigger_specs import time_with_zone

    try:
        return time_with_zone(text)
    except ValueError:
        raise BadValue(option, text, "a time with its zone, such as 2027-01-01T09:00:00Z") from None
