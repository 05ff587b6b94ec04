"""Replaying the logs of the corpus: the program of each execution, without its document, fed its log."""

from collections.abc import Mapping, Sequence

from perdure.core import log
from perdure.core.errors import Diverged
from perdure.core.execution import Execution
from perdure.core.paths import Key, Path, text
from perdure.core.rebuild import rebuild
from perdure.programs.code.instance import Instance as CodeInstance
from perdure.programs.graph.instance import Instance as GraphInstance
from perdure.programs.workflows import Instance, Workflow, program
from perdure.runtime.known import OWN
from tests.core.stories import driven
from tests.corpus import definitions, workflows

NAMES = (*workflows.CASES, *definitions.CASES)
"""All cases, of code and of definitions."""


def workflow(case: str, key: Key) -> Workflow:
    """The workflow of an execution of a case. A definition has its tools only: its document comes from the log."""
    known: list[Workflow] = [*OWN]
    known += [one.code for one in workflows.CASES[case].workflows] if case in workflows.CASES else definitions.pinned(case, key.workflow)
    return next(one for one in known if one.name == key.workflow)


def replayed(one: Instance, key: Key, root: Key, rows: Sequence[bytes], blobs: Mapping[str, bytes]) -> tuple[Execution, Diverged | None]:
    """Feed the rows of a log to a new program; return the execution, and how the program diverged."""
    execution = Execution(key, root)
    diverged, _ = driven(rebuild(execution, log.decode_all(rows), one), blobs)
    return execution, diverged


def waits_for(one: Instance, path: Path) -> bool:
    """Whether a program waits for the operation at `path`."""
    assert isinstance(one, CodeInstance | GraphInstance)
    return one.log.waits_at(path) if isinstance(one, GraphInstance) else path in one._waiting


def opens(case: str, key: Key, root: Key, rows: Sequence[bytes], blobs: Mapping[str, bytes]) -> list[str]:
    """What is open behind each row, as the log says it, marked with ``*`` where the program waits for it.

    Raises:
        Diverged: the program diverged.
    """
    found = []
    for end in range(1, len(rows) + 1):
        one = program(workflow(case, key), key)
        execution, diverged = replayed(one, key, root, rows[:end], blobs)
        if diverged is not None:
            raise diverged
        found.append(" ".join(text(path) + "*" * waits_for(one, path) for path in execution.open))
        one.close()
    return found
