"""Finds workflows and steps by targets: ``FILE.py``, ``FILE.py:workflow``, ``module``, ``module:workflow``, and ``module:app`` of an `App`.

A file is imported as the module of its name, with its directory on `sys.path`, as `python FILE.py` would do; but not as ``__main__``, so that code under
``if __name__ == "__main__"`` does not run.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.cli import definition_files
from perdure.cli.definition_files import TargetTools
from perdure.code.declarations import Step
from perdure.code.declared_queues import Queue
from perdure.core.errors import BadValue, PerdureError
from perdure.service.catalog_references import TAG
from perdure.service.slugs import SLUG
from perdure.workflow_function import Workflow

if TYPE_CHECKING:
    from perdure.app import App
    from perdure.cli.definition_files import RunEnvironment
    from perdure.cli.shared_options import GlobalOptions
    from perdure.definition_workflow import Definition
    from perdure.stores.payload_codec import PayloadCodec
    from perdure.stores.protocol import Store

FORMS = "FILE.py, FILE.py:workflow, module:workflow, module:app, or FILE.yaml or FILE.json of a definition"
_MAIN = re.compile(r"""^if __name__ == ["']__main__["']""", re.MULTILINE)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:.+)?", re.DOTALL)


RELATIVE = "A file of a package is named as a module, from the directory of the package: package.module:workflow"
INSTALL = "Install it in the environment of this command, or start the command in the directory where it is"


class NoTarget(BadValue):
    """There is no such file, module, workflow or step, or its code can't be imported."""


@dataclass(frozen=True)
class TargetCode:
    """The workflows, steps and queues that were found in files and modules, one of each name."""

    workflows: tuple[Workflow[..., Any], ...]
    steps: tuple[Step[..., Any, Any], ...]
    queues: tuple[Queue, ...] = ()
    apps: tuple[App, ...] = ()


def is_target(text: str) -> bool:
    """Returns whether `text` is the place of code or of a definition, and not the name of a workflow."""
    file, name = _split(text)
    return definition_files.is_document(text) or file.endswith(".py") or (name != "" and _MODULE.fullmatch(text) is not None)


def is_reference(text: str) -> bool:
    """Returns whether `text` names a version in the catalog: ``invoice@^1``; or ``invoice:production``, unless there is a module ``invoice``."""
    from importlib.util import find_spec

    if definition_files.is_document(text) or ".py" in text:
        return False
    if "@" in text:
        return True
    name, colon, tag = text.partition(":")
    if not colon or not TAG.fullmatch(tag) or not SLUG.fullmatch(name):
        return False
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return name not in sys.modules and (not name.isidentifier() or find_spec(name) is None)


def load_workflow(text: str, tools: Sequence[str] = (), calls: Sequence[str] = (), where: RunEnvironment | None = None) -> Workflow[..., Any]:
    """The workflow that `text` names; of a file or an App without a name, the only one defined in it. ``module:app:workflow`` is one of an App.

    A definition gets the `tools` of these files and modules, and may call the definitions in the files `calls`.

    Raises:
        NoTarget: there is none, or there are several.
    """
    if definition_files.is_document(text):
        return load_definitions([text], tools, calls, where)[0]
    if tools or calls:
        raise NoTarget("target", text, "a definition, which alone takes --tools and --calls: a file of YAML or JSON, or - for standard input")
    place, name = _split(text)
    module = _module(text, place)
    if (app := _app(module, name)) is not None:
        _override(app, where)
        return _workflow_of_app(text, app, name.partition(":")[2])
    if name:
        return _named(text, module, name)
    found = _defined(module)
    if len(found) == 1:
        return found[0]
    if not found:
        raise NoTarget("target", text, f"a file with a workflow in it; decorate an async function with @workflow{_hidden(module)}")
    names = ", ".join(f"{place}:{one.code.name}" for one in found)
    raise NoTarget("target", text, f"one workflow but {len(found)}; choose: {names}")


def load_app(text: str) -> App | None:
    """The App that `text` names, as ``module:app`` or ``module:app:workflow``; None if it names something else.

    Raises:
        NoTarget: its code can't be imported.
    """
    if definition_files.is_document(text):
        return None
    place, name = _split(text)
    return _app(_module(text, place), name) if name else None


def use_database_of(settings: GlobalOptions, texts: Iterable[str]) -> None:
    """Has a command use the database of the App among its targets, unless an option names another, or a server.

    Raises:
        NoTarget: two Apps have different databases; or an App has an open store or a codec of its own, which only `perdure worker` can use.
    """
    if settings.server_url() is not None:
        return
    found = {text: app for text in texts if (app := load_app(text)) is not None}
    for text, app in found.items():
        if app.codec is not None or (settings.db is None and not isinstance(app.db, str | None)):
            raise NoTarget("target", text, "an App on the URL of a database, without codec=; perdure worker runs any App, and PERDURE_COMPRESS sets a codec")
    _ = worker_database(settings, list(found.values()))


def worker_database(settings: GlobalOptions, apps: Sequence[App]) -> tuple[str | Store | None, PayloadCodec | None]:
    """The database and the codec of a worker: those of its Apps, unless an option names another database.

    Raises:
        NoTarget: two Apps have different ones.
    """
    databases = list(dict.fromkeys(app.db for app in apps if app.db is not None))
    codecs = list({id(app.codec): app.codec for app in apps}.values())
    if settings.db is None and len(databases) > 1:
        raise NoTarget("targets", " ".join(map(str, databases)), "one database: name it with --db")
    if len(codecs) > 1:
        raise NoTarget("targets", " ".join(map(repr, apps)), "Apps that have the same codec=, or none")
    db = settings.db or next(iter(databases), None)
    settings.db = db if isinstance(db, str) else settings.db
    return db, next(iter(codecs), None)


class ServedCode(NamedTuple):
    """What a process serves: the code of its targets, the database and codec of its Apps, and the queues whose steps it performs."""

    code: TargetCode
    db: str | Store | None
    codec: PayloadCodec | None
    queues: tuple[str, ...]


def served_code(settings: GlobalOptions, targets: tuple[str, ...], queues: tuple[str, ...], given: dict[str, Any]) -> ServedCode:
    """Loads the targets of a process that serves, with the options of `tool_options` and `environment_options`. Without queues, those of its Apps are served.

    Raises:
        NoTarget: see `load_code` and `worker_database`.
    """
    from perdure.definition_workflow import Definition

    _ = settings.database()
    where, hosts = definition_files.environment_of(given), not given["no_catalog"]
    code = load_code(targets, given["tools"], given["calls"], where, hosts=hosts) if targets else TargetCode((), ())
    for definition in (one for one in code.workflows if isinstance(one, Definition)):
        definition_files.require_dependencies(definition)
    db, codec = worker_database(settings, code.apps)
    return ServedCode(code, db, codec, queues or tuple(dict.fromkeys(queue for app in code.apps for queue in app.queues)))


def _app(module: ModuleType, name: str) -> App | None:
    from perdure.app import App

    found = getattr(module, name.partition(":")[0], None) if name else None
    return found if isinstance(found, App) else None


def _override(app: App, where: RunEnvironment | None) -> None:
    """Applies options of the command line, which take precedence over those of an App, to its definitions."""
    if where is None:
        return
    from perdure.definitions.graph.policy import NO_POLICY
    from perdure.definitions.kinds.deployment import NOTHING_MORE

    names = ("allowed", "work", "models", "isolate")
    changed = {name: value for name in names if (value := getattr(where.deployment, name)) != getattr(NOTHING_MORE, name)}
    options = {name: value for name, value, default in (("policy", where.policy, NO_POLICY), ("blobs", where.blobs, {})) if value != default}
    app._override(changed, **options)


def _workflow_of_app(text: str, app: App, name: str) -> Workflow[..., Any]:
    found = [one for one in app.listed if not name or one.code.name == name]
    if len(found) == 1:
        return found[0]
    place = text.removesuffix(f":{name}") if name else text
    names = ", ".join(f"{place}:{one.code.name}" for one in app.listed) or "it has none"
    raise NoTarget("target", text, f"one workflow of the App; choose: {names}")


def load_definitions(files: Sequence[str], tools: Sequence[str] = (), calls: Sequence[str] = (), where: RunEnvironment | None = None) -> list[Definition]:
    """The definitions in files, in their order. All have the same tools, and each may call the others and those in the files `calls`.

    Raises:
        NoTarget: the tools can't be imported, or two have one name.
    """
    given = load_tools(tools, {} if where is None else where.deployment.models) if tools else None
    found: list[Definition] = []
    for file in dict.fromkeys([*calls, *files]):
        found.append(definition_files.load_definition(file, given, found, place=where))
    by_file = dict(zip(dict.fromkeys([*calls, *files]), found, strict=True))
    return [by_file[file] for file in files]


def load_tools(texts: Sequence[str], models: Mapping[str, Any] = MappingProxyType({})) -> TargetTools:
    """The tools of files and modules: every step, every public function that is defined there, and every workflow; of a file of JSON those of its MCP servers,
    which may ask `models`.

    Raises:
        NoTarget: there is none, two have one name, or an MCP server whose tools are not known can't be reached.
        BadValue: a file of MCP servers is not valid.
    """
    steps: dict[str, Callable[..., Any]] = {}
    workflows: dict[str, Workflow[..., Any]] = {}
    for text in texts:
        if text.endswith(".json"):
            for tool in _tools_of_servers(text, models):
                _add(steps, tool.name, tool, text, "tool")
            continue
        module = _module(text, text)
        for one in _all(module, Workflow):
            _add(workflows, one.code.name, one, text, "workflow")
        for step in _all(module, Step):
            _add(steps, step.name, step, text, "tool")
        for name, function in vars(module).items():
            if isfunction(function) and not name.startswith("_") and function.__module__ == module.__name__:
                _add(steps, name, function, text, "tool")
    if not steps and not workflows:
        raise NoTarget("--tools", " ".join(texts), "code with a tool in it: a public function, or one decorated with @step")
    return TargetTools(steps, tuple(workflows.values()))


def _tools_of_servers(file: str, models: Mapping[str, Any]) -> list[Step[..., Any, Any]]:
    from perdure.mcp import ServerUnavailable, mcp_tools  # imported here, because most commands have no such file

    try:
        return mcp_tools(file, models)
    except ServerUnavailable as error:
        raise NoTarget("--tools", file, f"MCP servers that can be reached: {error}") from error


def sign_in_to_server(texts: Sequence[str], name: str) -> None:
    """Lets the user sign in to the MCP server `name` of one of these files, in a browser.

    Raises:
        NoTarget: no file has such a server, it takes no signing in, or nobody signed in.
        BadValue: a file of MCP servers is not valid.
    """
    from perdure.mcp import ServerUnavailable
    from perdure.mcp.server_configs import read_servers
    from perdure.mcp.tool_lists import sign_in

    servers = {one.name: one for text in texts if text.endswith(".json") for one in read_servers(text)}
    server = servers.get(name)
    if server is None or server.auth is None or server.auth.type != "oauth":
        able = sorted(one.name for one in servers.values() if one.auth is not None and one.auth.type == "oauth")
        raise NoTarget("--sign-in", name, f'a server with "auth": "oauth" in these files: {", ".join(able) or "there is none"}')
    try:
        _ = sign_in(server)
    except ServerUnavailable as error:
        raise NoTarget("--sign-in", name, f"signed in to: {error}") from error


def load_code(
    texts: Sequence[str], tools: Sequence[str] = (), calls: Sequence[str] = (), where: RunEnvironment | None = None, *, hosts: bool = False
) -> TargetCode:
    """All workflows and steps that these files and modules can name, or of ``place:name`` the one workflow, with all steps beside it; and definitions, which
    get the `tools` of their own places and may call each one that stands before them, and those in the files `calls`. An engine that `hosts` definitions of the
    catalog takes tools for them as well.

    Raises:
        NoTarget: there is no such place or name, or two workflows or two steps have the same name.
    """
    workflows: dict[str, Workflow[..., Any]] = {}
    steps: dict[str, Step[..., Any, Any]] = {}
    queues: dict[str, Queue] = {}
    apps: list[App] = []
    files = [text for text in texts if definition_files.is_document(text)]
    if (calls or (tools and not hosts)) and not files:
        raise NoTarget("targets", " ".join(texts), "definitions, which alone take --tools and --calls")
    for definition in load_definitions([*calls, *files], tools, where=where) if files else ():
        _add(workflows, definition.code.name, definition, definition.code.name, "workflow")
    for text in texts:
        if text in files:
            continue
        place, name = _split(text)
        module = _module(text, place)
        if (app := _app(module, name)) is not None:
            apps.append(app)
            _override(app, where)
            _add_app(text, app, workflows, steps, queues)
            continue
        for one in [_named(text, module, name)] if name else _all(module, Workflow):
            _add(workflows, one.code.name, one, text, "workflow")
        for step in _all(module, Step):
            _add(steps, step.name, step, text, "step")
        for queue in _all(module, Queue):
            _add(queues, queue.name, queue, text, "queue")
    if not workflows and not steps:
        raise NoTarget("targets", " ".join(texts), "code with a workflow or a step in it; decorate functions with @workflow and @step")
    return TargetCode(tuple(workflows.values()), tuple(steps.values()), tuple(queues.values()), tuple(apps))


def _add_app(text: str, app: App, workflows: dict[str, Any], steps: dict[str, Any], queues: dict[str, Any]) -> None:
    for one in app.code.workflows:
        _add(workflows, one.code.name, one, text, "workflow")
    for step in app.code.steps:
        _add(steps, step.name, step, text, "step")
    for queue in app.code.queues:
        _add(queues, queue.name, queue, text, "queue")


def _add(found: dict[str, Any], name: str, one: Any, text: str, what: str) -> None:
    if found.setdefault(name, one) is not one:
        raise NoTarget("target", text, f"the only one to have a {what} called {name}; rename one of the two with name=")


def _split(text: str) -> tuple[str, str]:
    """The place and the name in it; a colon within the path of a file is no separator."""
    if text.endswith(".py"):
        return text, ""
    head, found, name = text.rpartition(".py:")
    if found:
        return f"{head}.py", name
    place, _, name = text.partition(":")
    return place, name


def _named(text: str, module: ModuleType, name: str) -> Workflow[..., Any]:
    """The workflow by the name of its variable, else by its own name."""
    workflows: list[Workflow[..., Any]] = _all(module, Workflow)
    chosen = getattr(module, name, None)
    if isinstance(chosen, Workflow):
        return chosen
    for one in workflows:
        if one.code.name == name:
            return one
    names = sorted(one.code.name for one in workflows)
    there = f"workflows there: {', '.join(names) or 'none'}"
    if chosen is not None:
        what = "a function without a decorator: write @workflow above it" if isfunction(chosen) else f"of the type {type(chosen).__name__}"
        raise NoTarget("target", text, f"a workflow: {name} is {what}; {there}")
    near = difflib.get_close_matches(name, [*(key for key, one in vars(module).items() if isinstance(one, Workflow)), *names], 1)
    raise NoTarget("target", text, f"a workflow: there is no {name}{f', did you mean {near[0]}?' if near else ''}; {there}")


def _hidden(module: ModuleType) -> str:
    """Says that a file may have workflows which do not exist when it is imported."""
    try:
        is_script = _MAIN.search(Path(module.__file__ or "").read_text(encoding="utf-8")) is not None
    except (OSError, UnicodeDecodeError):
        return ""
    return ', and above `if __name__ == "__main__"`, as the code below that does not run when a file is imported' if is_script else ""


def _defined(module: ModuleType) -> list[Workflow[..., Any]]:
    """The workflows defined in a module or, if there are none, those that it imports."""
    found: list[Workflow[..., Any]] = _all(module, Workflow)
    return [one for one in found if one.code.fn.__module__ == module.__name__] or found


def _all(module: ModuleType, kind: Any) -> list[Any]:
    return list({id(one): one for one in vars(module).values() if isinstance(one, kind)}.values())


def _module(text: str, place: str) -> ModuleType:
    try:
        return _from_file(Path(place)) if place.endswith(".py") else _from_path(place)
    except PerdureError:
        raise
    except SyntaxError as error:
        raise NoTarget("target", text, f"Python: {error.msg} ({error.filename}, line {error.lineno})") from error
    except ImportError as error:
        hint = (
            f". {RELATIVE}"
            if "attempted relative import with no known parent" in str(error)
            else f". {INSTALL}"
            if isinstance(error, ModuleNotFoundError)
            else ""
        )
        raise NoTarget("target", text, f"code that can be imported: {type(error).__name__}: {error}{_where(error)}{hint}") from error
    except (Exception, SystemExit) as error:
        raise NoTarget("target", text, f"code that can be imported: {type(error).__name__}: {error}{_where(error)}") from error


def _from_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise NoTarget("target", str(file), f"a file that is there; a target is {FORMS}")
    file = file.resolve()
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    name = file.stem
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(file):
            return known
        name = f"perdure target {file}"  # a module of this name is in use, and stays what it is
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise NoTarget("target", str(file), "a file of Python code")
    sys.modules[name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _from_path(name: str) -> ModuleType:
    if not _MODULE.fullmatch(name):
        raise NoTarget("target", name, FORMS)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        parent, _, last = name.rpartition(".")
        meant = f"did you mean {parent}:{last}? " if parent and parent in sys.modules and hasattr(sys.modules[parent], last) else ""
        raise NoTarget("target", name, f"a module that is there (no {error.name} in {here} or on sys.path); {meant}a target is {FORMS}") from error


def _where(error: BaseException) -> str:
    """The last line of the user's code in a traceback, if there is one."""
    frames = [frame for frame in extract_tb(error.__traceback__) if "importlib" not in frame.filename and frame.filename != __file__]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
