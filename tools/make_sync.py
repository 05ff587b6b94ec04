"""Makes the sync face of the SDK from the async one.

    python -m tools.make_sync

rewrites the classes named in `FACES`, each in its module; a test compares. A method gets the signature and the docstring of its async counterpart, and
runs that on the loop thread of the client, or on the strand of the workflow. What stays as it is written: private methods, methods that the async class
does not have, methods under a comment that begins with ``By hand``, and everything outside of these classes.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src/perdure"

BY_HAND = "# By hand"

ASYNC_CLASS = re.compile(r"\bAsync(Client|Handle|Selection|Catalog|Proposals|Recordings|Triggers|Administration|People|DeadLetterOffice|Upkeep)\b")
CONTEXT_RESULT = re.compile(r"^(VerbCall|SettledResult)\[(.*)\]$", re.DOTALL)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Face(NamedTuple):
    """A sync class, its module, and the async class that it is made from."""

    path: str
    name: str
    source_path: str
    source_name: str
    left_out: frozenset[str] = frozenset()


FACES = (
    Face("sync_client.py", "Client", "async_client.py", "AsyncClient", frozenset({"aclose"})),
    Face("sync_client.py", "Selection", "async_client.py", "AsyncSelection"),
    Face("sync_catalog.py", "Catalog", "async_catalog.py", "AsyncCatalog"),
    Face("sync_proposals.py", "Proposals", "async_proposals.py", "AsyncProposals"),
    Face("sync_recordings.py", "Recordings", "async_recordings.py", "AsyncRecordings"),
    Face("sync_triggers.py", "Triggers", "async_triggers.py", "AsyncTriggers"),
    Face("sync_administration.py", "Administration", "async_administration.py", "AsyncAdministration"),
    Face("sync_people.py", "People", "async_people.py", "AsyncPeople"),
    Face("sync_handle.py", "Handle", "async_handle.py", "AsyncHandle"),
    Face("sync_maintenance.py", "DeadLetterOffice", "async_maintenance.py", "AsyncDeadLetterOffice"),
    Face("sync_maintenance.py", "Upkeep", "async_maintenance.py", "AsyncUpkeep"),
    Face("code/sync_context.py", "SyncContext", "code/context.py", "Context", frozenset({"wait", "as_completed"})),
)
PATHS = tuple(dict.fromkeys(face.path for face in FACES))


def sync_module(path: str, text: str | None = None) -> str:
    """The text of a sync module with its classes made anew; `text` is what it holds now."""
    text = (PACKAGE / path).read_text(encoding="utf-8") if text is None else text
    for face in FACES:
        if face.path == path:
            text = _with_face(face, text)
    command = [sys.executable, "-m", "ruff", "format", "-q", "--stdin-filename", str(PACKAGE / path), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=True, cwd=ROOT).stdout


def _with_face(face: Face, text: str) -> str:
    source = (PACKAGE / face.source_path).read_text(encoding="utf-8")
    present = _methods(text, face.name)
    counterparts = {name: one for name, one in _methods(source, face.source_name).items() if not name.startswith("_") and name not in face.left_out}
    by_hand = {name: _text(text, functions) for name, functions in present.items() if name not in counterparts or _is_by_hand(text, functions)}
    write = _context_method if face.name == "SyncContext" else _client_method
    members = [by_hand[name] for name in by_hand if name not in counterparts and (name.startswith("__") or not name.startswith("_"))]
    members += [by_hand.get(name) or "\n".join(_made(source, functions, write)) for name, functions in counterparts.items()]
    members += [by_hand[name] for name in by_hand if name.startswith("_") and not name.startswith("__")]
    all_present = [function for functions in present.values() for function in functions]
    first, last = min(_first_line(text, one) for one in all_present), max(one.end_lineno or 0 for one in all_present)
    lines = text.splitlines()
    return "\n".join((*lines[:first], "\n\n".join(members), *lines[last:], ""))


def _methods(text: str, name: str) -> dict[str, list[Function]]:
    """The methods of a class; those of one name together, as overloads are."""
    (found,) = (one for one in ast.parse(text).body if isinstance(one, ast.ClassDef) and one.name == name)
    methods: dict[str, list[Function]] = {}
    for one in found.body:
        if isinstance(one, Function):
            methods.setdefault(one.name, []).append(one)
    return methods


def _first_line(text: str, function: Function) -> int:
    """The index of the line that a method begins with: its comment, its decorator, or its own."""
    lines = text.splitlines()
    first = min((one.lineno for one in function.decorator_list), default=function.lineno) - 1
    while lines[first - 1].strip().startswith("#"):
        first -= 1
    return first


def _is_by_hand(text: str, functions: list[Function]) -> bool:
    return text.splitlines()[_first_line(text, functions[0])].strip().startswith(BY_HAND)


def _text(text: str, functions: list[Function]) -> str:
    return "\n".join(text.splitlines()[_first_line(text, functions[0]) : functions[-1].end_lineno])


def _made(source: str, functions: list[Function], write: Callable[[Function], tuple[str, str]]) -> Iterator[str]:
    """The lines of a method and of its overloads."""
    for function in functions:
        decorators = [ast.unparse(one) for one in function.decorator_list]
        returns, body = write(function)
        yield from (f"    @{one}" for one in decorators)
        begin = f"    def {function.name}({_parameters(source, function)}) -> {returns}:"
        if "overload" in decorators:
            yield f"{begin} ..."
            continue
        yield begin
        yield from (_renamed(line).replace("await ", "") for line in _docstring_lines(source, function))
        yield f"        {body}"


def _parameters(source: str, function: Function) -> str:
    """The parameters as the source writes them."""
    text = _segment(source, function)
    returns = _segment(source, function.returns) if function.returns is not None else None
    inside = text[text.index("(") + 1 :].partition(f") -> {returns}:")[0]
    return _renamed(inside)


def _segment(source: str, node: ast.expr | Function) -> str:
    """The text of a node, from its first line on; `ast.get_source_segment` splits the whole source each time."""
    lines = _encoded_lines(source)[node.lineno - 1 : node.end_lineno]
    lines[-1] = lines[-1][: node.end_col_offset]
    lines[0] = lines[0][node.col_offset :]
    return b"\n".join(lines).decode()


@cache
def _encoded_lines(source: str) -> list[bytes]:
    return source.encode().split(b"\n")


def _docstring_lines(source: str, function: Function) -> list[str]:
    docstring = function.body[0]
    return source.splitlines()[docstring.lineno - 1 : docstring.end_lineno]


def _renamed(text: str) -> str:
    return ASYNC_CLASS.sub(r"\1", text)


def _arguments(function: Function) -> str:
    """What passes the parameters of a function on."""
    own = function.args
    passed = [one.arg for one in (*own.posonlyargs, *own.args) if one.arg != "self"]
    passed += [f"*{own.vararg.arg}"] if own.vararg else []
    passed += [f"{one.arg}={one.arg}" for one in own.kwonlyargs]
    passed += [f"**{own.kwarg.arg}"] if own.kwarg else []
    return ", ".join(passed)


def _use(function: Function, owner: str) -> str:
    is_property = any(ast.unparse(one) == "property" for one in function.decorator_list)
    return f"{owner}.{function.name}" if is_property else f"{owner}.{function.name}({_arguments(function)})"


def _client_method(function: Function) -> tuple[str, str]:
    """The type and the body of a method of a client, a handle, and what belongs to them."""
    assert function.returns is not None
    returns = ast.unparse(function.returns)
    inner = _use(function, "self._inner")
    if returns.startswith("AsyncGenerator["):
        (item, _) = ast.unparse(function.returns.slice).strip("()").split(", ") if isinstance(function.returns, ast.Subscript) else ("", "")
        return f"Iterator[{item}]", f"return self._thread.drain({inner})"
    called = f"self._thread.call({inner})" if isinstance(function, ast.AsyncFunctionDef) else inner
    if match := ASYNC_CLASS.match(returns):
        called = f"{match[1]}(self._thread, {called})"
    return _renamed(returns), called if returns == "None" else f"return {called}"


def _context_method(function: Function) -> tuple[str, str]:
    """The type and the body of a verb: its call settles on the strand, unless it settles at once."""
    assert function.returns is not None
    returns = ast.unparse(function.returns)
    called = _use(function, f'self._own("{function.name}")')
    if match := CONTEXT_RESULT.match(returns):
        kind, returns = match.groups()
        if kind == "VerbCall":
            called = f"self._strand.wait({called})"
        elif returns != "None":
            called = f"{called}.value"
        else:
            called = f"_ = {called}"
    return returns, called if returns == "None" else f"return {called}"


def main() -> None:
    """Write every module of `FACES` anew."""
    for path in PATHS:
        (PACKAGE / path).write_text(sync_module(path), encoding="utf-8")


if __name__ == "__main__":
    main()
