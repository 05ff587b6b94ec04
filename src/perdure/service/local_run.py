"""Runs an execution in the engine of a script: starts it there, or has the one of its key go on, and waits for its end."""

from perdure.runtime.engine import Engine
from perdure.runtime.local_engine import resume_if_diverged, run_to_end, wait_for_end
from perdure.service import execution_operations
from perdure.service.execution_operations import StartRequest
from perdure.service.store_access import StoreAccess


async def run_in_engine(engine: Engine, start: StartRequest) -> bytes:
    """Return the encoded result of an execution that `engine` runs; one that exists goes on, and one that has ended has its result already.

    Raises:
        InputDiffers: the start is a strict one, and there is one of another input.
        ExecutionFailed, DeadlineExceeded, ExecutionCancelled, NeedsAttention: see `finished`.
    """
    begins_at_once = not (start.delay_s or start.strict or start.attributes or start.ttl_s is not None or any(start.place))
    if begins_at_once:  # by the engine itself, which saves a commit
        return await run_to_end(engine, start.key, start.input)
    _, created = await execution_operations.start_execution(StoreAccess(engine.store), start)
    return await wait_for_end(engine, start.key, 0 if created else await resume_if_diverged(engine, start.key))
