"""The kind `pipeline`: operations on tables, one after the other: ask, filter, sort, select, group, join, transform. Rows are JSON mappings.

``await run(ops, rows)`` is its plain face; `kind` its place in definitions; `composites` finds pipelines that were used before.
"""

from perdure.definitions.kinds.pipeline.pipeline_limits import OperationFailed, PipelineFailed
from perdure.definitions.kinds.pipeline.pipeline_runner import run

__all__ = ["OperationFailed", "PipelineFailed", "run"]
