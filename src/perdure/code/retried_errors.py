"""The errors that a call retries, by the names of their classes, as they travel with the task of a call to a worker in another process.

A worker has the step as it is declared. What the call says in its place, about which errors are retried, is matched there along the bases of an error. A class
is named by its module and its qualified name; the module of a script, which has another name in the process that imports it, is not compared.
"""

import dataclasses
from collections.abc import Iterable
from functools import partial

import msgspec

from perdure.code.declarations import Retry, Step
from perdure.core.error_codes import error_code
from perdure.core.operations import Failure, Outcome, RetriedErrors

MAIN = "__main__"


def step_of_task(step: Step[..., object, object], errors: RetriedErrors) -> Step[..., object, object]:
    """Returns the step with the errors of a call: in addition to those that it declares, or in their place."""
    declared = step.retry if errors.adds else Retry()
    return dataclasses.replace(step, retry=dataclasses.replace(step.retry, only=(), fatal=(), should_retry=partial(_is_retried, declared, errors)))


def _is_retried(declared: Retry, errors: RetriedErrors, error: BaseException) -> bool:
    kinds = type(error).__mro__
    may = not any(_is_named(kind, errors.fatal) for kind in kinds) and (not errors.only or any(_is_named(kind, errors.only) for kind in kinds))
    return may and declared.again(error)


def _is_named(kind: type, names: Iterable[str]) -> bool:
    for name in names:
        if name in (f"{kind.__module__}.{kind.__qualname__}", kind.__name__, error_code(kind) if issubclass(kind, BaseException) else ""):
            return True
        if MAIN in (kind.__module__, name.partition(".")[0]) and f".{name}".endswith(f".{kind.__qualname__}"):
            return True
    return False


def classified_outcome(outcome: Outcome, errors: RetriedErrors | None) -> Outcome:
    """Returns the outcome of an attempt by a program in another language: final, if the call does not retry errors of this type.

    Of an error, only the name of its class is known.
    """
    if errors is None or not isinstance(outcome, Failure) or outcome.kind != "failed":
        return outcome

    def is_among(names: Iterable[str]) -> bool:
        return any(f".{one}".endswith(f".{outcome.error.type}") for one in names)

    is_retried = not is_among(errors.fatal) and (not errors.only or is_among(errors.only))
    return outcome if is_retried else msgspec.structs.replace(outcome, kind="fatal", after_s=None)
