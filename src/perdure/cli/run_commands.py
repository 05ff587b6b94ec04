"""The commands that run executions: `run`, `start`, `worker`; and the options by which a worker gives the tasks of its queues to programs in any language."""

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
from perdure.cli.hosted_definitions import catalog_option, hosted_workflows, known_text
from perdure.cli.root_command import CliCommand
from perdure.cli.shared_options import F, GlobalOptions, input_options, value_format

if TYPE_CHECKING:
    from perdure.runtime.call_secrets import SecretSource
    from perdure.runtime.observer import Observer
    from perdure.runtime.server import ServerMember
    from perdure.runtime.task_broker import TaskBroker
    from perdure.stores.protocol import Store
if TYPE_CHECKING:
    from perdure.async_client import AsyncClient
    from perdure.code.call_options import NamedWorkflow
    from perdure.core.paths import Key
    from perdure.runtime.engine import Engine
    from perdure.sync_client import Client, ExecutionStatus
    from perdure.workflow_function import Workflow


LEASE_S_MIN = 1.0
"""The shortest lease: a worker renews it three times in that time, beside its work."""

BROKER_FLAGS = {"listen": "--listen", "exec_": "--exec", "each": "--each"}


def task_broker_options(command: F) -> F:
    """The options by which tasks are handed to other programs."""
    said = "With --exec or --each: an additional environment variable of the program (NAME: with its value here; NAME=VALUE)."
    command = click.option("--env", "env", multiple=True, metavar="NAME", help=said)(command)
    said = "How many steps of the queues are performed at a time (10); with --each, how many processes (one per processor)."
    command = click.option("--concurrency", type=click.IntRange(1, 10_000), metavar="N", help=said)(command)
    said = "Run a process for each task of the queues, which reads PERDURE_TASK_FILE and writes PERDURE_RESULT_FILE."
    command = click.option("--each", metavar="COMMAND", help=said)(command)
    said = "Run one program for the tasks of the queues, which exchanges JSON lines on its standard input and output."
    command = click.option("--exec", "exec_", metavar="COMMAND", help=said)(command)
    said = "With --listen: a token, or the SHA-256 of several tokens with the queues of each; else PERDURE_WORKER_TOKEN."
    command = click.option("--token-file", metavar="FILE", help=said)(command)
    said = "Offer the tasks of the queues over HTTP to workers in any language (127.0.0.1:7800)."
    return click.option("--listen", metavar="HOST:PORT", help=said)(command)


class TaskBrokerFactory:
    """Creates the broker that hands the tasks of some queues to other programs, once the store is open."""

    def __init__(self, make: Callable[[TaskBroker], ServerMember], queues: tuple[str, ...], to: str) -> None:
        self._make, self._queues, self._to = make, queues, to
        self.tenants: tuple[str, ...] | None = None
        self.observer: Observer | None = None
        self._member: ServerMember | None = None

    def observed(self, observer: Observer | None) -> TaskBrokerFactory:
        """Has an observer told of the leases; returns this."""
        self.observer = observer
        return self

    def __call__(self, store: Store, secrets: SecretSource | None) -> ServerMember:
        """Creates the broker on a store, with a source of secrets."""
        from perdure.runtime.task_broker import TaskBroker

        self._member = self._make(TaskBroker(store, self._queues, tenants=self.tenants, threaded=True, secrets=secrets, observer=self.observer))
        return self._member

    def __str__(self) -> str:
        """The queues, and where or to which program their tasks go."""
        to = self._to or f"at {getattr(self._member, 'address', '')}"
        return f"tasks of {', '.join(self._queues)} are offered {to}"


def task_broker_of(queues: tuple[str, ...], given: Mapping[str, Any], tenants: tuple[str, ...] | None = None) -> TaskBrokerFactory | None:
    """The broker that the options describe; None if they describe none.

    Raises:
        UsageError: the options contradict each other.
        BadValue: one of them is invalid.
    """
    named = [flag for name, flag in BROKER_FLAGS.items() if given[name] is not None]
    for name, flag, among in (("token_file", "--token-file", ("listen",)), ("env", "--env", ("exec_", "each"))):
        if given[name] and not any(given[one] for one in among):
            raise click.UsageError(f"{flag} needs {' or '.join(BROKER_FLAGS[one] for one in among)}")
    if given["concurrency"] and (given["listen"] or given["exec_"]):
        raise click.UsageError(f"{named[0]} excludes --concurrency: the programs themselves decide how many tasks they lease")
    if not named:
        return None
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)} exclude each other; start a process for each")
    if not queues:
        raise click.UsageError(f"{named[0]} needs queues: name them with --queue")
    broker = _task_broker(queues, given)
    broker.tenants = tenants
    return broker


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
"""The statuses in which an execution continues only when a message or a command arrives."""

TREE_MAX = 10_000
"""How many descendants of an execution are read to decide whether all of them wait."""

APPROVAL_POLL_S = 0.05
"""The time between two checks whether an execution waits for an approval."""


def tool_options(command: F) -> F:
    """Returns the names that a definition may use."""
    command = click.option("--calls", multiple=True, metavar="FILE", help="A definition that may be called; it may itself call those named before it.")(command)
    said = "The tools of definitions: the steps, public functions and workflows of FILE.py or a module, or those of the MCP servers in FILE.json."
    return click.option("--tools", multiple=True, metavar="PLACE", help=said)(command)


@click.command("run", cls=CliCommand, epilog=ARGUMENTS_HELP)
@click.argument("target")
@input_options
@tool_options
@shared_options.environment_options
@shared_options.log_options
@click.option("--id", help="Its id: run again with it, the same execution continues, or returns its result if it has ended.")
@click.option("--wait/--no-wait", default=True, help="Keep waiting for an approval (the default), or end the command when it waits for one.")
@click.option("--watch", is_flag=True, help="Show its progress on standard error.")
@value_format
@click.pass_obj
def run(settings: GlobalOptions, /, *, target: str, id: str | None, wait: bool, watch: bool, format: str, **given: Any) -> None:
    """Run a workflow to its end in this process, and print its result.

    TARGET is FILE.py, FILE.py:workflow or module:workflow, module:app or module:app:workflow of an App, or a definition: FILE.yaml, FILE.json, or - for
    standard input. If it is interrupted or killed, run it again with its id to continue.
    """
    from perdure.cli import definition_files, output, targets
    from perdure.cli.live_view import watch_in_background
    from perdure.cli.terminal_text import execution_name, safe_lines

    if settings.tenant != "default":
        raise CommandExit(ExitCode.FLAGS, "run supports the tenant 'default' only\nuse perdure --tenant NAME start, with a worker")
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
        click.echo(f"perdure: {safe_lines(f'{execution_name(key)} was interrupted', f'{again} continues it')}", err=True)
        raise
    output.print_value(result, format)


def _input(target: str, workflow: Workflow[..., Any], given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The input of a workflow that is about to run here; input that does not fit is refused before there is an execution."""
    from perdure.cli import argument_values, definition_files
    from perdure.definition_workflow import Definition
    from perdure.runtime.workflow_programs import encode_input

    if isinstance(workflow, Definition):
        if definition_files.shares_stdin(target, given["source"]):
            raise click.UsageError("standard input has the definition, so it can't have the input, too: pass that in a file, or with -i")
        definition_files.require_dependencies(workflow)
        args, kwargs = definition_files.definition_arguments(workflow, given)
    else:
        args, kwargs = argument_values.workflow_arguments(given, argument_values.workflow_parameters(workflow.code.fn))
    _ = encode_input(workflow.code, args, kwargs, "run")
    return args, kwargs


def _run(settings: GlobalOptions, workflow: Workflow[..., Any], input: tuple[list[Any], dict[str, Any]], key: Key, waits: bool) -> Any:
    args, kwargs = input
    chosen = workflow.with_(id=key.id, db=settings.database())
    if waits:
        return chosen.run(*args, **kwargs)
    import asyncio

    return asyncio.run(_until_approval(settings, chosen.arun(*args, **kwargs), key))


async def _until_approval(settings: GlobalOptions, running: Coroutine[Any, Any, Any], key: Key) -> Any:
    """The result of the execution; the command ends when it waits for an approval."""
    import asyncio

    from perdure.async_client import AsyncClient
    from perdure.cli.execution_lookup import not_ended
    from perdure.core.errors import NotFound

    task = asyncio.ensure_future(running)
    async with AsyncClient(settings.database()) as client:
        while not (await asyncio.wait({task}, timeout=APPROVAL_POLL_S))[0]:
            try:
                asking = await _awaited_approval(client, key)
            except NotFound:  # the execution has not been started yet
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
@click.option("--id", help="Its id: started again with it, it is the same execution.")
@click.option("--delay", metavar="TIME", help="Begin after this time: 30s, 1h, 2d.")
@click.option("--deadline", metavar="TIME", help="Fail it if it has not ended this long after its beginning.")
@click.option("--queue", metavar="NAME", help="Begin within the limits of this queue.")
@click.option("--lane", metavar="KEY", help="The lane of the queue, which is served fairly beside the others.")
@click.option("--priority", type=int, metavar="N", help="Executions with a higher priority begin first.")
@click.option("--ttl", metavar="TIME", help="If it has not begun after this time, it no longer begins.")
@click.option("--debounce", metavar="TIME", help="Begin after this time, unless it is started again before; its id gets a number.")
@click.option("--singleton", is_flag=True, help="Start only if none of this id is running; its id gets a number.")
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    help="An attribute by which perdure ls --where finds it; a name may be given several values.",
)
@click.option("--strict", is_flag=True, help="Fail if the id exists with another input.")
@click.option("--wait", is_flag=True, help="Wait for its end, and print its result instead of its key.")
@click.option("--timeout", metavar="TIME", help="How long to wait at most.")
@click.option("--watch", is_flag=True, help="Show its progress on standard error, and wait.")
@value_format
@click.pass_obj
def start(settings: GlobalOptions, /, *, workflow: str, wait: bool, timeout: str | None, watch: bool, format: str, **given: Any) -> None:
    """Start a workflow; an engine that knows it, in any process, runs it.

    WORKFLOW is its name, or a target (FILE.py, FILE.py:workflow, module:workflow, FILE.yaml, FILE.json or -), whose arguments are then checked here. A
    definition of the catalog is named by its slug, or by a reference: invoice@1.2.0, invoice@^1, invoice:production. The key of the execution is printed.
    """
    from perdure.cli import definition_files, output, targets
    from perdure.cli.execution_lookup import known_programs, unknown_program, wait_for_result
    from perdure.cli.live_view import watch_in_background
    from perdure.cli.terminal_text import execution_name
    from perdure.core.program import near_programs

    is_target = targets.is_target(workflow) and not targets.is_reference(workflow)
    asked = _start_request(workflow, given, is_target=is_target)
    if is_target:
        targets.use_database_of(settings, [workflow])
    with settings.client(creates=True) as client:
        meant = _named(client, asked.workflow, settings.tenant) if isinstance(asked.workflow, str) else asked.workflow
        handle = client.start(meant.with_(**asked.options, tenant=settings.tenant), *asked.args, **asked.kwargs)
        if not wait and not watch:
            output.print_value({**handle.key._asdict(), "created": handle.created} if format == "json" else execution_name(handle.key), format)
        if not handle.created:
            click.echo(f"perdure: {execution_name(handle.key)} exists already; nothing was started", err=True)
        summary, known = handle.summary(), known_programs(client)
        if summary.hosted and unknown_program(summary, known) is not None:
            click.echo(
                "perdure: no running engine runs definitions of the catalog, so it waits\nperdure worker FILE.py starts one, with the steps of FILE.py",
                err=True,
            )
        elif (program := unknown_program(summary, known)) is not None:
            what = "FILE.yaml --tools FILE.py" if definition_files.is_document(workflow) else "FILE.py"
            click.echo(f"perdure: no running engine knows {program}{near_programs(program, known)}, so it waits\nperdure worker {what} starts one", err=True)
        if wait or watch:
            with watch_in_background(settings, handle.key) if watch else nullcontext():
                result = wait_for_result(handle, timeout)
            output.print_value(result, format)


async def _awaited_approval(client: AsyncClient, key: Key) -> ExecutionStatus | None:
    """The status of the execution, or of a descendant, that waits for an approval; None as long as anything in the tree continues by itself.

    Nothing continues by itself if each execution has begun, waits, and has no due message that an engine has not handled yet, such as a decision.
    """
    from perdure.runtime.execution_results import ENDED_STATUSES
    from perdure.stores.protocol import HeadFilter

    store = client._access.on_store("to see whether anything continues").store
    root = (await client.get(key)).key
    found = await store.heads(HeadFilter(root=root, limit=TREE_MAX))
    now_s = (await store.store_time()).now_s
    alive = [head for head in found if head.status not in ENDED_STATUSES]
    if any(head.status not in WAITING_STATUSES or not head.version or (head.message_at_s is not None and head.message_at_s <= now_s) for head in alive):
        return None
    for head in alive:
        if any(queued.due_at_s <= now_s for queued in await store.messages(head.key)):
            return None
    asking = next((head for head in sorted(alive, key=lambda one: one.key != root) if head.status == "waiting_approval"), None)
    if asking is None or not await _can_be_decided(client, asking.key):
        return None
    return await (await client.get(asking.key)).status()


async def _can_be_decided(client: AsyncClient, key: Key) -> bool:
    """Returns whether all approvals that an execution waits for have begun, so that they can be decided while no engine runs."""
    from perdure.cli.approval_commands import APPROVALS_MAX
    from perdure.core.operations import APPROVAL_WORKFLOW

    wanted = [
        step for step in await (await client.get(key)).steps() if step.settled_at_s is None and (step.kind == "approve" or step.target == APPROVAL_WORKFLOW)
    ]
    begun = [one for one in await client.approvals(limit=APPROVALS_MAX, tenant=key.tenant) if one.requested_by == key]
    return 0 < len(wanted) <= len(begun)


class _StartRequest(NamedTuple):
    """A workflow to start, or its name, with input and options."""

    workflow: Any
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]


def _named(client: Client, name: str, tenant: str) -> NamedWorkflow:
    """What a name means: a definition of the catalog, if it is a reference or there is one of this slug, else a workflow that engines know."""
    from perdure.cli.targets import is_reference
    from perdure.core.errors import NotFound
    from perdure.operations import on_catalog
    from perdure.service.slugs import SLUG

    async def is_in_catalog() -> bool:
        try:
            _ = await client._inner._access.call(on_catalog.read, tenant, name)
        except NotFound:
            return False
        return True

    is_meant = is_reference(name) or (SLUG.fullmatch(name) is not None and client._thread.call(is_in_catalog()))
    return client.definition(name) if is_meant else client.workflow(name)


def _start_request(workflow: str, given: dict[str, Any], *, is_target: bool) -> _StartRequest:
    from perdure.cli import argument_values, definition_files, targets
    from perdure.definition_workflow import Definition

    options = {name: given[name] for name in ("id", "delay", "deadline", "queue", "lane", "priority", "ttl", "debounce", "singleton", "strict")}
    target = targets.load_workflow(workflow, given["tools"], given["calls"], definition_files.remote_environment(given["blobs"])) if is_target else None
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
@shared_options.observation_options
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Also perform the steps of this queue.")
@click.option("--only-tenant", "tenants", multiple=True, metavar="NAME", help="Serve only this tenant. It may be given several times.")
@catalog_option
@task_broker_options
@click.option("--grace", metavar="TIME", help="How long steps may take to end after a stop signal; 30s, unless an App sets another time.")
@click.option("--lease", default="15s", metavar="TIME", help="On a server, others take over after this time if the worker is killed; at least 1s.")
@click.pass_obj
def worker(settings: GlobalOptions, /, *, targets: tuple[str, ...], queues: tuple[str, ...], tenants: tuple[str, ...], grace: str | None, **given: Any) -> None:
    """Run all workflows of some files or modules, definitions (FILE.yaml, FILE.json), and Apps (module:app), until stopped.

    Definitions of the catalog run here, too, if the targets have the steps that they use.

    An App brings its database, its queues and its grace; options win over what it says.

    With --listen, --exec or --each, programs in any language perform the tasks of the queues (docs/guides/workers.md); then no workflow need be named.

    SIGTERM or Ctrl-C stops it gracefully: nothing new begins, and steps in flight may end. A second signal stops it at once. Nothing is lost either way.
    """
    import asyncio

    from perdure.cli import terminal_text
    from perdure.cli.targets import served_code
    from perdure.code.durations import duration_seconds
    from perdure.observe.observation import observation_of
    from perdure.runtime.server import SHUTDOWN_GRACE_S, serve
    from perdure.service.secrets.secret_resolver import secret_resolver_for
    from perdure.service.service_workflows import engine_options
    from perdure.service.triggers.clock_watch import ClockWatch

    broker = task_broker_of(queues, given, tenants or None)
    if not targets and broker is None:
        raise click.UsageError("Missing argument 'TARGET...'.")
    code, db, codec, queues = served_code(settings, targets, queues, given)
    grace_s = max((app.grace_s for app in code.apps), default=SHUTDOWN_GRACE_S) if grace is None else duration_seconds(grace, "--grace")
    if (lease_s := duration_seconds(given["lease"], "--lease")) < LEASE_S_MIN:
        raise click.UsageError(f"--lease {given['lease']} is too short: a busy worker would count as dead. It is at least {LEASE_S_MIN:g}s.")
    settings.log("perdure")
    observation = observation_of(given)

    def ready(engine: Engine | None) -> None:
        place = terminal_text.without_passwords(settings.url()) if isinstance(db, str | None) else "the store of its App"
        if engine is not None:
            served = ("" if broker else _served_queues(queues)) + (f", for {', '.join(tenants)}" if tenants else "")
            click.echo(f"engine {engine.holder} on {place} knows {known_text(engine)}{served}; Ctrl-C stops it")
        if broker is not None:
            click.echo(f"{broker}{'' if engine is not None else f', from {place}; Ctrl-C stops it'}")

    if given["concurrency"] and not queues:
        raise click.UsageError("--concurrency needs queues: name them with --queue")
    workflows = [*(one.code for one in code.workflows), *(hosted_workflows(code, given) if targets else ())]
    how: dict[str, Any] = {"queues": queues, "tenants": tenants or None, "declares": code.queues, "concurrency": given["concurrency"]}
    how |= {"db": db, "codec": codec, "grace_s": grace_s, "lease_s": lease_s, "observer": observation.observer, "engine_options": engine_options}
    how["listeners"] = (*observation.listeners, lambda store: ClockWatch(store, workflows, tenant=settings.tenant, tenants=tenants or None))
    asyncio.run(serve(workflows, code.steps, **how, ready=ready, secrets=secret_resolver_for, task_server=broker and broker.observed(observation.observer)))


def _served_queues(queues: tuple[str, ...]) -> str:
    return f", serves {', '.join(queues)}" if queues else ""
