"""Loads the definitions that an `App` names: directories, globs, files, and definitions that are loaded already. Each may call all others."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from perdure.core.errors import BadValue
from perdure.definition_workflow import Definition
from perdure.definitions.graph.requirements import requirements_of
from perdure.workflow_function import Workflow

SUFFIXES = (".yaml", ".yml", ".json")
"""How the names of definitions end, of all files in a directory."""

DefinitionSource = str | Path | Definition


def load_definitions(
    sources: DefinitionSource | Iterable[DefinitionSource], calls: Sequence[Workflow[..., Any]], options: Mapping[str, Any]
) -> list[Definition]:
    """The definitions that these are, in their order; those that are called are loaded before those that call them. `options` are those of `Definition.of`.

    Raises:
        BadDefinition: one is not valid.
        BadValue: there is no such file, no definition in a directory, or two have one name.
    """
    given = [sources] if isinstance(sources, DefinitionSource) else list(sources)
    loaded = [one for one in given if isinstance(one, Definition)]
    files = [file for one in given if not isinstance(one, Definition) for file in _files_of(one)]
    callable_already = [*calls, *loaded]
    found = {file: Definition.load(file, calls=callable_already, **options) for file in dict.fromkeys(files)}
    _expect_distinct([*loaded, *found.values()])
    for file in _callees_first(found):
        callees = [found[other] for other in _called(found[file], found) if other != file]
        if callees:
            found[file] = Definition.load(file, calls=[*callable_already, *callees], **options)
    return [*loaded, *found.values()]


def _files_of(source: str | Path) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
        expected = f"a directory with definitions in it: files that end in {', '.join(SUFFIXES)}"
    elif path.is_file():
        found, expected = [path], ""
    else:
        found = sorted(map(Path, glob.glob(str(source), recursive=True)))  # noqa: PTH207  # a pattern may be absolute, and Path.glob takes none that is
        expected = f"a file, a directory, or a pattern that some file matches, seen from {Path.cwd()}"
    if not found:
        raise BadValue("App(definitions=…)", str(source), expected)
    return found


def _expect_distinct(definitions: Sequence[Definition]) -> None:
    names: dict[tuple[str, str], Definition] = {}
    for one in definitions:
        version = str(one.read.canonical.get("version", ""))
        if names.setdefault((one.code.name, version), one) is not one:
            raise BadValue("App(definitions=…)", one.code.name, "the name of one definition of a version; give the others another name or version")


def _called(one: Definition, found: Mapping[Path, Definition]) -> list[Path]:
    names = {need.name for need in requirements_of(one.ir) if need.what == "workflow"}
    return [file for file, other in found.items() if other.code.name in names]


def _callees_first(found: Mapping[Path, Definition]) -> list[Path]:
    """The files in an order in which each comes after those that it calls; as they stand, if some call each other."""
    try:
        return list(TopologicalSorter({file: [other for other in _called(one, found) if other != file] for file, one in found.items()}).static_order())
    except CycleError:
        return list(found)
