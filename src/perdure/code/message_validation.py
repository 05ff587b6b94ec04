"""Decides whether a message is accepted: by the validator of its signal, and by that of the verb which receives it.

A rejection is recorded as the reply to the message, with a port of its own. So the log says which messages were rejected, and a replay calls no validator.
"""

from collections.abc import Callable, Sequence
from typing import Any

from perdure.code.declarations import Signal
from perdure.core.error_codes import error_code
from perdure.core.error_text import exception_text
from perdure.core.errors import ErrorInfo, ProgrammingError, Undecodable

Validator = Callable[[Any], object]

REJECTED_PORT = "rejected"


def validators_of(signal: Signal[Any] | None, validate: Validator | None) -> tuple[Validator, ...]:
    """Returns the validators of a receive, in the order in which they are called."""
    return tuple(one for one in (None if signal is None else signal.validate, validate) if one is not None)


def rejection_of(validators: Sequence[Validator], body: Callable[[], Any]) -> ErrorInfo | None:
    """Returns why a message with this `body` is rejected; None if it is accepted. One whose body does not fit its type is rejected as well.

    Raises:
        ProgrammingError: a validator did what it may not do, such as calling a verb.
    """
    try:
        read = body()
        refused = next((one for one in validators if one(read) is False), None)
    except Undecodable as unfit:
        return ErrorInfo(Undecodable.code, unfit.why)
    except ProgrammingError:
        raise
    except Exception as error:  # it rejects the message with any exception
        return ErrorInfo(error_code(type(error)), exception_text(error))
    return None if refused is None else ErrorInfo("ValueError", "its body is not accepted")
