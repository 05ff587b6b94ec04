"""Threads that wait for something outside. A process that can have no more of them goes on without: slower, or told later."""

import logging
from collections.abc import Callable
from threading import Thread

logger = logging.getLogger("perdure.stores")


def started(work: Callable[..., None], name: str, *arguments: object) -> Thread | None:
    """A thread that does `work`, and that the process does not wait for at its end; None if there can be none."""
    thread = Thread(target=work, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        logger.warning("no thread could be started for %s: %s; let this process have more of them", name, error)
        return None
    return thread
