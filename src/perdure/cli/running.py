"""The commands that make executions go on: `run`, `start`, `worker`."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import nullcontext
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import click

from perdure.cli import lending, places
from perdure.cli.exits import Exit, Outcome
from perdure.cli.root import Command
from perdure.cli.settings import F, Settings, input_options, value_format

if TYPE_CHECKING:
    from perdure.async_client import AsyncClient
    from perdure.client import Status
    from perdure.core.paths import Key
    from perdure.runtime.engine import Engine
    from perdure.sdk import Workflow

ARGUMENTS = """Arguments are JSON where they parse ('3', 'true', '{"a": 1}'), else text. A definition takes its input by name."""

AT_REST = ("waiting", "waiting_approval", "paused", "needs_attention")
"""How an execution stands that goes on only when something comes to it."""

TREE_MAX = 10_000
"""How many executions are looked at that one has called, for whether all of them wait."""

LOOK_S = 0.05
"""How often is looked whether an execution waits for an approval."""


def tool_options(command: F) -> F:
    """What a definition may use."""
    command = click.option("--calls", multiple=True, metavar="FILE", help="A definition that one may call; it may itself call those named before it.")(command)
    said = "Where a definition has its tools: the steps, public functions and workflows of FILE.py or a module."
    return click.option("--tools", multiple=True, metavar="PLACE", help=said)(command)


@click.command("run", cls=Command, epilog=ARGUMENTS)
@click.argument("target")
@input_options
@tool_options
@places.options
@click.option("--id", help="Its id: run again, the same execution goes on, and one that has ended returns its result.")
@click.option("--wait/--no-wait", default=True, help="Wait while it waits for an approval (the default), or end the command then.")
@click.option("--watch", is_flag=True, help="Show its steps as they go, on standard error.")
@value_format
@click.pass_obj
def run(settings: Settings, /, *, target: str, id: str | None, wait: bool, watch: bool, format: str, **given: Any) -> None:
    """Run a workflow to its end, in this process.

    TARGET is FILE.py, FILE.py:workflow or module:workflow, or a definition: FILE.yaml, FILE.json, or - for standard input. Its result is printed.
    Interrupted or killed, it goes on when it is run again with its id.
    """
    from perdure.cli import output, targets
    from perdure.cli.complaints import complaint_lines, name
    from perdure.cli.watching import watching

    if settings.tenant != "default":
        raise Outcome(Exit.FLAGS, "run works for the tenant 'default' alone\nperdure --tenant NAME start, with a worker, is for any")
    workflow = targets.workflow(target, given["tools"], given["calls"], places.place(given))
    args, kwargs = _input(target, workflow, given)
    key = workflow.key(uuid4().hex if id is None else id)
    settings.log("perdure.workflow")
    try:
        with watching(settings, key) if watch else nullcontext():
            result = _run(settings, workflow, (args, kwargs), key, wait)
    except KeyboardInterrupt:
        again = f"perdure run {quote(target)} ... --id {quote(key.id)}"
        click.echo(f"perdure: {complaint_lines(f'{name(key)} was interrupted', f'{again} goes on with it')}", err=True)
        raise
    output.value(result, format)


def _input(target: str, workflow: Workflow[..., Any], given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The input of a workflow that is about to be run here; what does not fit is refused before there is an execution."""
    from perdure.cli import documents, values
    from perdure.definition import Definition
    from perdure.programs.inputs import encoded

    if isinstance(workflow, Definition):
        if documents.is_one_input(target, given["source"]):
            raise click.UsageError("the definition is read from standard input, and so can't be its input: give that in a file, or with -i")
        documents.expect_needs(workflow)
        args, kwargs = documents.arguments(workflow, given)
    else:
        args, kwargs = values.arguments(given, values.parameters(workflow.code.fn))
    _ = encoded(workflow.code, args, kwargs, "run")
    return args, kwargs


def _run(settings: Settings, workflow: Workflow[..., Any], input: tuple[list[Any], dict[str, Any]], key: Key, waits: bool) -> Any:
    args, kwargs = input
    chosen = workflow.with_(id=key.id, db=settings.db)
    if waits:
        return chosen.run(*args, **kwargs)
    import asyncio

    return asyncio.run(_until_asked(settings, chosen.arun(*args, **kwargs), key))


async def _until_asked(settings: Settings, running: Coroutine[Any, Any, Any], key: Key) -> Any:
    """What it returns; once it waits for an approval, the command ends."""
    import asyncio

    from perdure.async_client import AsyncClient
    from perdure.cli.asking import not_ended
    from perdure.core.errors import NotFound

    task = asyncio.ensure_future(running)
    async with AsyncClient(settings.db) as client:
        while not (await asyncio.wait({task}, timeout=LOOK_S))[0]:
            try:
                asking = await _asking(client, key)
            except NotFound:  # it is about to be started
                continue
            if asking is not None:
                task.cancel()
                _ = await asyncio.wait({task})
                raise not_ended(asking)
    return await task


@click.command("start", cls=Command, epilog=ARGUMENTS)
@click.argument("workflow")
@input_options
@tool_options
@places.blobs_option
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
def start(settings: Settings, /, *, workflow: str, wait: bool, timeout: str | None, watch: bool, format: str, **given: Any) -> None:
    """Start a workflow; an engine that knows it, somewhere, runs it.

    WORKFLOW is its name, or a target (FILE.py, FILE.py:workflow, module:workflow, FILE.yaml, FILE.json or -), whose arguments are then checked here. Its key
    is printed.
    """
    from perdure.cli import documents, output
    from perdure.cli.asking import known, unknown, waited
    from perdure.cli.complaints import name
    from perdure.cli.watching import watching

    asked = _asked(workflow, given)
    with settings.client(creates=True) as client:
        meant = client.workflow(asked.workflow) if isinstance(asked.workflow, str) else asked.workflow
        handle = client.start(meant.with_(**asked.options, tenant=settings.tenant), *asked.args, **asked.kwargs)
        if not wait and not watch:
            output.value({**handle.key._asdict(), "created": handle.created} if format == "json" else name(handle.key), format)
        if not handle.created:
            click.echo(f"perdure: {name(handle.key)} exists already; nothing was started", err=True)
        if (program := unknown(handle.summary(), known(client))) is not None:
            what = "FILE.yaml --tools FILE.py" if documents.is_document(workflow) else "FILE.py"
            click.echo(f"perdure: no engine here knows {program}, so it waits\nperdure worker {what} starts one", err=True)
        if wait or watch:
            with watching(settings, handle.key) if watch else nullcontext():
                result = waited(handle, timeout)
            output.value(result, format)


async def _asking(client: AsyncClient, key: Key) -> Status | None:
    """How that execution stands, itself or one that it has called, that waits for a person; None as long as anything in it goes on without one.

    Nothing does if each has begun, waits, and has no message that an engine is yet to take, such as a decision.
    """
    from perdure.runtime.endings import ENDED
    from perdure.stores.base import Filter

    store = client._store
    root = (await client.get(key)).key
    found = await store.heads(Filter(root=root, limit=TREE_MAX))
    now_s = (await store.moment()).now_s
    alive = [head for head in found if head.status not in ENDED]
    if any(head.status not in AT_REST or not head.version or (head.mail_at_s is not None and head.mail_at_s <= now_s) for head in alive):
        return None
    for head in alive:
        if any(mail.due_at_s <= now_s for mail in await store.mail(head.key)):
            return None
    asking = next((head for head in sorted(alive, key=lambda one: one.key != root) if head.status == "waiting_approval"), None)
    if asking is None or not await _can_be_answered(client, asking.key):
        return None
    return await (await client.get(asking.key)).status()


async def _can_be_answered(client: AsyncClient, key: Key) -> bool:
    """Whether all approvals for which an execution waits have begun, so that they can be decided when nobody runs it."""
    from perdure.cli.approving import ALL
    from perdure.core.ops import APPROVAL

    wanted = [step for step in await (await client.get(key)).steps() if step.settled_at_s is None and (step.kind == "approve" or step.target == APPROVAL)]
    begun = [one for one in await client.approvals(limit=ALL, tenant=key.tenant) if one.asked_by == key]
    return 0 < len(wanted) <= len(begun)


class _Asked(NamedTuple):
    """What is to be started: a workflow, or what one is called, with its input and with options."""

    workflow: Any
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]


def _asked(workflow: str, given: dict[str, Any]) -> _Asked:
    from perdure.cli import documents, targets, values
    from perdure.definition import Definition

    options = {name: given[name] for name in ("id", "delay", "deadline", "queue", "lane", "priority", "ttl", "debounce", "singleton", "strict")}
    target = targets.workflow(workflow, given["tools"], given["calls"], places.elsewhere(given["blobs"])) if targets.is_target(workflow) else None
    options["attributes"] = values.attributes(given["attributes"]) or None
    if isinstance(target, Definition):
        args, kwargs = documents.arguments(target, given)
    else:
        args, kwargs = values.arguments(given, [] if target is None else values.parameters(target.code.fn))
    options = {name: value for name, value in options.items() if value not in (None, False)}
    return _Asked(workflow if target is None else target, args, kwargs, options)


@click.command("worker", cls=Command)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@tool_options
@places.options
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Also do the steps that wait on this queue.")
@lending.options
@click.option("--grace", default="30s", show_default=True, metavar="TIME", help="How long steps may take to end, once it is told to stop.")
@click.pass_obj
def worker(settings: Settings, /, *, targets: tuple[str, ...], queues: tuple[str, ...], grace: str, **given: Any) -> None:
    """Run all workflows of some files or modules, and definitions (FILE.yaml, FILE.json), until stopped.

    With --listen, --exec or --each, the work of the queues is not done here, but given to programs in any language (docs/guides/workers.md); then no
    workflow has to be named.

    SIGTERM or Ctrl-C stops it in good order: nothing new begins, what runs may end. A second one stops it at once. Nothing is lost either way.
    """
    import asyncio

    from perdure.cli import documents, words
    from perdure.cli.targets import Code
    from perdure.cli.targets import code as found
    from perdure.definition import Definition
    from perdure.programs.code.durations import seconds
    from perdure.runtime.serve import serve
    from perdure.service.secrets.chain import providers

    lends = lending.lends(queues, given)
    if not targets and lends is None:
        raise click.UsageError("Missing argument 'TARGET...'.")
    code = found(targets, given["tools"], given["calls"], places.place(given)) if targets else Code((), ())
    for definition in (one for one in code.workflows if isinstance(one, Definition)):
        documents.expect_needs(definition)
    grace_s = seconds(grace, "--grace")
    settings.log("perdure")

    def ready(engine: Engine | None) -> None:
        place = words.without_passwords(settings.url())
        if engine is not None:
            knows = ", ".join(f"{one.name}@{one.version}" for one in engine.known.values())
            served = "" if lends else _served(queues)
            click.echo(f"engine {engine.holder} on {place} knows {knows or 'no workflow'}{served}; Ctrl-C stops it")
        if lends is not None:
            click.echo(f"{lends}{'' if engine is not None else f', from {place}; Ctrl-C stops it'}")

    workflows = [one.code for one in code.workflows]
    how: dict[str, Any] = {"queues": queues, "declares": code.queues, "url": settings.db, "grace_s": grace_s}
    asyncio.run(serve(workflows, code.steps, **how, ready=ready, secrets=providers, lends=lends))


def _served(queues: tuple[str, ...]) -> str:
    return f", serves {', '.join(queues)}" if queues else ""
