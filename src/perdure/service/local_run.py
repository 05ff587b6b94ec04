"""Runs one execution in an engine of the calling process: starts it, or continues the one that exists, and waits for its end."""

from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import resume_if_diverged, run_to_end, wait_for_end
from perdure.runtime.workflow_programs import Workflow
from perdure.service import execution_operations
from perdure.service.execution_operations import StartRequest
from perdure.service.store_access import StoreAccess


async def run_in_engine(engine: Engine, start: StartRequest, workflow: Workflow | None = None) -> bytes:
    """Runs an execution and returns its encoded result. If one of this key exists, it continues; if it has ended, its result is returned.

    `workflow` is the workflow to start, in case the engine knows another one of its name.

    Raises:
        InputDiffers: the start is strict, and one exists with another input.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: it ended, or parked, without a result.
    """
    if execution_operations.begins_at_once(start) and not start.attributes:
        return await run_to_end(engine, start.key, start.input, workflow, start.carried)
    _, created = await execution_operations.start_execution(StoreAccess(engine.store), start)
    if not created:
        await engine.claim_now()
    return await wait_for_end(engine, start.key, 0 if created else await resume_if_diverged(engine, start.key))
