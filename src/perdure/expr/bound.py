"""What an expression is given of the steps: those that it names, and of each what it asks for, the data or what ``.output`` leads to."""

from collections.abc import Iterable
from typing import Any

from perdure.core.errors import BadExpression
from perdure.expr.refs import Path, Read, Scope
from perdure.expr.values import cut

OUTPUT = "output"
Steps = dict[str, tuple[bool, bool]]
"""By the name of a step, whether its data is asked for, and whether its envelope is."""


def named(paths: Iterable[Path], written: str, where: str) -> Steps:
    """The steps that paths from @steps begin with.

    Raises:
        BadExpression: one begins with no name.
    """
    found: Steps = {}
    for path in paths:
        if not path or type(path[0]) is not str:
            raise BadExpression(where, f"{cut(written)!r} asks for all steps", "only steps that are named are given: write the name of one first")
        data, envelope = found.get(path[0], (False, False))
        found[path[0]] = (data or path[1:2] != (OUTPUT,), envelope or path[1:2] == (OUTPUT,))
    return found


def read(path: Path, where: str) -> Read:
    """What a path from @steps reads."""
    rest = path[1:]
    return Read("steps", str(path[0]), rest[1:], where) if rest[:1] == (OUTPUT,) else Read("step", str(path[0]), rest, where)


def given(scope: Scope, steps: Steps) -> dict[str, Any]:
    """Those steps, as far as they have a result. Data that is a mapping and asked for beside the envelope has this in it as ``output``."""
    found: dict[str, Any] = {}
    for name, (data, envelope) in steps.items():
        try:
            value = scope.step(name) if data else {}
            if envelope:
                value = {**(value if type(value) is dict else {}), OUTPUT: scope.envelope(name)}
        except KeyError:
            continue
        found[name] = value
    return found
