"""The reference, made of the docstrings: every public name, every error, and every operation over HTTP.

    python -m tests.docs.reference

writes ``docs/reference``; a test compares. Signatures are those of the source; where a method only passes options on, that of its longest overload.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, get_overloads

import perdure
from perdure.code.approval_requests import ApproveKeywords
from perdure.code.call_options import WithOptions
from perdure.core import error_codes, errors
from tests.docs import error_examples
from tests.docs.error_entries import ENTRIES, RECORDED
from tests.docs.http_reference import http_page
from tests.docs.pages import ROOT

DIRECTORY = ROOT / "docs/reference"

GROUPS: dict[str, tuple[str, ...]] = {
    "Declaring": ("step", "workflow", "Step", "Workflow", "Retry", "Signal", "Queue", "Rate", "Schedule", "Prompt", "AppNotification"),
    "For definitions": ("Definition", "Kind", "Limit", "Capabilities", "Deployment", "Allowed", "Policy"),
    "In a workflow": ("Context", "Turn", "SyncContext", "SyncTurn", "Key"),
    "What verbs return": ("Attempt", "Ok", "Err", "ErrorInfo", "Won", "Record", "Message", "Decision", "Vote"),
    "In a step": ("step_info", "StepInfo", "StepFields", "carry", "carry_by", "Resource", "Transaction", "Notice"),
    "Agents": ("Agent", "Budget"),
    "An engine in your program": ("App", "SyncApp"),
    "From outside": ("Client", "Handle", "AsyncClient", "AsyncHandle", "NamedWorkflow", "Is", "Compressed", "Encrypted"),
}

OTHERS = {
    "ExecutionInfo": "perdure.code.context",
    "ExecutionStatus": "perdure.service.queries",
    "ExecutionRecord": "perdure.service.execution_records",
    "StepView": "perdure.core.views",
    "StepTrace": "perdure.service.step_traces",
    "StepAttempt": "perdure.core.step_attempts",
    "WorkflowInput": "perdure.service.wire_types",
    "ShownGraph": "perdure.definitions.graph.shown_graph",
    "ShownNode": "perdure.definitions.graph.shown_graph",
    "ShownEdge": "perdure.definitions.graph.shown_graph",
    "ShownRegion": "perdure.definitions.graph.shown_graph",
    "LeftWay": "perdure.definitions.graph.shown_graph",
    "CurrentDefinition": "perdure.service.definition_views",
    "TokenCounts": "perdure.definitions.graph.execution_view",
    "ExecutionFamily": "perdure.service.execution_families",
    "FamilyMember": "perdure.service.execution_families",
    "ExecutionTree": "perdure.display.execution_tree",
    "ListedExecution": "perdure.service.queries",
    "PublicEvent": "perdure.core.views",
    "EmittedValue": "perdure.service.history",
    "LiveText": "perdure.service.live_text",
    "ModelCosts": "perdure.service.model_costs",
    "ShownMemory": "perdure.service.agent_memories",
    "ModelCost": "perdure.service.model_costs",
    "HolderView": "perdure.service.queries",
    "Approval": "perdure.service.approvals",
    "DeadLetter": "perdure.service.dead_letter_groups",
    "DeadLetterGroup": "perdure.service.dead_letter_groups",
    "AsyncCatalog": "perdure.async_catalog",
    "AsyncProposals": "perdure.async_proposals",
    "AsyncRecordings": "perdure.async_recordings",
    "AsyncAdministration": "perdure.async_administration",
    "AsyncDeadLetterOffice": "perdure.async_maintenance",
    "AsyncSelection": "perdure.async_client",
    "BulkResult": "perdure.service.bulk_requests",
}
"""What is returned and never made by users, and where it is."""

INTRODUCED = {
    "SyncApp": "The sync face of an open `App`, which ``with app as shop:`` gives: the same verbs with the same options, not awaited, from any thread.",
    "Client": "The sync face of `AsyncClient`: the same methods with the same options, not awaited. Close it with `close()`, or use it in a `with`.",
    "Handle": "The sync face of `AsyncHandle`: the same methods, not awaited; `stream` and `events` are plain iterators.",
    "SyncContext": "The verbs of `Context` without `await`, for workflows that are plain functions. What holds of the one holds of the other.",
    "SyncTurn": "One turn of a loop in such a workflow: `for turn in ctx.loop(...)`.",
}
HIDDEN = {
    "Step": {"undo_when", "codec", "rule", "is_async", "timeout_s", "placed"},
    "Workflow": {"signature"},
    "Queue": {"lane", "ranked", "is_limited"},
    "Rate": {"interval_s"},
    "Kind": {"step", "may_repeat"},
    "Policy": {"of", "judge"},
    "Retry": {"rule", "again"},
    "StepInfo": {"life", "reported"},
    "Compressed": {"encode", "decode"},
    "Encrypted": {"encode", "decode"},
}
"""What is public for other packages of Perdure, and not meant for users."""

UNPACKED = {"ApproveKeywords": ApproveKeywords, "WithOptions": WithOptions}
"""Keywords that a method takes together, by the name of their type."""

WITHOUT_FIELDS = {"Step", "NamedWorkflow"}
"""What users are given, and do not make themselves."""

MADE = {"AsyncClient", "Resource", "Signal"}
"""What they make, and which has no fields."""

UNSAID = {"_MISSING", "UNCHANGED"}
LINE_CHARACTERS_MAX = 120
PROSE_CHARACTERS_MAX = 130
HEADER = "<!-- Written by `python -m tests.docs.reference` from the docstrings: change those. -->"


def signature(name: str, function: Any) -> str:
    """How a function is called, as its source says it; of a method without its `self`. Overloads that take the same options are shown once."""
    own = _definition(function)
    shown = [own]
    if own.args.kwarg is not None and own.args.kwarg.arg in ("given", "options"):
        overloads = [_definition(one) for one in get_overloads(function)]
        most = max((len(one.args.kwonlyargs) for one in overloads), default=0)
        by_options = {tuple(argument.arg for argument in one.args.kwonlyargs): one for one in reversed(overloads) if most and len(one.args.kwonlyargs) == most}
        shown = [*by_options.values()] or shown
    return "\n".join(_line(name, one) for one in shown)


def _line(name: str, own: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    begin = f"{'async ' if isinstance(own, ast.AsyncFunctionDef) else ''}{name}("
    end = ")" if own.returns is None else f") -> {ast.unparse(own.returns).strip(chr(39))}"
    given = [one for one in _arguments(own.args) if one not in ("self", "cls")]
    if given[:1] == ["/"]:
        del given[0]
    if len(line := f"{begin}{', '.join(given)}{end}") <= LINE_CHARACTERS_MAX:
        return line
    lines = [""]
    for argument in given:
        if len(lines[-1]) + len(argument) > LINE_CHARACTERS_MAX - 8:
            lines.append("")
        lines[-1] += f"{argument}, "
    return "\n".join((begin, *(f"    {one.rstrip()}" for one in lines), end))


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    """Each argument as people write it, the signs between them too."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for number, (argument, default) in enumerate(zip(positional, defaults, strict=True), 1):
        yield _argument(argument, default)
        if number == len(arguments.posonlyargs):
            yield "/"
    if arguments.vararg is not None:
        yield f"*{_argument(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, default)
    match arguments.kwarg:
        case ast.arg(annotation=ast.Subscript(value=ast.Name("Unpack"), slice=ast.Name(kind))):
            yield from (f"{field} = ..." for field in _fields_of(UNPACKED[kind]))
        case ast.arg() as others:
            yield f"**{_argument(others, None)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    hint = "" if argument.annotation is None else f": {ast.unparse(argument.annotation).strip(chr(39))}"
    if default is None:
        return f"{argument.arg}{hint}"
    value = ast.unparse(default)
    return f"{argument.arg}{hint} = {'...' if value in UNSAID else value}"


def _fields_of(kind: type) -> list[str]:
    source = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(source, ast.ClassDef)
    return [re.sub(r": '(.*)'$", r": \1", ast.unparse(one)) for one in source.body if isinstance(one, ast.AnnAssign)]


def _definition(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    found = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
    return found


def filled(text: str, first: str = "") -> str:
    """Prose in lines of a length, with code in one piece; behind `first`, such as the dash of a list, the others are indented."""
    whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), " ".join(text.split()))
    return textwrap.fill(
        whole, PROSE_CHARACTERS_MAX, initial_indent=first, subsequent_indent=" " * len(first), break_long_words=False, break_on_hyphens=False
    ).replace("\0", " ")


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: code in single quotes, errors as a list."""
    text = inspect.cleandoc(docstring or "").replace("``", "`")
    body, _, raised = text.partition("\nRaises:\n")
    body = "\n\n".join(filled(part) if not part.startswith("    ") else part for part in body.strip().split("\n\n"))
    if not raised:
        return body
    lines: list[str] = []
    for line in textwrap.dedent(raised).splitlines():
        if line.startswith(" ") and lines:
            lines[-1] += f" {line.strip()}"
        elif line.strip():
            lines.append(line.strip())
    return "\n\n".join((body, "Raises:\n\n" + "\n".join(filled(_linked(line), "- ") for line in lines)))


def _linked(line: str) -> str:
    names, colon, why = line.partition(":")
    shown = ", ".join(f"[`{name}`](errors.md#{name.lower()})" if name in ENTRIES else f"`{name}`" for name in names.split(", "))
    return f"{shown}{colon}{why}"


class Entry:
    """One public name, with what belongs to it."""

    def __init__(self, module: str, name: str, thing: Any, level: int = 3) -> None:
        self.module, self.name, self.thing, self.level = module, name, thing, level

    def lines(self) -> Iterator[str]:
        """Its part of the page."""
        yield f"{'#' * self.level} {self.name}\n"
        if not inspect.isclass(self.thing):
            yield from self._value()
            return
        yield f"{filled(INTRODUCED[self.name]) if self.name in INTRODUCED else prose(self.thing.__doc__)}\n"
        if self.name in INTRODUCED and not self.name.startswith("Sync"):
            yield f"{filled(', '.join(f'`{name}`' for name in self.methods))}.\n"
            return
        if self.name.startswith("Sync"):
            return
        if fields := self.fields:
            yield "```text\n" + "\n".join(fields) + "\n```\n"
        for name, method in self.methods.items():
            yield from self._method(name, method)

    def _value(self) -> Iterator[str]:
        if inspect.isfunction(self.thing):
            yield f"```text\n{signature(self.name, self.thing)}\n```\n"
            yield f"{prose(self.thing.__doc__)}\n"
        else:
            yield f"{prose(_docstring_behind(self.module, self.name))}\n"

    def _method(self, name: str, method: Any) -> Iterator[str]:
        if isinstance(method, property | cached_property):
            getter = method.fget if isinstance(method, property) else method.func
            yield f"{filled(f'**`{self.name}.{name}`**: {getter.__doc__}')}\n"
        else:
            yield f"```text\n{signature(f'{self.name}.{name}', method)}\n```\n"
            yield f"{prose(method.__doc__)}\n"

    @property
    def methods(self) -> dict[str, Any]:
        """Its public methods and properties, in the order of the source."""
        kinds = (property, cached_property)
        own = {name: one for name, one in vars(self.thing).items() if not name.startswith("_")}
        own = {name: getattr(one, "__func__", one) for name, one in own.items() if name not in HIDDEN.get(self.name, ())}
        return {name: one for name, one in own.items() if (inspect.isfunction(one) or isinstance(one, kinds)) and _documented(one)}

    @property
    def fields(self) -> list[str]:
        """Its fields with their types and defaults, as the source has them; or how it is made."""
        hidden = HIDDEN.get(self.name, set())
        given = [] if self.name in WITHOUT_FIELDS else [field for field in _fields_of(self.thing) if field.partition(":")[0] not in hidden]
        made = vars(self.thing).get("__init__")
        if not given and inspect.isfunction(made) and self.name in MADE:
            given = [signature(self.name, made)]
        return given


def _documented(one: Any) -> bool:
    docstring = (one.fget if isinstance(one, property) else one.func if isinstance(one, cached_property) else one).__doc__
    return bool(docstring)


def _docstring_behind(module: str, name: str) -> str:
    """The text that stands behind an assignment in a module."""
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for one, behind in pairwise(body):
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == name and isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
            return str(behind.value.value)
    return ""


def _anchors(names: list[str]) -> dict[str, str]:
    """Where each heading is found: of two that differ only in case, the second is numbered."""
    return {name: f"{name.lower()}-1" if name.lower() in map(str.lower, names[:number]) else name.lower() for number, name in enumerate(names)}


def sdk() -> str:
    """The page of all public names but the errors."""
    parts = [
        f"{HEADER}\n",
        "# The Python SDK\n",
        "Every name that `perdure` has, but for [the errors](errors.md), and what they return. What is async here is awaited; its sync twin has the same name",
        'and options. A `Duration` is seconds, a timedelta, or text such as `"500ms"`, `"30s"`, `"2h 30m"`, `"3d"`. A `VerbCall` is awaited once, or handed',
        "to `asyncio.gather` or a task; a `SettledResult` has been done when it is returned, and may be awaited.\n",
    ]
    groups = {**GROUPS, "Only returned": tuple(OTHERS)}
    anchors = _anchors([name for names in groups.values() for name in names])
    for group, names in groups.items():
        parts.append(f"- {group}: " + ", ".join(f"[`{name}`](#{anchors[name]})" for name in names))
    parts.append("")
    for group, names in groups.items():
        parts.append(f"## {group}\n")
        for name in names:
            module = OTHERS.get(name) or perdure._HOME[name]
            parts.extend(Entry(module, name, getattr(importlib.import_module(module), name)).lines())
    return "\n".join(parts).rstrip() + "\n"


def kinds() -> list[type[BaseException]]:
    """Every error of Perdure, in the order of the source."""
    found = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, BaseException) and one.__module__ == errors.__name__]
    lines = {node.name: node.lineno for node in ast.parse(inspect.getsource(errors)).body if isinstance(node, ast.ClassDef)}
    return sorted(found, key=lambda one: lines[one.__name__])


def errors_page() -> str:
    """The page of all errors."""
    tree = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")[2]
    drawn, _, behind = tree.partition("\n\n")
    parts = [
        f"{HEADER}\n",
        "# Errors\n",
        "There are three families: the caller's mistake, which changed nothing; the store's trouble, in which what was acknowledged is safe; and what comes of",
        "the work itself. Every error says what happened, where, and what to do, and has that as fields.\n",
        f"```text\n{textwrap.dedent(drawn)}\n```\n",
        f"{filled(behind)}\n",
        "Those that are not exported by `perdure` are in `perdure.core.errors`.\n",
    ]
    for kind in kinds():
        cause, fix = ENTRIES[kind.__name__]
        fields = [name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "args", "kwargs")] if "__init__" in vars(kind) else []
        fields = fields or list(vars(kind).get("__annotations__", {}))
        above = next(base for base in kind.__mro__[1:] if base.__module__ == errors.__name__ or base in (Exception, BaseException))
        exported = kind.__name__ in perdure.__all__
        parts.append(f"## {kind.__name__}\n")
        code, where = vars(kind)["code"], "perdure" if exported else errors.__name__
        parts.append(f"`{where}.{kind.__name__}`, below `{above.__name__}`. Code: `{code}`.{_fields(fields)}\n")
        parts.append(f"{prose(kind.__doc__)}\n")
        parts.append(f"{filled(f'**Cause.** {cause}', '- ')}\n{filled(f'**What to do.** {fix}', '- ')}\n{_message(kind)}")
    parts.append(recorded_codes())
    return "\n".join(parts).rstrip() + "\n"


def _message(kind: type[BaseException]) -> str:
    """A real message of an error, as a block; empty where there is none."""
    shown = error_examples.example(kind.__name__)
    lines = textwrap.indent("\n".join(part for line in shown.splitlines() for part in textwrap.wrap(line, 140)), "  ")
    return f"- **Example.**\n\n  ```text\n{lines}\n  ```\n" if shown else ""


def recorded_rows() -> list[tuple[str, str]]:
    """The code of each failure that is recorded without an exception of Perdure, and what it means. Those of the HTTP interface have a page of their own."""
    rows = re.findall(r'^([A-Z_]+) = "(\w+)"  # (.+)$', inspect.getsource(error_codes), re.MULTILINE)
    return [(code, meaning) for name, code, meaning in rows if not name.startswith("HTTP_")]


def recorded_codes() -> str:
    """The table of the failures that are recorded without an exception of Perdure."""
    lines = "\n".join(f"| `{code}` | {meaning} | {RECORDED[code]} |" for code, meaning in recorded_rows())
    return (
        "## Codes\n\nLogs, dead letters, `retry: {only, fatal}` of definitions and the command line name an error of Perdure by its code, and an exception of "
        "yours by its class.\nBeside the codes above, these are recorded:\n\n"
        f"| code | meaning | what to do |\n|---|---|---|\n{lines}\n"
    )


def _fields(names: list[str]) -> str:
    own = [name for name in names if name not in ("message", "more", "text", "outcomes")]
    return f" Fields: {', '.join(f'`{name}`' for name in own)}." if own else ""


PAGES = {"sdk.md": sdk, "errors.md": errors_page, "http.md": http_page}

if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    for page, made in PAGES.items():
        (DIRECTORY / page).write_text(made(), encoding="utf-8")
