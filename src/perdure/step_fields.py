"""Says in the records of `logging` which execution and which step wrote them."""

import logging

from perdure.code.step_environment import current_step
from perdure.core.paths import path_text


class StepFields(logging.Filter):
    """A filter that adds to each record the fields `execution` (a key as text), `step` (a path) and `attempt`, for the formatter of the same handler.

    Outside of steps, the texts are empty and the attempt is 0; a line that a workflow logs has its execution::

        handler.addFilter(StepFields())
        handler.setFormatter(Formatter("%(levelname)s %(execution)s %(step)s %(message)s"))
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds the fields, and lets the record pass."""
        info = current_step.get(None)
        own = str(getattr(record, "execution", ""))
        record.execution, record.step, record.attempt = (own, "", 0) if info is None else (str(info.execution), path_text(info.path), info.attempt)
        return True
