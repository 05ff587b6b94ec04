"""The commands that make executions go on: `run`, `start`, `worker`."""

from __future__ import annotations

from contextlib import nullcontext
from shlex import quote
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from perdure.cli.exits import Exit, Outcome
from perdure.cli.root import Command
from perdure.cli.settings import Settings, input_options, value_format

if TYPE_CHECKING:
    from perdure.client import Client, Handle
    from perdure.runtime.engine import Engine

ARGUMENTS = "Arguments are JSON where they parse ('3', 'true', '{\"a\": 1}'), else text."


@click.command("run", cls=Command, epilog=ARGUMENTS)
@click.argument("target")
@input_options
@click.option("--id", help="Its id: run again, the same execution goes on, and one that has ended returns its result.")
@click.option("--watch", is_flag=True, help="Show its steps as they go, on standard error.")
@value_format
@click.pass_obj
def run(settings: Settings, /, *, target: str, id: str | None, watch: bool, format: str, **given: Any) -> None:
    """Run a workflow to its end, in this process.

    TARGET is FILE.py, FILE.py:workflow or module:workflow. Its result is printed. Interrupted or killed, it goes on when it is run again with
    its id.
    """
    from perdure.cli import output, targets, values
    from perdure.cli.complaints import complaint_lines, name
    from perdure.cli.watching import watching
    from perdure.service.operations import encoded

    if settings.tenant != "default":
        raise Outcome(Exit.FLAGS, "run works for the tenant 'default' alone\nperdure --tenant NAME start, with a worker, is for any")
    workflow = targets.workflow(target)
    args, kwargs = values.arguments(given, values.parameters(workflow.code.fn), ("id", "db"))
    _ = encoded(workflow.code, args, kwargs)  # what does not fit is refused before there is an execution
    key = workflow.key(uuid4().hex if id is None else id)
    settings.log("perdure.workflow")
    try:
        with watching(settings, key) if watch else nullcontext():
            result = workflow.run(*args, **kwargs, id=key.id, db=settings.db)
    except KeyboardInterrupt:
        again = f"perdure run {quote(target)} ... --id {quote(key.id)}"
        click.echo(f"perdure: {complaint_lines(f'{name(key)} was interrupted', f'{again} goes on with it')}", err=True)
        raise
    output.value(result, format)


@click.command("start", cls=Command, epilog=ARGUMENTS)
@click.argument("workflow")
@input_options
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

    WORKFLOW is its name, or a target (FILE.py, FILE.py:workflow, module:workflow), whose arguments are then checked here. Its key is printed.
    """
    from perdure.cli import output
    from perdure.cli.asking import known, unknown, waited
    from perdure.cli.complaints import name
    from perdure.cli.watching import watching

    with settings.client(creates=True) as client:
        handle = _started(client, settings, workflow, given)
        if not wait and not watch:
            output.value({**handle.key._asdict(), "created": handle.created} if format == "json" else name(handle.key), format)
        if not handle.created:
            click.echo(f"perdure: {name(handle.key)} exists already; nothing was started", err=True)
        if (program := unknown(handle.status(), known(client))) is not None:
            click.echo(f"perdure: no engine here knows {program}, so it waits\nperdure worker FILE.py starts one", err=True)
        if wait or watch:
            with watching(settings, handle.key) if watch else nullcontext():
                result = waited(handle, timeout)
            output.value(result, format)


def _started(client: Client, settings: Settings, workflow: str, given: dict[str, Any]) -> Handle[Any]:
    from perdure.cli import targets, values

    options = {name: given[name] for name in ("id", "delay", "deadline", "queue", "lane", "priority", "ttl", "debounce", "singleton", "strict")}
    target = targets.workflow(workflow) if targets.is_target(workflow) else None
    options["attributes"] = values.attributes(given["attributes"]) or None
    args, kwargs = values.arguments(given, [] if target is None else values.parameters(target.code.fn), (*options, "tenant"))
    options = {name: value for name, value in options.items() if value not in (None, False)}
    return client.start(workflow if target is None else target, *args, **kwargs, **options, tenant=settings.tenant)


@click.command("worker", cls=Command)
@click.argument("places", nargs=-1, required=True, metavar="TARGET...")
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Also do the steps that wait on this queue.")
@click.option("--grace", default="30s", show_default=True, metavar="TIME", help="How long steps may take to end, once it is told to stop.")
@click.pass_obj
def worker(settings: Settings, /, *, places: tuple[str, ...], queues: tuple[str, ...], grace: str) -> None:
    """Run all workflows of some files or modules, until stopped.

    SIGTERM or Ctrl-C stops it in good order: nothing new begins, what runs may end. A second one stops it at once. Nothing is lost either way.
    """
    import asyncio

    from perdure.cli import targets, words
    from perdure.programs.code.durations import seconds
    from perdure.runtime.serve import serve

    code, grace_s = targets.code(places), seconds(grace, "--grace")
    settings.log("perdure")

    def ready(engine: Engine) -> None:
        knows = ", ".join(f"{one.name}@{one.version}" for one in engine.known.values())
        click.echo(f"engine {engine.holder} on {words.without_passwords(settings.url())} knows {knows or 'no workflow'}{_served(queues)}; Ctrl-C stops it")

    workflows = [one.code for one in code.workflows]
    asyncio.run(serve(workflows, code.steps, queues=queues, declares=code.queues, url=settings.db, grace_s=grace_s, ready=ready))


def _served(queues: tuple[str, ...]) -> str:
    return f", serves {', '.join(queues)}" if queues else ""
