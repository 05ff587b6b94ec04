"""Lending: the options by which a worker process gives the tasks of its queues to programs in any language, instead of doing them itself.

The commands that make executions go on: `run`, `start`, `worker`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import click

from perdure.cli import shared_options
from perdure.cli.exit_codes import CommandExit, ExitCode
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import F, GlobalOptions, input_options, value_format

if TYPE_CHECKING:
    from perdure.runtime.call_secrets import SecretSource
    from perdure.runtime.server import ServerMember
    from perdure.runtime.task_broker import TaskBroker
    from perdure.stores.protocol import Store
if TYPE_CHECKING:
    from perdure.async_client import AsyncClient
    from perdure.core.paths import Key
    from perdure.runtime.engine import Engine
    from perdure.sync_client import ExecutionStatus
    from perdure.workflow_function import Workflow


BROKER_FLAGS = {"listen": "--listen", "exec_": "--exec", "each": "--each"}


def task_broker_options(command: F) -> F:
    """How tasks are given to others."""
    said = "With --exec or --each: a variable that the program has, too (NAME: as it is here, NAME=VALUE)."
    command = click.option("--env", "env", multiple=True, metavar="NAME", help=said)(command)
    said = "With --each: how many at a time; else as many as there are processors."
    command = click.option("--concurrency", type=click.IntRange(1, 10_000), metavar="N", help=said)(command)
    said = "Do the tasks of the queues with a process for each: it reads PERDURE_TASK_FILE, and writes PERDURE_RESULT_FILE."
    command = click.option("--each", metavar="COMMAND", help=said)(command)
    said = "Have one program do the tasks of the queues, which speaks JSON lines on its input and output."
    command = click.option("--exec", "exec_", metavar="COMMAND", help=said)(command)
    said = "With --listen: one token, or the SHA-256 of several with what each opens; else PERDURE_WORKER_TOKEN."
    command = click.option("--token-file", metavar="FILE", help=said)(command)
    said = "Lend the tasks of the queues over HTTP, to workers in any language (127.0.0.1:7800)."
    return click.option("--listen", metavar="HOST:PORT", help=said)(command)


class TaskBrokerFactory:
    """What lends the tasks of some queues in this process, once its store is open."""

    def __init__(self, make: Callable[[TaskBroker], ServerMember], queues: tuple[str, ...], to: str) -> None:
        self._make, self._queues, self._to = make, queues, to
        self._member: ServerMember | None = None

    def __call__(self, store: Store, secrets: SecretSource | None) -> ServerMember:
        """It, on a store, with what finds secrets."""
        from perdure.runtime.task_broker import TaskBroker

        self._member = self._make(TaskBroker(store, self._queues, threaded=True, secrets=secrets))
        return self._member

    def __str__(self) -> str:
        """What it lends, and where or to whom."""
        to = self._to or f"at {getattr(self._member, 'address', '')}"
        return f"tasks of {', '.join(self._queues)} are lent {to}"


def task_broker_of(queues: tuple[str, ...], given: Mapping[str, Any]) -> TaskBrokerFactory | None:
    """What the options say; None, if they say nothing of that.

    Raises:
        UsageError: they don't fit together.
        BadValue: one of them can't be understood.
    """
    named = [flag for name, flag in BROKER_FLAGS.items() if given[name] is not None]
    for name, flag, among in (("token_file", "--token-file", ("listen",)), ("concurrency", "--concurrency", ("each",)), ("env", "--env", ("exec_", "each"))):
        if given[name] and not any(given[one] for one in among):
            raise click.UsageError(f"{flag} says something of {' and '.join(BROKER_FLAGS[one] for one in among)}")
    if not named:
        return None
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)} are two ways; give each a process of its own")
    if not queues:
        raise click.UsageError(f"{named[0]} gives the tasks of queues to others: name them with --queue")
    return _task_broker(queues, given)


def _task_broker(queues: tuple[str, ...], given: Mapping[str, Any]) -> TaskBrokerFactory:
    from perdure.tasks.child_command import child_environment, split_command
    from perdure.tasks.http_endpoint import TaskEndpoint, parse_listen_address
    from perdure.tasks.pipe_worker import PipeWorker
    from perdure.tasks.program_per_task import ProgramPerTask
    from perdure.tasks.worker_tokens import load_worker_access

    if given["listen"] is not None:
        host, port = parse_listen_address(given["listen"])
        known = load_worker_access(None if given["token_file"] is None else Path(given["token_file"]))
        return TaskBrokerFactory(lambda broker: TaskEndpoint(broker, known, host, port), queues, "")
    variables = child_environment(given["env"])
    if given["exec_"] is not None:
        command = split_command(given["exec_"], "--exec")
        return TaskBrokerFactory(lambda broker: PipeWorker(broker, command, variables), queues, f"to {given['exec_']}")
    command, concurrency = split_command(given["each"], "--each"), given["concurrency"] or os.cpu_count() or 1
    return TaskBrokerFactory(lambda broker: ProgramPerTask(broker, command, variables, concurrency), queues, f"to {given['each']}, {concurrency} at a time")


ARGUMENTS_HELP = """Arguments are JSON where they parse ('3', 'true', '{"a": 1}'), else text. A definition takes its input by name."""

WAITING_STATUSES = ("waiting", "waiting_approval", "paused", "needs_attention")
"""How an execution stands that goes on only when something comes to it."""

TREE_MAX = 10_000
"""How many executions are looked at that one has called, for whether all of them wait."""

APPROVAL_POLL_S = 0.05
"""How often is looked whether an execution waits for an approval."""


def tool_options(command: F) -> F:
    """What a definition may use."""
    command = click.option("--calls", multiple=True, metavar="FILE", help="A definition that one may call; it may itself call those named before it.")(command)
    said = "Where a definition has its tools: the steps, public functions and workflows of FILE.py or a module."
    return click.option("--tools", multiple=True, metavar="PLACE", help=said)(command)


@click.command("run", cls=CliCommand, epilog=ARGUMENTS_HELP)
@click.argument("target")
@input_options
@tool_options
@shared_options.environment_options
@click.option("--id", help="Its id: run again, the same execution goes on, and one that has ended returns its result.")
@click.option("--wait/--no-wait", default=True, help="Wait while it waits for an approval (the default), or end the command then.")
@click.option("--watch", is_flag=True, help="Show its steps as they go, on standard error.")
@value_format
@click.pass_obj
def run(settings: GlobalOptions, /, *, target: str, id: str | None, wait: bool, watch: bool, format: str, **given: Any) -> None:
    """Run a workflow to its end, in this process.

    TARGET is FILE.py, FILE.py:workflow or module:workflow, module:app or module:app:workflow of an App, or a definition: FILE.yaml, FILE.json, or - for
    standard input. Its result is printed.
    Interrupted or killed, it goes on when it is run again with its id.
    """
    from perdure.cli import definition_files, output, targets
    from perdure.cli.live_view import watch_in_background
    from perdure.cli.terminal_text import execution_name, safe_lines

    if settings.tenant != "default":
        raise CommandExit(ExitCode.FLAGS, "run works for the tenant 'default' alone\nperdure --tenant NAME start, with a worker, is for any")
    workflow = targets.load_workflow(target, given["tools"], given["calls"], definition_files.environment_of(given))
    targets.use_database_of(settings, [target])
    args, kwargs = _input(target, workflow, given)
    key = workflow.key(uuid4().hex if id is None else id)
    settings.log("perdure.workflow")
    try:
        with watch_in_background(settings, key) if watch else nullcontext():
            result = _run(settings, workflow, (args, kwargs), key, wait)
    except KeyboardInterrupt:
        again = f"perdure run {quote(target)} ... --id {quote(key.id)}"
        click.echo(f"perdure: {safe_lines(f'{execution_name(key)} was interrupted', f'{again} goes on with it')}", err=True)
        raise
    output.print_value(result, format)


def _input(target: str, workflow: Workflow[..., Any], given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The input of a workflow that is about to be run here; what does not fit is refused before there is an execution."""
    from perdure.cli import argument_values, definition_files
    from perdure.definition_workflow import Definition
    from perdure.runtime.workflow_programs import encode_input

    if isinstance(workflow, Definition):
        if definition_files.shares_stdin(target, given["source"]):
            raise click.UsageError("the definition is read from standard input, and so can't be its input: give that in a file, or with -i")
        definition_files.require_dependencies(workflow)
        args, kwargs = definition_files.definition_arguments(workflow, given)
    else:
        args, kwargs = argument_values.workflow_arguments(given, argument_values.workflow_parameters(workflow.code.fn))
    _ = encode_input(workflow.code, args, kwargs, "run")
    return args, kwargs


def _run(settings: GlobalOptions, workflow: Workflow[..., Any], input: tuple[list[Any], dict[str, Any]], key: Key, waits: bool) -> Any:
    args, kwargs = input
    chosen = workflow.with_(id=key.id, db=settings.db)
    if waits:
        return chosen.run(*args, **kwargs)
    import asyncio

    return asyncio.run(_until_approval(settings, chosen.arun(*args, **kwargs), key))


async def _until_approval(settings: GlobalOptions, running: Coroutine[Any, Any, Any], key: Key) -> Any:
    """What it returns; once it waits for an approval, the command ends."""
    import asyncio

    from perdure.async_client import AsyncClient
    from perdure.cli.execution_lookup import not_ended
    from perdure.core.errors import NotFound

    task = asyncio.ensure_future(running)
    async with AsyncClient(settings.db) as client:
        while not (await asyncio.wait({task}, timeout=APPROVAL_POLL_S))[0]:
            try:
                asking = await _awaited_approval(client, key)
            except NotFound:  # it is about to be started
                continue
            if asking is not None:
                task.cancel()
                _ = await asyncio.wait({task})
                raise not_ended(asking)
    return await task


@click.command("start", cls=CliCommand, epilog=ARGUMENTS_HELP)
@click.argument("workflow")
@input_options
@tool_options
@shared_options.blobs_option
@click.option("--id", help="Its id: started again, it is the same execution.")
@click.option("--delay", metavar="TIME", help="Begin after so long: 30s, 1h, 2d.")
@click.option("--deadline", metavar="TIME", help="Fail it if it has not ended so long after its beginning.")
@click.option("--queue", metavar="NAME", help="Begin in this queue, as it allows.")
@click.option("--lane", metavar="KEY", help="In whose turn: the key by which the queue is served.")
@click.option("--priority", type=int, metavar="N", help="Higher ones begin first.")
@click.option("--ttl", metavar="TIME", help="If it has not begun after so long, it does not begin any more.")
@click.option("--debounce", metavar="TIME", help="Begin after so long, unless it is started again until then; its id counts.")
@click.option("--singleton", is_flag=True, help="Only if none of this id goes on; its id counts.")
@click.option("--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="What it is found by; as with --where of perdure ls.")
@click.option("--strict", is_flag=True, help="If the id exists with another input, that is an error.")
@click.option("--wait", is_flag=True, help="Wait for its end, and print its result instead of its key.")
@click.option("--timeout", metavar="TIME", help="How long to wait at most.")
@click.option("--watch", is_flag=True, help="Show its steps as they go, on standard error, and wait.")
@value_format
@click.pass_obj
def start(settings: GlobalOptions, /, *, workflow: str, wait: bool, timeout: str | None, watch: bool, format: str, **given: Any) -> None:
    """Start a workflow; an engine that knows it, somewhere, runs it.

    WORKFLOW is its name, or a target (FILE.py, FILE.py:workflow, module:workflow, FILE.yaml, FILE.json or -), whose arguments are then checked here. Its key
    is printed.
    """
    from perdure.cli import definition_files, output, targets
    from perdure.cli.execution_lookup import known_programs, unknown_program, wait_for_result
    from perdure.cli.live_view import watch_in_background
    from perdure.cli.terminal_text import execution_name

    asked = _start_request(workflow, given)
    if targets.is_target(workflow):
        targets.use_database_of(settings, [workflow])
    with settings.client(creates=True) as client:
        meant = client.workflow(asked.workflow) if isinstance(asked.workflow, str) else asked.workflow
        handle = client.start(meant.with_(**asked.options, tenant=settings.tenant), *asked.args, **asked.kwargs)
        if not wait and not watch:
            output.print_value({**handle.key._asdict(), "created": handle.created} if format == "json" else execution_name(handle.key), format)
        if not handle.created:
            click.echo(f"perdure: {execution_name(handle.key)} exists already; nothing was started", err=True)
        if (program := unknown_program(handle.summary(), known_programs(client))) is not None:
            what = "FILE.yaml --tools FILE.py" if definition_files.is_document(workflow) else "FILE.py"
            click.echo(f"perdure: no engine here knows {program}, so it waits\nperdure worker {what} starts one", err=True)
        if wait or watch:
            with watch_in_background(settings, handle.key) if watch else nullcontext():
                result = wait_for_result(handle, timeout)
            output.print_value(result, format)


async def _awaited_approval(client: AsyncClient, key: Key) -> ExecutionStatus | None:
    """How that execution stands, itself or one that it has called, that waits for a person; None as long as anything in it goes on without one.

    Nothing does if each has begun, waits, and has no message that an engine is yet to take, such as a decision.
    """
    from perdure.runtime.execution_results import ENDED_STATUSES
    from perdure.stores.protocol import HeadFilter

    store = client._store
    root = (await client.get(key)).key
    found = await store.heads(HeadFilter(root=root, limit=TREE_MAX))
    now_s = (await store.store_time()).now_s
    alive = [head for head in found if head.status not in ENDED_STATUSES]
    if any(head.status not in WAITING_STATUSES or not head.version or (head.mail_at_s is not None and head.mail_at_s <= now_s) for head in alive):
        return None
    for head in alive:
        if any(mail.due_at_s <= now_s for mail in await store.messages(head.key)):
            return None
    asking = next((head for head in sorted(alive, key=lambda one: one.key != root) if head.status == "waiting_approval"), None)
    if asking is None or not await _can_be_decided(client, asking.key):
        return None
    return await (await client.get(asking.key)).status()


async def _can_be_decided(client: AsyncClient, key: Key) -> bool:
    """Whether all approvals for which an execution waits have begun, so that they can be decided when nobody runs it."""
    from perdure.cli.approval_commands import APPROVALS_MAX
    from perdure.core.operations import APPROVAL_WORKFLOW

    wanted = [
        step for step in await (await client.get(key)).steps() if step.settled_at_s is None and (step.kind == "approve" or step.target == APPROVAL_WORKFLOW)
    ]
    begun = [one for one in await client.approvals(limit=APPROVALS_MAX, tenant=key.tenant) if one.requested_by == key]
    return 0 < len(wanted) <= len(begun)


class _StartRequest(NamedTuple):
    """What is to be started: a workflow, or what one is called, with its input and with options."""

    workflow: Any
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]


def _start_request(workflow: str, given: dict[str, Any]) -> _StartRequest:
    from perdure.cli import argument_values, definition_files, targets
    from perdure.definition_workflow import Definition

    options = {name: given[name] for name in ("id", "delay", "deadline", "queue", "lane", "priority", "ttl", "debounce", "singleton", "strict")}
    target = (
        targets.load_workflow(workflow, given["tools"], given["calls"], definition_files.remote_environment(given["blobs"]))
        if targets.is_target(workflow)
        else None
    )
    options["attributes"] = argument_values.parse_attributes(given["attributes"]) or None
    if isinstance(target, Definition):
        args, kwargs = definition_files.definition_arguments(target, given)
    else:
        args, kwargs = argument_values.workflow_arguments(given, [] if target is None else argument_values.workflow_parameters(target.code.fn))
    options = {name: value for name, value in options.items() if value not in (None, False)}
    return _StartRequest(workflow if target is None else target, args, kwargs, options)


@click.command("worker", cls=CliCommand)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@tool_options
@shared_options.environment_options
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Also do the steps that wait on this queue.")
@task_broker_options
@click.option("--grace", metavar="TIME", help="How long steps may take to end, once it is told to stop; 30s, unless an App says otherwise.")
@click.pass_obj
def worker(settings: GlobalOptions, /, *, targets: tuple[str, ...], queues: tuple[str, ...], grace: str | None, **given: Any) -> None:
    """Run all workflows of some files or modules, definitions (FILE.yaml, FILE.json), and Apps (module:app), until stopped.

    An App brings its database, its queues and its grace; options win over what it says.

    With --listen, --exec or --each, the work of the queues is not done here, but given to programs in any language (docs/guides/workers.md); then no
    workflow has to be named.

    SIGTERM or Ctrl-C stops it in good order: nothing new begins, what runs may end. A second one stops it at once. Nothing is lost either way.
    """
    import asyncio

    from perdure.cli import definition_files, terminal_text
    from perdure.cli.targets import TargetCode, use_database_of
    from perdure.cli.targets import load_code as found
    from perdure.code.durations import duration_seconds
    from perdure.definition_workflow import Definition
    from perdure.runtime.server import SHUTDOWN_GRACE_S, serve
    from perdure.service.secrets.secret_resolver import secret_resolver_for

    lends = task_broker_of(queues, given)
    if not targets and lends is None:
        raise click.UsageError("Missing argument 'TARGET...'.")
    code = found(targets, given["tools"], given["calls"], definition_files.environment_of(given)) if targets else TargetCode((), ())
    for definition in (one for one in code.workflows if isinstance(one, Definition)):
        definition_files.require_dependencies(definition)
    use_database_of(settings, targets)
    apps = code.apps
    queues = queues or tuple(dict.fromkeys(queue for app in apps for queue in app.queues))
    grace_s = max((app.grace_s for app in apps), default=SHUTDOWN_GRACE_S) if grace is None else duration_seconds(grace, "--grace")
    db = settings.db or next((app.db for app in apps if app.db is not None), None)
    settings.log("perdure")

    def ready(engine: Engine | None) -> None:
        place = terminal_text.without_passwords(settings.url())
        if engine is not None:
            knows = ", ".join(f"{one.name}@{one.version}" for one in engine.known.values())
            served = "" if lends else _served_queues(queues)
            click.echo(f"engine {engine.holder} on {place} knows {knows or 'no workflow'}{served}; Ctrl-C stops it")
        if lends is not None:
            click.echo(f"{lends}{'' if engine is not None else f', from {place}; Ctrl-C stops it'}")

    workflows = [one.code for one in code.workflows]
    how: dict[str, Any] = {"queues": queues, "declares": code.queues, "db": db, "codec": next((app.codec for app in apps), None), "grace_s": grace_s}
    asyncio.run(serve(workflows, code.steps, **how, ready=ready, secrets=secret_resolver_for, lends=lends))


def _served_queues(queues: tuple[str, ...]) -> str:
    return f", serves {', '.join(queues)}" if queues else ""
