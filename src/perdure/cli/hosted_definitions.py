"""Has the engine of a command run definitions of the catalog, with the tools and the permissions of its targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from perdure.cli.targets import TargetCode
    from perdure.runtime.engine import Engine
    from perdure.runtime.workflow_programs import Workflow
    from perdure.service.definition_folder import DefinitionFolder, FileChange
    from perdure.stores.protocol import Store

F = TypeVar("F", bound=Callable[..., Any])


def catalog_option(command: F) -> F:
    """Adds the option by which an engine leaves definitions of the catalog to others."""
    said = "Do not run definitions of the catalog. Otherwise they may use the steps of the targets, and --tools."
    return click.option("--no-catalog", is_flag=True, help=said)(command)


def hosted_workflows(code: TargetCode, given: Mapping[str, Any]) -> tuple[Workflow, ...]:
    """Returns what an engine needs to run definitions of the catalog; nothing with ``--no-catalog``, or if several Apps say different things about them.

    Their tools are the steps of the targets, the tools of an App among them, and those of ``--tools``. An App also says what they may reach.

    Raises:
        BadValue: two tools of an App have one name.
    """
    if given["no_catalog"] or len(code.apps) > 1:
        return ()
    from perdure.cli.definition_files import environment_of
    from perdure.cli.targets import load_tools
    from perdure.definition_host import definition_host
    from perdure.definition_workflow import Definition, tool_steps

    steps: dict[str, Any] = {step.name: step for step in code.steps}
    calls = [one for one in code.workflows if not isinstance(one, Definition)]
    deployment, policy, _ = environment_of(given)
    for app in code.apps:
        tools, deployment, policy = app.hosting
        steps |= tool_steps(tools)
    if given["tools"]:
        found = load_tools(given["tools"], deployment.models)
        steps |= tool_steps(found.steps)
        calls += found.workflows
    return definition_host(steps, calls=calls, deployment=deployment, policy=policy)


def folder_members(folders: Iterable[Path], tenant: str) -> list[Callable[[Store], DefinitionFolder]]:
    """Returns what makes, for a store, the members of a process that keep these folders of definitions in step with the catalog of a tenant."""
    from perdure.service.definition_folder import DefinitionFolder
    from perdure.service.store_access import StoreAccess

    def member(folder: Path) -> Callable[[Store], DefinitionFolder]:
        return lambda store: DefinitionFolder(StoreAccess(store), tenant, folder, print_file_change)

    return [member(folder) for folder in folders]


def print_file_change(change: FileChange) -> None:
    """Prints what happened to the definition of a watched file; a failure on standard error."""
    from perdure.cli import terminal_text

    click.echo("\n".join(map(terminal_text.clean, str(change).splitlines())), err=bool(change.error))


def known_text(engine: Engine) -> str:
    """What an engine runs, for people: its workflows, and whether it runs definitions of the catalog."""
    from perdure.core.program import CATALOG_PROGRAM
    from perdure.service.queries import INTERNAL_WORKFLOWS

    own = [f"{name}@{one.version}" for name, one in engine.known.items() if not name.startswith(CATALOG_PROGRAM) and name not in INTERNAL_WORKFLOWS]
    hosts = ["definitions of the catalog"] if CATALOG_PROGRAM in engine.known else []
    return ", ".join([*own, *hosts]) or "no workflow"
