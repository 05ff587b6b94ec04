"""The list of everything that is stored or sent under a name, made from the code: `docs/reference/formats.md`.

    python -m tests.docs.formats

writes the page; a test compares. What can be read from the code is read from it; what has no docstring is described in the tables here, and each table must
name exactly what is in the code. So a name that is stored cannot change, appear or go without a change of this page.
"""

import ast
import importlib
import re
import sqlite3
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec

from perdure.core import errors, events, failure_causes, log_format, messages, operations, recalled, values
from perdure.core.execution import ExecutionStatus
from perdure.core.views import StepState
from perdure.definitions.graph.graph_workflow import HASH_ATTRIBUTE, INLINE_ATTRIBUTE, VERSION_ATTRIBUTE
from perdure.langgraph import checkpoint_records
from perdure.service import execution_bundles, log_archives
from perdure.service.execution_operations import INITIATOR_ATTRIBUTE
from perdure.stores.postgres import migration_scripts
from perdure.stores.postgres.migrations import AppliedScript
from perdure.stores.sqlite import table_schema
from perdure.tasks import worker_protocol as protocol
from tests import tidy
from tests.docs.pages import ROOT
from tests.docs.reference import OTHERS

PAGE = ROOT / "docs/reference/formats.md"
SOURCE = ROOT / "src/perdure"
EXAMPLES = (SOURCE / "cli/templates", SOURCE / "cli/demo")
"""Programs of users that are part of the package; their names are their own."""

DEFAULT_PATHS = {
    "": "a step, loop, kept value or version check has the name of what it calls or is called",
    "approve:": "`approve`, then its title",
    "call:": "`call`, then the workflow",
    "commit": "`commit`",
    "emit": "`emit`",
    "external:": "`external`, then the step; below it `request`, `completion`, `failure` and `wait`",
    "join": "`join`",
    "listen:": "`listen`, then the names of the messages",
    "map:": "`map`, then what is mapped",
    "race": "`race`",
    "send:": "`send`, then the name of the message",
    "set:": "`set`, then the key",
    "set_attributes": "`set_attributes`",
    "sleep:": "`sleep`, then the duration",
    "sleep_until:": "`sleep_until`, then the time",
    "start:": "`start`, then the workflow",
    "task": "a task that is given no name",
    "version:": "`version`, then its name",
    "wait": "`wait`",
}
"""Default names of operations of code workflows."""

INTERNAL_SEGMENTS = {
    "again": "a further time, and whether a `repeat` or `batch` goes on",
    "begin": "where the undo begins",
    "answer": "the answer to an agent that asks another one",
    "approval": "the approval that a policy asks for",
    "commit": "that nothing before this iteration is undone any more",
    "composite": "the composite that a step runs",
    "condition": "that a condition could not be evaluated",
    "delay": "how long a `repeat` waits",
    "ended": "tells an agent that its conversation has ended",
    "error": "that an operation could not be made, and why",
    "gather": "how long a receive goes on for further messages",
    "input": "that the input does not fit",
    "items": "the items of an `each`",
    "missing": "a tool or kind that is missing",
    "next": "where `next` of a result leads to",
    "on_error": "a node's own error handler",
    "on_failure": "the call that reports the failure of the execution",
    "policy": "what the policy has decided",
    "schema": "that the result does not fit its schema",
    "vars": "the variables",
    "output": "the output of the execution",
    "port": "the port that a router chose",
    "python": "a condition in Python",
    "sent": "the message to an agent",
    "session": "the conversation with an agent",
    "state": "the first state of a `repeat`",
    "timeout": "when a node is given up",
    "transform": "a result that is transformed",
    "undo": "everything that is undone, and how the execution ends",
    "undo_input": "what an undo tool is called with",
    "undoable": "that a block has completed and is undone as a whole",
    "used": "that a composite was used",
    "wait": "the wait between two iterations",
}
"""Names that end in a path with `~`: operations of Perdure itself."""

FAILURE_KINDS = {
    "abandoned": "The call was in flight when its result was no longer needed, and its outcome is not known.",
    "cancelled": "The call or the execution was cancelled.",
    "deadline_exceeded": "The execution did not end before its deadline.",
    "exhausted": "All attempts that the retry policy allows have failed.",
    "failed": "It failed.",
    "fatal": "It failed with an error that no further attempt would mend.",
    "interrupted": "The process is gone that performed a call which may not be repeated.",
    "removed": "The outcome was removed with the log.",
    "rollback": "The workflow asked for its undo.",
    "timeout": "There was no outcome in time.",
}
PARKED_REASONS = {
    "diverged": "The code asks for other operations than the log holds.",
    "interrupted": "A call that may not be repeated was interrupted.",
    "paused": "Someone paused the execution.",
    "undo": "An undo handler has failed for good, or there is too much to undo.",
}
MESSAGE_KEYS = {
    "lost:": "a call of a queue whose lease was lost",
    "message:": "a message from outside that has a key of its own",
    "patch:": "a patch",
    "progress:": "a report of an attempt",
    "preset:": "a preset outcome",
    "retry:": "a retry",
    "settle:": "the outcome of a child",
    "signal:": "a message of another execution",
    "start:": "the start of a child",
    "undo:": "the undo of a child",
    "unwatch:": "a parent that no longer waits",
}
"""How the keys begin by which a store recognizes a message that is sent twice."""

WORKFLOWS = {
    "perdure.approval": "an approval",
    "perdure.composite": "what is counted about a composite",
    "perdure.bulk": "does something with many executions, by a filter",
    "perdure.recording": "records calls of tools; only engines with these tools have it",
    "perdure.proposal": "proposes a change of the definition of the execution that starts it",
    "perdure.hook": "hands a notification to the function of an application; only engines with one have it",
    "perdure.notices": "looks for what people are notified of",
    "perdure.notification": "sends what people are notified of to one recipient",
    "perdure.events": "starts what one event triggers",
    "perdure.propose": "writes or changes a definition from words, with a model, and proposes it; only engines with models have it",
    "perdure.prompt": "hands a prompt to the handler of an application",
    "perdure.schedules": "starts what the schedules of a tenant have due",
}
SIGNALS = {
    "agent_message": "something said to an agent",
    "delegate": "that somebody else may decide on an approval",
    "event": "an event that goes into a notification with others",
    "used": "that a composite was used",
    "vote": "a decision on an approval",
    "call": "a call of a tool, to a recording",
    "cancel_call": "that a call of a recording is to end",
    "input": "values of the input of a recording",
    "preset": "a result in place of a call of a recording",
}
ENVIRONMENT = {
    "PERDURE_ACTIVE_OF_PEOPLE": "how many executions that people have started through `perdure serve` may be in progress",
    "PERDURE_ACTIVE_PER_PERSON": "the same for each person",
    "PERDURE_ALLOW": "which programs and hosts steps may use",
    "PERDURE_APP": "a setting of Django: the place of the project's App",
    "PERDURE_ATTEMPT": "set for programs that perform a task: the number of the attempt",
    "PERDURE_BLOBS": "where large values are kept",
    "PERDURE_BLOB_STORE": "the directory in which large values are kept apart from the database, as `file:///path`",
    "PERDURE_CORS": "the pages, by origin, that may use the API of `perdure serve`",
    "PERDURE_FORWARDED_ALLOW_IPS": "the proxies whose `X-Forwarded-For` and `-Proto` `perdure serve` believes",
    "PERDURE_FORMER_SIGNING_SECRETS": "the secrets that signed before, by which what they have signed stays valid",
    "PERDURE_GRACE": "how long requests and steps may take to end after a stop signal to `perdure serve`",
    "PERDURE_LISTEN": "where the API of `perdure serve` answers",
    "PERDURE_MCP_ALIASES": "`/mcp` lists tools under the names that other systems give them, too, if it is set to 1",
    "PERDURE_MCP_WORKFLOWS": "the workflows that are tools of their own in `/mcp`",
    "PERDURE_NO_CONSOLE": "`serve` without the web console, if it is set to 1",
    "PERDURE_OIDC": "the file that describes the OpenID Connect issuer of `perdure serve`",
    "PERDURE_LOGS_URL": "the template of the address at which the logs of an execution are read, for links of the console",
    "PERDURE_PUBLIC_URL": "the address at which people reach the API of `perdure serve`, for links; also of engines, for those in e-mails",
    "PERDURE_OIDC_CLIENT_SECRET": "the secret of `perdure serve` at that issuer",
    "PERDURE_RATE_LIMIT": "how many requests a second each caller of `perdure serve` may make",
    "PERDURE_ROLE": "the parts that a `perdure serve` has: `api`, `engine`, `worker`",
    "PERDURE_ROOT_PATH": "the path below which a proxy publishes the API of `perdure serve`",
    "PERDURE_TLS_CERT": "the certificate chain of `perdure serve`",
    "PERDURE_TLS_KEY": "the key of that certificate",
    "PERDURE_WATCH": "a folder of definitions that `perdure serve` keeps in step with the catalog",
    "PERDURE_COMPRESS": "whether values are compressed before they are stored",
    "PERDURE_DB": "the store to use, if none is named",
    "PERDURE_DB_CONNECTIONS": "how many connections to Postgres a store opens at most, without the one for notifications; 4 by default",
    "PERDURE_DB_DIRECT": "a URL that leads to Postgres past a pooler, for notifications and migrations",
    "PERDURE_DB_POOLER": "whether the URL of Postgres leads through a pooler in transaction mode: `auto`, `transaction` or `none`",
    "PERDURE_DB_SCHEMA": "the schema of Perdure's tables in Postgres; `perdure` by default",
    "PERDURE_DB_STATEMENT_TIMEOUT": "how many seconds a statement may take in Postgres; 60 by default",
    "PERDURE_DB_STEP_CONNECTIONS": "how many connections to Postgres transactional steps have at most, beside the others; 10 by default",
    "PERDURE_DB_SYNCHRONOUS_COMMIT": "how durable an acknowledged change in Postgres is: `on`, `remote_apply`, `remote_write`, `local` or `off`",
    "PERDURE_EXECUTION_ID": "set for programs that perform a task: the id of the execution",
    "PERDURE_ISOLATION": "how commands of `bash` steps are isolated",
    "PERDURE_IDEMPOTENCY_KEY": "set for programs that perform a task: the idempotency key",
    "PERDURE_ENCRYPTION_KEYS": "the keys by which values are encrypted",
    "PERDURE_ENCRYPTION_REQUIRED": "whether everything that is read has to be encrypted",
    "PERDURE_LOG_FORMAT": "how the log is written: `text` or `json`",
    "PERDURE_METRICS_LISTEN": "where metrics are shown to Prometheus",
    "PERDURE_OTEL": "whether traces of OpenTelemetry are sent",
    "PERDURE_MODELS": "which models `llm` and `agent` steps may use",
    "PERDURE_POLICY": "the file of the policy",
    "PERDURE_PORT_FILE": "set for `bash` steps: the file to write the port into",
    "PERDURE_RESULT_FILE": "set for `bash` steps: the file to write the result into",
    "PERDURE_SMTP_URL": "the server of e-mail that sends notifications, and their sender",
    "PERDURE_SIGNING_SECRET": "signs exports and links of approvals",
    "PERDURE_SERVER": "the server that commands use in place of a database",
    "PERDURE_TOKEN": "the key for that server",
    "PERDURE_DEV_SOCKET": "set by `perdure dev` for the process that it watches: its socket",
    "PERDURE_DEV_WATCHER": "set by `perdure dev` for the process that it watches: a pipe that ends with the watching one",
    "PERDURE_DEV_TOKEN": "set by `perdure dev` for the process that it watches: the token of this start",
    "PERDURE_SECRETS_KEY": "opens the vault of secrets",
    "PERDURE_SECRETS_KEY_FILE": "the file with the key that opens the vault of secrets",
    "PERDURE_SECRETS_PATH": "the directory with secrets, a file each",
    "PERDURE_AUTH_PROFILE_": "followed by the name of an auth profile: how requests of `openapi` steps are authorized, as JSON",
    "PERDURE_CONNECTION_": "followed by the name of a connection: the URL of its database, for `sql` steps",
    "PERDURE_SECRET_": "followed by the name of a secret: its value",
    "PERDURE_TASK": "set for programs that perform a task: the task as JSON",
    "PERDURE_USER": "who is named in decisions and reasons",
    "PERDURE_WORK_DIRECTORY": "the directory in which steps work",
    "PERDURE_WORKER_TOKEN": "the token of workers over HTTP",
    "PERDURE_WORKFLOW": "set for programs that perform a task: the workflow",
}


@cache
def syntax() -> dict[type[ast.AST], list[tuple[str, Any]]]:
    """The nodes of every module of the package by their class, each with the path of its module."""
    found = defaultdict[type[ast.AST], list[tuple[str, Any]]](list)
    for path in (one for one in sorted(SOURCE.rglob("*.py")) if not any(place in one.parents for place in EXAMPLES)):
        module = path.relative_to(SOURCE).as_posix()
        for node in tidy.nodes_of(path.read_text(encoding="utf-8")):
            found[type(node)].append((module, node))
    return found


def nodes(kind: type[ast.AST], below: str = "") -> Iterator[Any]:
    """Every node of this class in the package, or in a part of it."""
    return (node for path, node in syntax()[kind] if path.startswith(below))


def calls(name: str, below: str = "") -> Iterator[ast.Call]:
    """Every call of a function or class of this name."""
    for node in nodes(ast.Call, below):
        if (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")) == name:
            yield node


def beginnings(node: ast.expr | None) -> Iterator[str]:
    """The constant texts with which the value of an expression may begin."""
    match node:
        case ast.Constant(str() as text):
            yield text
        case ast.JoinedStr([ast.Constant(str() as text), *_]):
            yield text
        case ast.JoinedStr([ast.FormattedValue(ast.IfExp(_, ast.Constant(str() as one), ast.Constant(str() as other))), ast.Constant(str() as text), *_]):
            yield from (one + text, other + text)
        case ast.Subscript(value):
            yield from beginnings(value)
        case ast.Name(name) if name.isupper():
            yield from constant_texts(name)


def constant_texts(name: str) -> Iterator[str]:
    """The texts that constants of this name have, in any module of the package."""
    for node in nodes(ast.Assign):
        if any(getattr(target, "id", "") == name for target in node.targets) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def default_paths() -> set[str]:
    """How the default names of operations begin in code workflows."""
    found = {text for call in calls("take", "code") if call.args for text in beginnings(call.args[0])}
    joined = {text for call in calls("_branches", "code") for text in beginnings(call.args[0])}
    labels = {
        text
        for node in nodes(ast.BoolOp, "code")
        if len(node.values) == 2 and getattr(node.values[0], "attr", "") == "label"
        for text in beginnings(node.values[1])
    }
    return {"", *(re.sub(r"(?<=:).*", "", one) for one in (*found, *joined, *labels))}


def internal_segments() -> set[str]:
    """The names of internal operations: tuples of a text and 0 in paths."""
    pairs = [node.elts for part in ("core", "code", "definitions/graph") for node in nodes(ast.Tuple, part) if len(node.elts) == 2]
    return {name.value for name, number in pairs if isinstance(name, ast.Constant) and isinstance(name.value, str) and getattr(number, "value", None) == 0}


def failure_kinds() -> set[str]:
    """The kinds of failure that are recorded."""
    return {
        events.REMOVED_KIND,
        *get_args(operations.FailureKind),
        *(text for name in ("Failure", "Err") for call in calls(name) if call.args for text in beginnings(call.args[0])),
    }


def parked_reasons() -> set[str]:
    return {text for name in ("ParkedEvent",) for call in calls(name, "core") if call.args for text in beginnings(call.args[0])}


def message_keys() -> set[str]:
    """How the keys of sent messages begin."""
    found = {text for call in calls("OutgoingMessage") if len(call.args) > 1 for text in beginnings(call.args[1])}
    return {re.sub(r"(?<=:).*", "", one) for one in found if ":" in one}


def reserved_workflows() -> set[str]:
    """The names of workflows that Perdure brings along."""
    constants = (node for node in nodes(ast.Assign) if any(getattr(target, "id", "").endswith("_WORKFLOW") for target in node.targets))
    return {text for node in constants for text in beginnings(node.value) if text.startswith("perdure.")}


def signals() -> set[str]:
    """The names of messages that Perdure itself sends to what it brings along."""
    return {text for call in calls("Signal") if call.args for text in beginnings(call.args[0])}


def environment() -> set[str]:
    """The environment variables that the package reads or sets."""
    return {node.value for node in nodes(ast.Constant) if isinstance(node.value, str) and re.fullmatch(r"PERDURE_[A-Z_]+", node.value)}


def public_events() -> list[str]:
    """The types of public events."""
    text = (SOURCE / "core/views.py").read_text(encoding="utf-8")
    named = set(re.findall(r'"((?:execution|step|approval|message)\.[a-z_]+)"', text))
    return sorted(named | {f"execution.{status}" for status in ("completed", "failed", "cancelled")} | {f"approval.{one}" for one in ("approved", "rejected")})


RECORD_KINDS = {
    "langgraph checkpoint": "a checkpoint of a graph: `thread/namespace/id/`",
    "langgraph value": "a version of a channel: `thread/namespace/channel/version/`",
    "langgraph write": "what a task wrote behind a checkpoint: `thread/namespace/id/task/index/`",
}
"""The kinds of records, and their keys."""


ATTRIBUTES = {
    "initiator": "who started it through a service",
    "definition_version": "the number of the version that it began with",
    "definition_hash": "the hash of that version",
    "definition_inline": "true if its definition came with the start",
    "@failedAt": "while it is failed or needs attention, since when; in heads alone",
    "@errorType": "while it is failed or needs attention, the type of the error, or the reason; in heads alone",
    "@fingerprint": "with it, what failures that are alike have in common; in heads alone",
}
"""The attributes of executions that Perdure itself gives."""


def attributes() -> set[str]:
    """The names of attributes that Perdure itself gives to executions."""
    return {
        INITIATOR_ATTRIBUTE,
        VERSION_ATTRIBUTE,
        HASH_ATTRIBUTE,
        INLINE_ATTRIBUTE,
        failure_causes.ERROR_TYPE,
        failure_causes.FAILED_AT,
        failure_causes.FINGERPRINT,
    }


CHECKED: dict[str, tuple[Mapping[str, str], Callable[[], set[str]]]] = {
    "DEFAULT_PATHS": (DEFAULT_PATHS, default_paths),
    "INTERNAL_SEGMENTS": (INTERNAL_SEGMENTS, internal_segments),
    "FAILURE_KINDS": (FAILURE_KINDS, failure_kinds),
    "PARKED_REASONS": (PARKED_REASONS, parked_reasons),
    "MESSAGE_KEYS": (MESSAGE_KEYS, message_keys),
    "WORKFLOWS": (WORKFLOWS, reserved_workflows),
    "SIGNALS": (SIGNALS, signals),
    "RECORD_KINDS": (RECORD_KINDS, lambda: set(checkpoint_records.KINDS)),
    "ATTRIBUTES": (ATTRIBUTES, attributes),
    "ENVIRONMENT": (ENVIRONMENT, environment),
}
"""Each table of this module, and what it must name."""


def struct_rows(kinds: Iterable[Any]) -> list[tuple[str, str, str]]:
    """Of each struct its tag (or name), its keys, and the first sentence about it."""
    rows = []
    for kind in kinds:
        config, fields = kind.__struct_config__, msgspec.structs.fields(kind)
        keys = (
            ", ".join(one.name for one in fields)
            if config.array_like
            else ", ".join(f"`{one.encode_name}`" + ("" if one.encode_name == one.name else f" {one.name}") for one in fields)
        )
        rows.append((f"`{config.tag or kind.__name__}`", f"an array: {keys}" if config.array_like else keys, sentence(kind)))
    return rows


def sentence(kind: Any) -> str:
    """The first sentence of a docstring."""
    text = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0].rstrip(":").replace("|", "\\|")


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ("---",) * len(heads), *rows))


def described(name: str, names: Mapping[str, str]) -> str:
    return table((name, ""), ((f"`{one}`" if one else "", text) for one, text in sorted(names.items())))


def literals(*kinds: Any) -> str:
    return ", ".join(f"`{one}`" for kind in kinds for one in get_args(kind))


def sqlite_tables() -> list[tuple[str, str, str]]:
    """Each table of the SQLite store, its columns, and what it holds."""
    text = Path(table_schema.__file__).with_name("tables.sql").read_text(encoding="utf-8")
    notes = dict(re.findall(r"^-- (\w+): (.*)$", text, re.MULTILINE))
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(text if sqlite3.sqlite_version_info >= (3, 37) else text.replace(") STRICT", ")"))
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")]
        columns = {name: [row[1] for row in connection.execute(f"PRAGMA table_xinfo({name})")] for name in names}  # names of our own tables
    return [(f"`{name}`", ", ".join(f"`{column}`" for column in columns[name]), notes.get(name, "").replace("|", "\\|")) for name in names]


def postgres_tables() -> list[tuple[str, str]]:
    """Each table that the migrations of the Postgres store make, and its columns."""
    tables = {"schema_history": [*AppliedScript.__struct_fields__]}
    for script in migration_scripts.SCRIPTS:
        text = re.sub(r"--.*", "", script.text)
        for name, columns in re.findall(r"^CREATE TABLE perdure\.(\w+) (\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))", text, re.MULTILINE):
            parts = re.sub(r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", "", columns[1:-1]).split(",")
            tables[name] = [part.split()[0] for part in parts if part.split() and part.split()[0] not in ("PRIMARY", "UNIQUE")]
        for name, columns in re.findall(r"^ALTER TABLE perdure\.(\w+)([^;]*)", text, re.MULTILINE):
            tables[name] += re.findall(r"ADD COLUMN (\w+)", columns)
    return [(f"`{name}`", ", ".join(f"`{column}`" for column in columns)) for name, columns in sorted(tables.items())]


def redis_keys() -> str:
    """The kinds of keys of the Redis store."""
    text = "".join((SOURCE / f"stores/{name}.lua").read_text(encoding="utf-8") for name in ("redis", "redis_feed"))
    return ", ".join(f"`{name}`" for name in sorted({one.strip() for one in re.findall(r"\bat\('([a-z ]+)'", text)}))


def error_classes() -> list[tuple[str, str]]:
    """The code and the class of each error that Perdure raises."""
    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, BaseException) and one.__module__ == errors.__name__]
    return sorted((f"`{one.code}`", f"[{one.__name__}](errors.md#{one.__name__.lower()})") for one in found)  # type: ignore[attr-defined]  # every class there has one


def codes(*, http: bool) -> list[tuple[str, str]]:
    """The codes of failures that are recorded without an exception, or those of the HTTP interface of workers, and what each means."""
    text = (SOURCE / "core/error_codes.py").read_text(encoding="utf-8")
    rows = re.findall(r'^([A-Z_]+) = "([a-z_]+)"  # (.*)$', text, re.MULTILINE)
    return sorted((f"`{code}`", meaning) for name, code, meaning in rows if name.startswith("HTTP_") == http)


def http_routes() -> list[tuple[str, str]]:
    """The routes of the HTTP interface of workers, and what each is for."""
    paths = msgspec.json.decode((SOURCE / "tasks/openapi.json").read_bytes())["paths"]
    return [(f"`{method.upper()} {path}`", one["summary"]) for path, methods in paths.items() for method, one in methods.items() if "summary" in one]


def shown_classes() -> Iterator[Any]:
    """What clients return and the command prints as JSON."""
    for name, module in sorted(OTHERS.items()):
        kind = getattr(importlib.import_module(module), name)
        if issubclass(kind, msgspec.Struct):
            yield kind


def page() -> str:
    """The whole page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entry_points = {"console command": "perdure", **{f"entry points `{group}`": ", ".join(found) for group, found in project["entry-points"].items()}}
    parts = [
        "<!-- Written by `python -m tests.docs.formats` from the code: change that. -->",
        "# Names that are stored or sent",
        (
            "Everything here is a promise: programs, files and databases elsewhere depend on these names. A name is never used again for something else. "
            "The page is made from the code, and a test compares it, so none of them changes unnoticed."
        ),
        (
            "How they were chosen: logs repeat their names millions of times, so tags and keys of a log are one letter, and each letter means one thing within "
            "one kind of entry. Messages live shortly: their tags and keys are words. Everything that people or other programs match on (statuses, failure "
            "kinds, error codes, public events, JSON keys, columns) is a word in lower case with underscores, from the [glossary](../glossary.md) where it has "
            "one. Times end in `_s` and are seconds, since 1970 if they end in `_at_s` or `until_s`."
        ),
        "## Logs",
        (
            f"A row of a log is the version byte {log_format.LOG_VERSION}, a CRC-32 in four bytes, and an array of events as MessagePack maps. The tag of each "
            "map is its key `t`. A field with its default is left out."
        ),
        "### Events",
        table(("tag", "keys", ""), struct_rows(get_args(events.Event))),
        "### Operations and outcomes",
        table(("tag", "keys", ""), struct_rows((*get_args(operations.Operation), *get_args(operations.Outcome)))),
        "### Parts of them",
        table(
            ("name", "keys", ""),
            struct_rows((errors.ErrorInfo, operations.RetryPolicy, messages.Parent, values.Blob, recalled.ForkData, recalled.RecalledResult)),
        ),
        f"Roles of a kept value: {literals(operations.KeepRole)}.",
        "## Paths of operations",
        (
            "A path as text joins its segments by `/`. A repeated name gets a number, `pay#2`; an iteration is `~3`; a name that begins with `~` belongs to "
            "Perdure. In names, `%`, `/`, `#` and `~` are percent-encoded."
        ),
        "Default names in code workflows, if no `name` is given:",
        described("begins with", {name: text for name, text in DEFAULT_PATHS.items() if name}),
        "A step, a loop, a kept value and a removed operation have the name that the code says.",
        "Names of Perdure's own operations, always with `~` before them:",
        described("name", INTERNAL_SEGMENTS),
        (
            "A further attempt of a model to answer in the form that was asked for is `repair#1`, and so on. A reply is kept under `reply:` and the number of "
            "its message."
        ),
        "## Messages",
        "A body is a version byte, a CRC-32, and a MessagePack map with its tag under `t`.",
        table(("tag", "keys", ""), struct_rows(kind for kind in (*get_args(messages.ExecutionMessage), messages.TaskMessage))),
        "A store takes a message with the same key to the same address once. Keys begin with:",
        described("key", MESSAGE_KEYS),
        "## Attributes",
        "Perdure itself gives executions these:",
        described("name", ATTRIBUTES),
        "## Words that are matched on",
        f"- Status of an execution: {literals(ExecutionStatus)}.",
        f"- State of a step: {literals(StepState)}.",
        f"- Public events: {', '.join(f'`{one}`' for one in public_events())}.",
        "Failures have one of these kinds:",
        described("kind", FAILURE_KINDS),
        "An execution is parked for one of these reasons:",
        described("reason", PARKED_REASONS),
        "## Codes of errors",
        "An error in a log, in JSON output and in answers over HTTP has one of these codes, or the name of the class of an exception of your own.",
        table(("code", ""), codes(http=False)),
        "Each class of an error has a code as well, in its attribute `code`:",
        table(("code", "class"), error_classes()),
        "## Workflows and messages that Perdure brings along",
        described("workflow", WORKFLOWS),
        described("message", SIGNALS),
        "## The HTTP interface of workers",
        table(("route", ""), http_routes()),
        "The bodies of requests, and a task as it is leased:",
        table(("body", "keys", ""), struct_rows((protocol.LeaseBody, protocol.HeartbeatBody, protocol.CompleteBody, protocol.FailBody, protocol.LeasedTask))),
        "Errors have `type`, `message` and `next`. The type is one of the codes above, such as `too_large` or `timeout`, or one of these:",
        table(("type", ""), codes(http=True)),
        "## Records",
        "A value is a version byte, a CRC-32, and what the kind says.",
        described("kind", RECORD_KINDS),
        (
            "The parts of these keys are percent-encoded. The bytes of an id are inverted, in hexadecimal digits and with `~` behind them, so that the newest "
            "comes first. A record is the MessagePack array of how many records follow, whose keys are this one's with a number of six digits behind, and the "
            f"first {checkpoint_records.PIECE_BYTES:,} bytes of the value; those that follow have the rest. A value of a channel is an array of how it is "
            "serialized and its bytes. The others are:"
        ),
        table(("value", "keys", ""), struct_rows((checkpoint_records.StoredCheckpoint, checkpoint_records.StoredWrite))),
        "## Stores",
        "### SQLite",
        f"The tables have the version {table_schema.SCHEMA_VERSION}.",
        table(("table", "columns", ""), sqlite_tables()),
        "### Postgres",
        table(("table", "columns"), postgres_tables()),
        "### Redis",
        f"A key is the prefix of the store and one of these, most of them followed by a colon and a name: {redis_keys()}.",
        "## Exports and archives",
        "How the bytes lie is said in [the format of exports](export.md).",
        table(
            ("part", "keys", ""),
            struct_rows((execution_bundles.Bundle, execution_bundles.BundledExecution, execution_bundles.BundledMessage, log_archives.ArchiveContent)),
        ),
        "## JSON output",
        "The command prints these classes with `--json`, and clients return them:",
        table(("class", "keys", ""), struct_rows(shown_classes())),
        "## The command and the environment",
        table(("", ""), [(name, f"`{found}`") for name, found in entry_points.items()]),
        "Packages add kinds of nodes by the entry points `perdure.kinds`.",
        described("variable", ENVIRONMENT),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
