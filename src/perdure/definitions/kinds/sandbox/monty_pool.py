"""The pool of Python interpreters: `pydantic-monty`, which runs each in a process of its own, without files, network or processes.

Sleeping takes no time, and each piece of source gets a fresh interpreter with limits of its own. A busy interpreter does not notice that its parent has died
and would run up to its own limit; the orphan killer, a small process, kills the interpreters once this process has ended, however it ended.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from perdure.core.errors import MissingExtra, SandboxFailed, SandboxLost
from perdure.supervision.orphan_killer import OrphanKiller

WAIT_S = 60.0
"""How long a piece of source waits for an interpreter."""

ANSWER_MAX_S = 65.0
"""An interpreter that does not answer for so long is killed, whatever its own limit is."""

_lock = threading.Lock()
_pools: dict[int, Any] = {}
_orphan_killers: dict[int, OrphanKiller] = {}
_began: list[int] = []
"""The process that has begun a sandbox. A forked child can't begin another: the threads that it takes did not come along."""


def monty_library(what: str) -> ModuleType:
    """The module `pydantic_monty`.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import pydantic_monty
    except ImportError:
        raise MissingExtra(what, "pydantic-monty", "sandbox") from None
    return pydantic_monty


@contextmanager
def monty_session(library: ModuleType, limits: Mapping[str, Any], policy: Mapping[str, Any]) -> Iterator[Any]:
    """An interpreter with these limits, in a process that no other job uses meanwhile.

    Raises:
        SandboxLost: all interpreters are busy, or this process was forked from one that has interpreters.
    """
    fixed = {"max_suspensions": 1, "max_total_sleep_secs": 0}
    try:
        with _pool(library).checkout(limits={**fixed, **limits}, os_policy={"sleep": "zero", **policy}) as session:
            _watch(session.worker_pid)
            yield session
    except TimeoutError:
        raise SandboxLost(f"all sandboxes for Python were busy for {WAIT_S:g} s") from None


def crash_error(language: str, crash: Any) -> SandboxFailed | SandboxLost:
    """The error for an interpreter that died: it was killed from outside, or it crashed by itself and would again."""
    if crash.exit_status is None and any(name in str(crash) for name in ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")):
        return SandboxLost(f"the sandbox of the {language} was ended from outside ({crash})")
    return SandboxFailed(language, str(crash))


def is_forked() -> bool:
    """Whether this process was forked from one that has started interpreters, and can therefore start none."""
    return bool(_began) and os.getpid() not in _began


def close_monty_pool() -> None:
    """Ends the interpreters of this process; the next piece of source starts new ones."""
    with _lock:
        pool, orphan_killer = _pools.pop(os.getpid(), None), _orphan_killers.pop(os.getpid(), None)
    if pool is not None:
        pool.__exit__(None, None, None)
    if orphan_killer is not None:
        orphan_killer.close()


def _watch(process: int | None) -> None:
    """Has a process killed when this one ends."""
    if process is None:
        return
    with _lock:
        if os.getpid() not in _orphan_killers:
            _orphan_killers[os.getpid()] = OrphanKiller()
        _orphan_killers[os.getpid()].watch(process)


def monty_processes_max() -> int:
    """The largest number of interpreters."""
    return max(4, os.cpu_count() or 1)


def _pool(library: ModuleType) -> Any:
    process = os.getpid()
    with _lock:
        if is_forked():
            raise SandboxLost("this process was forked from one that has its sandboxes; start processes by spawn, or run Python in the parent")
        if process not in _pools:
            _began[:] = [process]
            _pools[process] = library.Monty(checkout_timeout=WAIT_S, request_timeout=ANSWER_MAX_S, max_processes=monty_processes_max())
            _pools[process].__enter__()
            atexit.register(close_monty_pool)
        return _pools[process]
