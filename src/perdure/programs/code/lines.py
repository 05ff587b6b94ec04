"""The workflow's logger: lines reach the process's log once the commit that they belong to is durable, and are silent on replay."""

from typing import Any

from perdure.programs.code.instance import Instance

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
"""The levels of the standard library's logging."""


class Lines:
    """`ctx.log`: the usual levels; fields go by keyword."""

    __slots__ = ("_instance",)

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def debug(self, line: str, **fields: Any) -> None:
        """Log for those who look for a fault."""
        self._instance.say(DEBUG, line, fields)

    def info(self, line: str, **fields: Any) -> None:
        """Log what is as it should be."""
        self._instance.say(INFO, line, fields)

    def warning(self, line: str, **fields: Any) -> None:
        """Log what somebody may want to look at."""
        self._instance.say(WARNING, line, fields)

    def error(self, line: str, **fields: Any) -> None:
        """Log what somebody must look at."""
        self._instance.say(ERROR, line, fields)
