"""Runs one execution in an engine of the calling process: starts it, or continues the one that exists, and waits for its end."""

from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import resume_if_diverged, run_to_end, wait_for_end
from perdure.service import execution_operations
from perdure.service.execution_operations import StartRequest
from perdure.service.store_access import StoreAccess


async def run_in_engine(engine: Engine, start: StartRequest) -> bytes:
    """Runs an execution and returns its encoded result. If one of this key exists, it continues; if it has ended, its result is returned.

    Raises:
        InputDiffers: the start is strict, and one exists with another input.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: it ended, or parked, without a result.
    """
    begins_at_once = not (start.delay_s or start.strict or start.attributes or start.ttl_s is not None or any(start.place))
    if begins_at_once:  # the engine starts it itself, which saves a commit
        return await run_to_end(engine, start.key, start.input)
    _, created = await execution_operations.start_execution(StoreAccess(engine.store), start)
    return await wait_for_end(engine, start.key, 0 if created else await resume_if_diverged(engine, start.key))
