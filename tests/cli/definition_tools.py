"""Tools of the definitions of the tests of the command line; imported by path, as users' files are."""

from perdure import Retry, step


def add(x: int, y: int) -> int:
    return x + y


@step(retry=Retry(max=2, wait="1ms", jitter=0))
def boom() -> None:
    raise ValueError("boom")


def _hidden() -> None:
    raise AssertionError("what is not public is no tool")
