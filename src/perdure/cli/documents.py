"""Definitions as the command line has them: files that are read, with the tools and workflows that they use, and what is said of those that are wrong."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from perdure.cli import sources, words
from perdure.cli.exits import Exit, Outcome
from perdure.core.errors import BadDefinition, BadValue

if TYPE_CHECKING:
    from perdure.cli.places import Place
    from perdure.cli.targets import Tools
    from perdure.definition import Definition
    from perdure.programs.format.finding import Finding
    from perdure.programs.graph.needs import Need
    from perdure.sdk import Workflow

SUFFIXES = (".yaml", ".yml", ".json")
UNNAMED = "definition"
"""What a definition on standard input is called if it does not say so."""


def is_document(text: str) -> bool:
    """Whether `text` says where a definition is: a file of YAML or JSON, or ``-`` for standard input."""
    return text == sources.STDIN or text.lower().endswith(SUFFIXES)


def name(file: str) -> str:
    """What is said of where a definition comes from."""
    return "standard input" if file == sources.STDIN else words.clean(file)


def own_name(file: str) -> str:
    """What a definition is called that has no name of its own."""
    return UNNAMED if file == sources.STDIN else Path(file).stem


class Unreadable(Exception):
    """A file that has no text, and why; raised and caught within the command line."""


def text(file: str) -> bytes:
    """What is in a file, or on standard input; the command ends if that can't be read, or is nothing."""
    try:
        return raw(file)
    except Unreadable as why:
        raise Outcome(Exit.INPUT, f"{name(file)} can't be read: {why}\nname a file of YAML or JSON, or - for standard input") from None


def raw(file: str) -> bytes:
    """What is in a file, or on standard input.

    Raises:
        Unreadable: it can't be read, or is nothing.
    """
    try:
        found = sources.read(file)
    except FileNotFoundError:
        raise Unreadable("there is no such file") from None
    except OSError as error:
        raise Unreadable((error.strerror or str(error)).lower()) from error
    if not found.strip():
        raise Unreadable("it is empty")
    return found


def decoded(file: str, raw: bytes) -> str:
    """The text of a file; the command ends if it is none."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Outcome(Exit.INPUT, f"{name(file)} is no text: byte {error.start} is not UTF-8\nsave the file as UTF-8") from error


def line(file: str, finding: Finding) -> str:
    """A finding in a line, behind where it is: ``FILE:LINE:COLUMN: what is wrong``."""
    shown = "-" if file == sources.STDIN else file
    where = f"{shown}:{finding.line}:{finding.column}" if finding.line else shown
    return words.clean(f"{where}: {'warning: ' if finding.severity == 'warning' else ''}{message(finding)}")


def message(finding: Finding) -> str:
    """What a finding says, without its place in the file, which stands before it."""
    return finding.message.removeprefix(f"line {finding.line}, column {finding.column}: ")


def refuse(file: str, findings: Sequence[Finding], and_so: str = "") -> NoReturn:
    """End the command, for the definition in a file is not valid; `and_so` says what has not happened."""
    for one in findings:
        click.echo(line(file, one), err=True)
    from perdure.programs.format.fit import FINDINGS_MAX  # here, as most commands read no definition

    errors = sum(one.severity == "error" for one in findings)
    counted = f"{words.count(errors, 'error')}{' at least; no more are looked for' if len(findings) >= FINDINGS_MAX else ''}"
    raise Outcome(Exit.INPUT, f"{name(file)} is not valid: {counted}{and_so and '; '}{and_so}")


def definition(
    file: str,
    tools: Tools | None = None,
    calls: Sequence[Workflow[..., Any]] = (),
    *,
    and_so: str = "nothing was started",
    place: Place | None = None,
    blobs: str | None = None,
) -> Definition:
    """The definition in a file, with what it may use and do; the command ends if there is none, or it is not valid.

    `blobs` is the directory of the contents that it refers to, where there is no `place` that has them.
    """
    from perdure.cli.places import contents
    from perdure.definition import Definition

    uses: dict[str, Any] = {} if tools is None else {"tools": tools.steps}
    uses |= {"blobs": contents(blobs)} if place is None else place._asdict()
    given = text(file)
    try:
        found = Definition.of(given, calls=(*calls, *(() if tools is None else tools.workflows)), name=own_name(file), **uses)
    except BadDefinition as error:
        refuse(file, error.findings, and_so)
    for one in found.read.findings:
        click.echo(line(file, one), err=True)
    return found


def arguments(definition: Definition, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The input of a definition, by name, held against what it takes before anything is started."""
    from perdure.cli import values

    if given["arguments"]:
        raise BadValue("the arguments", list(given["arguments"]), f"given by name: {definition.code.name} is a definition, so -i KEY=VALUE, or --input FILE")
    hints = {one: str for one, about in definition.ir.input.items() if isinstance(about, dict) and about.get("type") == "string"}
    found = {**({} if given["source"] is None else _mapping(given["source"])), **values.named(given["pairs"], hints)}
    _expect(definition, found)
    return [], found


def _expect(definition: Definition, given: Mapping[str, Any]) -> None:
    """End the command unless the definition takes what is given."""
    from perdure.cli.complaints import complaint_lines
    from perdure.programs.graph.inputs import problems

    ir = definition.ir
    if found := problems(ir, given):
        shown = complaint_lines(f"{ir.name} does not take this input: {'; '.join(found)}", f"nothing was started; {_takes(ir.input, ir.required)}")
        raise Outcome(Exit.INPUT, shown)


def _takes(input: Mapping[str, Any], required: Sequence[str]) -> str:
    if not input:
        return "it takes nothing in particular"
    kinds = {one: about.get("type", "any") if isinstance(about, dict) else "any" for one, about in input.items()}
    return f"it takes {', '.join(f'{one} ({kind}' + ('' if one in required else ', optional') + ')' for one, kind in kinds.items())}"


def _mapping(source: str) -> dict[str, Any]:
    from perdure.programs.format.parse import parsed

    read = parsed(text(source))
    if read.findings:
        raise Outcome(Exit.INPUT, "\n".join([f"--input {name(source)} can't be read", *(line(source, one) for one in read.findings)]))
    if not isinstance(read.document, dict):
        raise BadValue("--input", read.document, "an object or mapping, the input by name")
    return dict(read.document)


def expect_needs(definition: Definition) -> None:
    """End the command if the definition lacks what it needs to be run here."""
    lacking = definition.lacks()
    if lacking:
        said = [_lacking(need, definition) for need in dict.fromkeys(lacking)]
        hint = "--tools FILE.py has the functions, steps and workflows, --calls FILE.yaml the definitions that it calls"
        raise Outcome(Exit.INPUT, f"{words.clean(definition.code.name)} can't be run here: {'; '.join(map(words.clean, said))}\nnothing was started; {hint}")


def _lacking(need: Need, definition: Definition) -> str:
    who = f"step {need.id}" if need.id else "on_failure"
    if need.what == "kind":
        return f"{who}: there is nothing here that does {need.name}"
    if need.what == "extra":
        return f'{who}: it takes what is not installed: pip install "perdure[{need.name}]"'
    known = list(definition.graph.tools) if need.what == "tool" else list(definition.graph.family)
    near = difflib.get_close_matches(need.name, known, 1)
    return f"{who}: there is no {need.what} {need.name!r}{f', did you mean {near[0]!r}?' if near else ''}"


def is_one_input(target: str, source: str | None) -> bool:
    """Whether a definition and its input would both come from standard input."""
    return target == sources.STDIN == source


def is_there(text: str) -> bool:
    """Whether `text` names a definition rather than an execution."""
    return is_document(text) or os.path.isfile(text)  # noqa: PTH113  # what is no path at all is no file
