"""Replaying the logs of the corpus: the program of each execution, without its document, fed its log."""

from collections.abc import Mapping, Sequence

from perdure.code.code_program import CodeProgram
from perdure.core import log_format
from perdure.core.errors import Diverged
from perdure.core.execution import Execution
from perdure.core.paths import Key, Path, path_text
from perdure.core.replay import replay_program
from perdure.definitions.graph.graph_program import GraphProgram
from perdure.runtime.registrations import BUILT_IN_WORKFLOWS
from perdure.runtime.workflow_programs import Workflow, WorkflowProgram, program_of
from tests.core.scripted_execution import driven
from tests.corpus import definitions, workflows

NAMES = (*workflows.CASES, *definitions.CASES)
"""All cases, of code and of definitions."""


def workflow(case: str, key: Key, blobs: Mapping[str, bytes]) -> Workflow:
    """The workflow of an execution of a case. A definition has its tools only: its document comes from the log."""
    known: list[Workflow] = [*BUILT_IN_WORKFLOWS]
    known += [one.code for one in workflows.CASES[case].workflows] if case in workflows.CASES else definitions.pinned(case, key.workflow, blobs)
    return next(one for one in known if one.name == key.workflow)


def replayed(one: WorkflowProgram, key: Key, root: Key, rows: Sequence[bytes], blobs: Mapping[str, bytes]) -> tuple[Execution, Diverged | None]:
    """Feed the rows of a log to a new program; return the execution, and how the program diverged."""
    execution = Execution(key, root)
    diverged, _ = driven(replay_program(execution, log_format.decode_rows(rows), one), blobs)
    return execution, diverged


def waits_for(one: WorkflowProgram, path: Path) -> bool:
    """Whether a program waits for the operation at `path`."""
    assert isinstance(one, CodeProgram | GraphProgram)
    return one.run.log.waits_at(path) if isinstance(one, GraphProgram) else path in one._waiting


def opens(case: str, key: Key, root: Key, rows: Sequence[bytes], blobs: Mapping[str, bytes]) -> list[str]:
    """What is open behind each row, as the log says it, marked with ``*`` where the program waits for it.

    Raises:
        Diverged: the program diverged.
    """
    found = []
    for end in range(1, len(rows) + 1):
        one = program_of(workflow(case, key, blobs), key)
        execution, diverged = replayed(one, key, root, rows[:end], blobs)
        if diverged is not None:
            raise diverged
        found.append(" ".join(path_text(path) + "*" * waits_for(one, path) for path in execution.open))
        one.close()
    return found
