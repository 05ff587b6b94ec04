"""The sources of models: where the model of a name is requested. A deployment defines them in ``models.yaml`` or in code; a definition can't.

A name may also stand for a list of other names, of which the first that can answer is requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from perdure.core.errors import BadValue
from perdure.definitions.format.document_parser import parse_document
from perdure.definitions.kinds.models.model_errors import UnknownModel

Provider = Literal["openai", "openai-chat", "anthropic"]

API_KEY_VARIABLES: dict[str, str] = {"openai": "OPENAI_API_KEY", "openai-chat": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The providers, and the secret in which the key for each is unless a source says otherwise."""


VENDOR_MODEL_EXAMPLE = "openai:gpt-5-mini"


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The price of a model in US dollars per million tokens. Cached tokens cost the same as other input unless the source says otherwise."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class ModelSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a model is asked.

    `provider` is the protocol: ``openai`` is OpenAI's Responses API, ``openai-chat`` its Chat Completions API, which most other servers speak too,
    ``anthropic`` Anthropic's Messages API. `base_url` is where that is served, if not at the vendor's. `key` names the secret with the key; empty: the
    vendor's usual name, and none is needed where a `base_url` is said. `settings` are further settings of each request, such as ``top_p``.
    """

    provider: Provider
    model: str
    base_url: str = ""
    key: str = ""
    price: ModelPrice | None = None
    settings: dict[str, Any] = {}


def model_source(models: Mapping[str, Any], name: str) -> ModelSource:
    """The source of a model: that of `models` under its name, or the vendor's own for ``vendor:model``.

    Raises:
        UnknownModel: there is none, or it is invalid.
    """
    if name in models:
        return _read(models[name], name)
    provider, colon, model = name.partition(":")
    if colon and model and provider in API_KEY_VARIABLES:
        return ModelSource(provider, model)  # type: ignore[arg-type]  # it is one of them
    known = ", ".join(sorted(models)) or "none"
    raise UnknownModel(
        f"this process has no model {name!r} (known models: {known}); add it to the deployment's models (models.yaml), "
        f"or name the vendor's own: {', '.join(f'{one}:MODEL' for one in API_KEY_VARIABLES)}"
    )


def model_names(models: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The names of the models that are asked for `name`, one after the other: itself, unless it stands for a list.

    Raises:
        UnknownModel: the list is empty, or has another list in it.
    """
    given = models.get(name)
    if isinstance(given, str) or not isinstance(given, Sequence):
        return (name,)
    nested = [one for one in given if not isinstance(one, str) or (isinstance(models.get(one), Sequence) and not isinstance(models.get(one), str))]
    if nested or not given:
        raise UnknownModel(f"the model {name!r} of the deployment has to be a list of names of models that are no lists; found {list(given)!r}")
    return tuple(given)


def _read(given: Any, name: str) -> ModelSource:
    if isinstance(given, ModelSource):
        return given
    try:
        return msgspec.convert(given, ModelSource)
    except msgspec.ValidationError as error:
        raise UnknownModel(
            f"the model {name!r} of the deployment can't be used: {error}; an entry has provider, model, base_url, key, price, settings"
        ) from None


def load_sources(file: str | Path) -> dict[str, ModelSource | tuple[str, ...]]:
    """Loads the sources in a YAML or JSON file: a mapping of names to sources, or to lists of names.

    Raises:
        BadValue: it is invalid; the error names the place.
        OSError: it can't be read.
    """
    path = Path(file)
    read = parse_document(path.read_bytes())
    for finding in read.findings:
        raise BadValue(str(path), path.name, f"YAML or JSON: {finding}")
    if not isinstance(read.document, dict):
        raise BadValue(str(path), read.document, "a mapping of names to models")
    found: dict[str, ModelSource | tuple[str, ...]] = {}
    for name, entry in read.document.items():
        try:
            found[str(name)] = tuple(msgspec.convert(entry, list[str])) if isinstance(entry, list) else msgspec.convert(entry, ModelSource)
        except msgspec.ValidationError as error:
            raise BadValue(f"{path}: {name}", entry, f"a model, such as {{provider: openai, model: gpt-5}}, or a list of names: {error}") from None
    for name, entry in read.document.items():
        wrong: object = entry
        try:
            for wrong in model_names(found, str(name)):
                model_source(found, wrong)
        except UnknownModel:
            expected = f"the name of a model of this file that is no list, or a vendor's own such as {VENDOR_MODEL_EXAMPLE}"
            raise BadValue(f"{path}: {name}", wrong, "a list of one or more names of models that are no lists" if wrong is entry else expected) from None
    return found
