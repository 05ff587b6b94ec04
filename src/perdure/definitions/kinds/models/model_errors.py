"""Failing: what an error of a provider comes to: whether asking again may help, and when at the earliest.

Fatal             asking again is useless
├── ModelRejected   the provider does not take the request: its form, or what it asks for
│   ├── ContextTooLong  ... because it is longer than the model can read
│   ├── KeyRefused      ... because of the key, or of what that may do
│   ├── MediaUnsupported ... because of an image or a file that the model can't read
│   ├── ModelNotFound   ... because the provider has no such model, or no such address
│   └── OutOfCredit     ... because the account has no credit
└── UnknownModel    nothing here is called so
    └── ModelKeyMissing ... or the secret with its key is missing
RetryAfter
└── ModelBusy       too many requests, or too many for the provider: it said when to come again
ModelUnavailable    the provider failed, did not answer in time, or answered what can't be read
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from perdure.core.errors import Fatal, RetryAfter
from perdure.definitions.kinds.models.model_messages import Attachment

RETRY_AFTER_S_MAX = 86_400.0
"""How long a provider may ask to wait; what asks for more is taken as this."""


class ModelRejected(Fatal):
    """The provider does not take the request, and would not the next time."""

    code = "model_rejected"


class ContextTooLong(ModelRejected):
    """The request is longer than the model can read."""

    code = "context_too_long"


class KeyRefused(ModelRejected):
    """The provider does not accept the key, or does not allow it what was asked for."""

    code = "model_key_refused"


class MediaUnsupported(ModelRejected):
    """The model can't read an image or a file of the request."""

    code = "model_media_unsupported"


class ModelNotFound(ModelRejected):
    """The provider has no such model, or nothing is at this address."""

    code = "model_not_found"


class OutOfCredit(ModelRejected):
    """The account has no credit left."""

    code = "model_out_of_credit"


class UnknownModel(Fatal):
    """Nothing where this runs is called so."""

    code = "unknown_model"


class ModelKeyMissing(UnknownModel):
    """The secret with the key of a model is missing in this process."""

    code = "model_key_missing"


class ModelBusy(RetryAfter):
    """The provider has too much to do, and said when to come again."""

    code = "model_busy"


class ModelUnavailable(Exception):
    """The provider failed, can't be reached, did not answer in time, or sent an answer that can't be parsed; a retry may succeed."""

    code = "model_unavailable"


def provider_error(error: Exception, name: str, key: str, media: Sequence[Attachment] = ()) -> Exception:
    """The error for an exception of the client library, for the model called `name` and a request with these `media`. No message contains the `key`."""
    import httpx2
    from pydantic_ai import exceptions as library

    text = _text(error, key)
    if media and _is_about_media(error, media):
        types = ", ".join(dict.fromkeys(repr(one.media_type) for one in media))
        return MediaUnsupported(
            f"{name}: the model can't read an attachment of the request: {text}. They are {types}; convert it, or use a model that reads it"
        )
    match error:
        case library.ModelContextWindowExceededError():
            return ContextTooLong(f"{name}: the request is longer than the model can read: {text}; send less, or use a model that reads more")
        case library.ModelAuthenticationError():
            return KeyRefused(f"{name}: the provider refuses the key, or what it may do: {text}; look at the secret that the model's entry names")
        case library.ModelNotFoundError():
            return ModelNotFound(f"{name}: the provider has no such model, or no such address: {text}; look at model, provider and base_url of its entry")
        case library.ModelQuotaExceededError():
            return OutOfCredit(f"{name}: the account has no credit left: {text}; top it up, and retry the execution")
        case library.ModelHTTPError(status_code=status) if status in (408, 409, 429) or status >= 500:
            return _later(f"{name}: the provider answered {status}: {text}", error.retry_after)
        case library.ModelRequestRejectedError() | library.ModelHTTPError() | library.UserError():
            return ModelRejected(f"{name}: the request was not taken: {text}")
        case library.ModelAPIError():
            return _later(f"{name}: {text}", error.retry_after)
        case library.UnexpectedModelBehavior():
            return ModelUnavailable(f"{name}: the provider's answer can't be read: {text}")
        case httpx2.TransportError():
            return ModelUnavailable(f"{name}: the connection to the provider broke in the middle of its answer: {text or type(error).__name__}")
        case TypeError() | AttributeError() | ValueError() | LookupError() | RecursionError():  # what the library makes of an answer that is nothing like one
            return ModelUnavailable(f"{name}: the provider's answer can't be read: {type(error).__name__}: {text}")
    return error


def _is_about_media(error: Exception, media: Sequence[Attachment]) -> bool:
    """Whether the client library could not put a file into a request: it has no error of its own for this."""
    if isinstance(error, UnicodeDecodeError):
        return any(error.object == one.data for one in media)
    return type(error) in (RuntimeError, NotImplementedError, ValueError) and re.search("support|media type", str(error)) is not None


def _later(text: str, after_s: float | None) -> Exception:
    if after_s is None or not after_s >= 0:
        return ModelUnavailable(text)
    return ModelBusy(min(after_s, RETRY_AFTER_S_MAX), f"{text}; it asks to be asked again after {after_s:g} s")


def _text(error: Exception, key: str) -> str:
    """The text of an error, in the provider's words if there are any; never the key, and of limited length."""
    body = getattr(error, "body", None)
    said = body.get("error", body) if isinstance(body, dict) else body
    text = str(said["message"]) if isinstance(said, dict) and said.get("message") else str(error)
    shown = text if len(text) <= 1_000 else f"{text[:1_000]}… ({len(text):,} characters)"
    return shown.replace(key, "***") if key else shown
