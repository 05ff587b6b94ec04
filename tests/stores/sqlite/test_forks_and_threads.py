"""Claims about the order in which a forking thread takes what it must hold during the fork."""

import os
import warnings
from pathlib import Path
from threading import Event, Thread

from perdure.stores.sqlite.forks_and_threads import unwatch_forks, watch_forks
from perdure.stores.sqlite.process_liveness import watch_process


class StoreInUse:
    """A store that becomes idle when it is told to."""

    def __init__(self) -> None:
        self.pausing, self.idle = Event(), Event()

    def pause(self) -> None:
        """See `Forkable.pause`."""
        self.pausing.set()
        self.idle.wait()

    def resume(self) -> None:
        """See `Forkable.resume`."""

    def abandon(self) -> None:
        """See `Inheritable.abandon`."""


def fork() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def test_a_store_that_a_fork_waits_for_can_still_watch_another_process(tmp_path: Path) -> None:
    store = StoreInUse()
    watch_forks(store)
    forking = Thread(target=fork)
    forking.start()
    assert store.pausing.wait(10)
    unwatches: list[object] = []
    watching = Thread(target=lambda: unwatches.append(watch_process(tmp_path / "1-0123456789abcdef", lambda: None)), daemon=True)
    watching.start()
    watching.join(10)
    try:
        assert unwatches, "the fork waits for the store, and the store for the fork"
    finally:
        unwatch_forks(store)
        store.idle.set()
        forking.join()
