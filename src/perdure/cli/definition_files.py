"""Reads the files that commands are given: Python sources, definitions with their input, policies, models and contents.

A file that can't be read or used ends the command with a message that names it.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from perdure.cli import terminal_text
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.core.errors import BadDefinition, BadValue

if TYPE_CHECKING:
    from perdure.definition_workflow import Definition
    from perdure.definitions.format.definition_findings import DefinitionFinding
    from perdure.definitions.graph.policy import Policy
    from perdure.definitions.graph.requirements import Requirement
    from perdure.definitions.kinds.deployment import Deployment
    from perdure.definitions.kinds.models.model_sources import ModelSource
    from perdure.workflow_function import Workflow


STDIN = "-"
SKIPPED_DIRECTORIES = {"__pycache__", "node_modules", "site-packages"}


@dataclass(frozen=True)
class TargetTools:
    """The names that a definition may use: steps and functions by name, and the workflows that it may call."""

    steps: dict[str, Callable[..., Any]]
    workflows: tuple[Workflow[..., Any], ...]


class RunEnvironment(NamedTuple):
    """The services that steps of definitions may reach in this process, and their permissions."""

    deployment: Deployment
    policy: Policy
    blobs: Mapping[str, Any]


def python_files(paths: Iterable[str]) -> Iterator[str]:
    """The Python files below these paths, each once: files that are named, and every .py in a directory, sorted by name.

    Directories that are hidden, hold an environment or are generated are left out, unless they are named themselves.

    Raises:
        FileNotFoundError: a path does not exist.
    """
    seen: set[str] = set()
    for path in paths:
        for file in _files_of(path):
            if (real := os.path.realpath(file)) not in seen:
                seen.add(real)
                yield file


def _files_of(path: str) -> Iterator[str]:
    if path == STDIN:
        yield path
    elif Path(path).is_dir():
        for directory, inner, names in os.walk(path):
            inner[:] = sorted(name for name in inner if _is_searched(Path(directory, name)))
            yield from (os.path.normpath(Path(directory, name)) for name in sorted(names) if name.endswith(".py"))
    elif Path(path).exists():
        yield path
    else:
        raise FileNotFoundError(path)


def _is_searched(directory: Path) -> bool:
    return not directory.name.startswith(".") and directory.name not in SKIPPED_DIRECTORIES and not (directory / "pyvenv.cfg").exists()


def read_source(file: str) -> bytes:
    """Reads a file.

    Raises:
        OSError: it can't be read.
    """
    if file != STDIN:
        return Path(file).read_bytes()
    if sys.stdin is None or sys.stdin.closed:  # a process may be started without one
        raise OSError("it is closed")
    return sys.stdin.buffer.read()


SUFFIXES = (".yaml", ".yml", ".json")
UNNAMED = "definition"
"""The name of a definition on standard input that has none."""


def is_document(text: str) -> bool:
    """Whether `text` is the place of a definition: a file of YAML or JSON, or ``-`` for standard input."""
    return text == STDIN or text.lower().endswith(SUFFIXES)


def source_name(file: str) -> str:
    """The name of a source in messages."""
    return "standard input" if file == STDIN else terminal_text.clean(file)


def default_name(file: str) -> str:
    """The name of a definition whose document has none."""
    return UNNAMED if file == STDIN else Path(file).stem


class UnreadableFile(Exception):
    """A file without text, and why; raised and caught within the command line."""


def read_or_exit(file: str) -> bytes:
    """The content of a file or of standard input; the command ends if it can't be read, or is empty."""
    try:
        return read_nonempty(file)
    except UnreadableFile as why:
        raise CommandExit(ExitCode.INPUT, f"{source_name(file)} can't be read: {why}\nname a file of YAML or JSON, or - for standard input") from None


def read_nonempty(file: str) -> bytes:
    """Reads a file, or standard input.

    Raises:
        Unreadable: it can't be read, or is nothing.
    """
    try:
        found = read_source(file)
    except FileNotFoundError:
        raise UnreadableFile("there is no such file") from None
    except OSError as error:
        raise UnreadableFile((error.strerror or str(error)).lower()) from error
    if not found.strip():
        raise UnreadableFile("it is empty")
    return found


def decode_or_exit(file: str, raw: bytes) -> str:
    """The text of a file; the command ends if it is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise CommandExit(ExitCode.INPUT, f"{source_name(file)} is not text: byte {error.start} is not UTF-8\nsave the file as UTF-8") from error


def finding_line(file: str, finding: DefinitionFinding) -> str:
    """A finding in a line, after its place: ``FILE:LINE:COLUMN: what is wrong``."""
    shown = "-" if file == STDIN else file
    where = f"{shown}:{finding.line}:{finding.column}" if finding.line else shown
    return terminal_text.clean(f"{where}: {'warning: ' if finding.severity == 'warning' else ''}{finding_message(finding)}")


def finding_message(finding: DefinitionFinding) -> str:
    """The message of a finding without its place in the file."""
    return finding.message.removeprefix(f"line {finding.line}, column {finding.column}: ")


def refuse_definition(file: str, findings: Sequence[DefinitionFinding], and_so: str = "") -> NoReturn:
    """Ends the command because the definition in a file is not valid; `and_so` says what has not happened."""
    for one in findings:
        click.echo(finding_line(file, one), err=True)
    from perdure.definitions.format.shape_check import FINDINGS_MAX  # imported here because most commands read no definition

    errors = sum(one.severity == "error" for one in findings)
    counted = f"{terminal_text.count(errors, 'error')}{' at least; no more are looked for' if len(findings) >= FINDINGS_MAX else ''}"
    raise CommandExit(ExitCode.INPUT, f"{source_name(file)} is not valid: {counted}{and_so and '; '}{and_so}")


def load_definition(
    file: str,
    tools: TargetTools | None = None,
    calls: Sequence[Workflow[..., Any]] = (),
    *,
    and_so: str = "nothing was started",
    place: RunEnvironment | None = None,
    blobs: str | None = None,
) -> Definition:
    """The definition in a file, with its tools and its environment; the command ends if it is not valid.

    `blobs` is the directory of the contents that it refers to, if there is no `place`.
    """
    from perdure.definition_workflow import Definition

    uses: dict[str, Any] = {} if tools is None else {"tools": tools.steps}
    uses |= {"blobs": blob_contents(blobs)} if place is None else place._asdict()
    given = read_or_exit(file)
    try:
        found = Definition.of(given, calls=(*calls, *(() if tools is None else tools.workflows)), name=default_name(file), **uses)
    except BadDefinition as error:
        refuse_definition(file, error.findings, and_so)
    for one in found.read.findings:
        click.echo(finding_line(file, one), err=True)
    return found


def definition_arguments(definition: Definition, given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The input of a definition, by name, checked against its declaration before anything is started."""
    from perdure.cli import argument_values

    if given["arguments"]:
        raise BadValue("the arguments", list(given["arguments"]), f"given by name: {definition.code.name} is a definition, so -i KEY=VALUE, or --input FILE")
    hints = {one: str for one, about in definition.ir.input.items() if isinstance(about, dict) and about.get("type") == "string"}
    found = {**({} if given["source"] is None else _input_mapping(given["source"])), **argument_values.parse_pairs(given["pairs"], hints)}
    _check_input(definition, found)
    return [], found


def _check_input(definition: Definition, given: Mapping[str, Any]) -> None:
    """Ends the command unless the input fits the definition."""
    from perdure.cli.terminal_text import safe_lines
    from perdure.definitions.graph.definition_input import input_problems

    ir = definition.ir
    if found := input_problems(ir, given):
        shown = safe_lines(f"{ir.name} does not take this input: {'; '.join(found)}", f"nothing was started; {_input_summary(ir.input, ir.required)}")
        raise CommandExit(ExitCode.INPUT, shown)


def _input_summary(input: Mapping[str, Any], required: Sequence[str]) -> str:
    if not input:
        return "it declares no input"
    kinds = {one: about.get("type", "any") if isinstance(about, dict) else "any" for one, about in input.items()}
    return f"it takes {', '.join(f'{one} ({kind}' + ('' if one in required else ', optional') + ')' for one, kind in kinds.items())}"


def _input_mapping(source: str) -> dict[str, Any]:
    from perdure.definitions.format.document_parser import parse_document

    read = parse_document(read_or_exit(source))
    if read.findings:
        raise CommandExit(ExitCode.INPUT, "\n".join([f"--input {source_name(source)} can't be read", *(finding_line(source, one) for one in read.findings)]))
    if not isinstance(read.document, dict):
        raise BadValue("--input", read.document, "an object or mapping, the input by name")
    return dict(read.document)


def require_dependencies(definition: Definition) -> None:
    """Ends the command if this process lacks what the definition requires."""
    lacking = definition.lacks()
    if lacking:
        said = [_missing_dependency(need, definition) for need in dict.fromkeys(lacking)]
        hint = "--tools FILE.py has the functions, steps and workflows, --calls FILE.yaml the definitions that it calls"
        raise CommandExit(
            ExitCode.INPUT,
            f"{terminal_text.clean(definition.code.name)} can't be run here: {'; '.join(map(terminal_text.clean, said))}\nnothing was started; {hint}",
        )


def _missing_dependency(need: Requirement, definition: Definition) -> str:
    who = f"step {need.id}" if need.id else "on_failure"
    if need.what == "kind":
        return f"{who}: the kind {need.name} is not available here"
    if need.what == "connection":
        how = f"set PERDURE_CONNECTION_{need.name.upper()} to its URL"
        return f"{who}: the connection {need.name} is not known here; {how}"
    if need.what == "extra":
        return f'{who}: it needs an extra that is not installed: pip install "perdure[{need.name}]"'
    known = list(definition.graph.tools) if need.what == "tool" else list(definition.graph.family)
    near = difflib.get_close_matches(need.name, known, 1)
    return f"{who}: there is no {need.what} {need.name!r}{f', did you mean {near[0]!r}?' if near else ''}"


def shares_stdin(target: str, source: str | None) -> bool:
    """Whether a definition and its input would both come from standard input."""
    return target == STDIN == source


def is_definition_file(text: str) -> bool:
    """Whether `text` names a definition and not an execution."""
    return is_document(text) or os.path.isfile(text)  # noqa: PTH113  # what is no path at all is no file


def blob_contents(directory: str | None) -> Mapping[str, Any]:
    """The contents in a directory; the command ends if it is no directory."""
    from perdure.definition_workflow import ContentDirectory

    try:
        return {} if directory is None else ContentDirectory(directory)
    except BadValue as error:
        raise CommandExit(ExitCode.INPUT, f"--blobs: {error}") from error


def environment_of(given: Mapping[str, Any]) -> RunEnvironment:
    """The environment that the options describe."""
    from perdure.definitions.graph.policy import NO_POLICY
    from perdure.definitions.kinds.deployment import Allowed, Deployment

    work = Deployment.work if given["work"] is None else Path(given["work"])
    deployment = Deployment(Allowed.of(given["allow"]), work, models_of(given), isolate=given["isolate"])
    rules = NO_POLICY if given["policy"] is None else load_policy(given["policy"])
    return RunEnvironment(deployment, rules, blob_contents(given["blobs"]))


def remote_environment(blobs: str | None) -> RunEnvironment:
    """The environment of definitions that are only read here, and run elsewhere."""
    from perdure.definitions.graph.policy import NO_POLICY
    from perdure.definitions.kinds.deployment import NOTHING_MORE

    return RunEnvironment(NOTHING_MORE, NO_POLICY, blob_contents(blobs))


def models_of(given: Mapping[str, Any]) -> Mapping[str, ModelSource | tuple[str, ...]]:
    """The models that the options name; the command ends if their file is not valid."""
    return {} if given["models"] is None else load_models(given["models"])


def load_models(file: str) -> Mapping[str, ModelSource | tuple[str, ...]]:
    """The models in a file; the command ends if it is not valid."""
    from perdure.definitions.kinds.models.model_sources import load_sources

    try:
        return load_sources(file)
    except BadValue as error:
        raise CommandExit(ExitCode.INPUT, str(error)) from error
    except OSError as error:
        raise CommandExit(ExitCode.INPUT, f"{source_name(file)} can't be read: {error.strerror or error}") from error


def load_policy(file: str) -> Policy:
    """The policy in a file; the command ends if it is not valid."""
    from perdure.definitions.format.document_parser import parse_document
    from perdure.definitions.graph.policy import Policy

    read = parse_document(read_or_exit(file))
    if read.findings:
        refuse_definition(file, read.findings)
    try:
        return Policy.read(read.document)
    except BadValue as error:
        raise CommandExit(ExitCode.INPUT, f"{source_name(file)} is not a policy: {error}") from error
