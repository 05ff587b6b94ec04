"""LangGraph on Perdure's database: `Checkpointer` keeps the checkpoints of graphs in the store that has your executions.

    graph = builder.compile(checkpointer=Checkpointer("sqlite:///shop.db"))

`durable_node` makes a node of a workflow. `checkpointer` has the class that LangGraph calls, and `checkpoint_records` says how checkpoints are kept as records.
"""

from perdure.core.errors import MissingExtra

try:
    from perdure.langgraph.checkpointer import Checkpointer
    from perdure.langgraph.durable_node import durable_node
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
        raise
    raise MissingExtra("perdure.langgraph", "langgraph 1.2 or later", "langgraph") from missing

__all__ = ["Checkpointer", "durable_node"]
