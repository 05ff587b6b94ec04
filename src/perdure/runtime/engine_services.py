"""The services of an engine that the decision loop and the calls in flight need.

The engine imports both. They name this protocol in place of the engine, so that neither imports it back.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextvars import Context
from typing import Any, Protocol

from perdure.core.decision import DecisionContext
from perdure.core.messages import ExecutionMessage
from perdure.core.paths import Key
from perdure.definitions.graph.graph_workflow import GraphWorkflow
from perdure.runtime.announcer import Announcer
from perdure.runtime.blob_loader import BlobCache
from perdure.runtime.call_secrets import SecretSource
from perdure.runtime.observer import Observer
from perdure.runtime.replies import ReplyWaits
from perdure.runtime.resident_executions import ResidentExecution
from perdure.runtime.step_runner import StepRunner
from perdure.runtime.store_clock import StoreClock
from perdure.runtime.unbegun_attempts import UnbegunAttempts
from perdure.runtime.workflow_programs import Workflow
from perdure.stores.protocol import Store


class EngineServices(Protocol):
    """The store, clock and registrations of an engine, and the methods that its parts call on it. `Engine` documents each."""

    store: Store
    clock: StoreClock
    decision_context: DecisionContext
    payloads: BlobCache
    workflows: Mapping[str, Workflow]
    releases: dict[tuple[str, str], GraphWorkflow]
    secrets: SecretSource | None
    observer: Observer | None
    announcer: Announcer | None
    variables: Context
    threads: Executor | None
    perform: StepRunner
    replies: ReplyWaits
    unbegun: UnbegunAttempts
    settled_messages: set[tuple[Key, int]]
    stopping: bool

    @property
    def holder(self) -> str:
        """The name under which the engine holds executions at present."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of the store that the engine works in."""
        ...

    def held_since(self, since_s: float) -> bool:
        """Whether the lease of the engine has surely held since then."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs `work` as a task that ends with the engine."""
        ...

    def deliver(self, resident: ResidentExecution, message: ExecutionMessage) -> None:
        """Adds a message that does not come from the store, and schedules the execution."""
        ...

    def schedule(self, resident: ResidentExecution) -> None:
        """Has an execution advanced with the messages that it has received."""
        ...

    def begin(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Performs an attempt: `attempt` makes its coroutine."""
        ...
