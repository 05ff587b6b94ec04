"""Checks requests to start an execution. The client of this process builds valid ones; what came over a network may have any value in any field."""

from functools import lru_cache

from perdure.code.call_options import checked_priority
from perdure.code.declarations import checked_name
from perdure.code.durations import duration_seconds, whole_number
from perdure.core import values
from perdure.core.attributes import checked_attribute_name, value_of_sortable
from perdure.core.carried import CARRIED_BYTES_MAX, Carried
from perdure.core.envelopes import StartAdmission
from perdure.core.errors import BadValue, LogDamaged, TooLarge, Undecodable
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.dialects.definition_reader import read_definition
from perdure.service.execution_operations import StartRequest
from perdure.service.reruns import SEED_BITS

DEFINITIONS_KEPT = 256
"""How many definitions are remembered as valid, so that starts of one are not checked each time."""


def checked_start(wanted: StartRequest) -> StartRequest:
    """Returns a request that is valid.

    Raises:
        BadValue, BadName: an option is not valid, or does not fit the others.
        BadDefinition: the definition is not valid.
        TooLarge: what it carries is too large.
    """
    for part, what in zip(wanted.key, ("tenant", "workflow", "id"), strict=True):
        checked_name(part, what)
    _check_place(wanted)
    for name in ("delay_s", "deadline_s", "grace_s", "ttl_s", "debounce_s"):
        if duration_s := getattr(wanted, name):
            duration_seconds(duration_s, name.removesuffix("_s"))
    whole_number(wanted.version, "version", 0)
    if (wanted.debounce_s is not None) + wanted.singleton + wanted.strict > 1:
        raise BadValue("debounce, singleton and strict", "several", "given together; give only one of them")
    if wanted.seed is not None and not 0 <= wanted.seed < 1 << SEED_BITS:
        raise BadValue("seed", wanted.seed, f"a whole number of {SEED_BITS} bits")
    if wanted.admission is not None:
        _check_admission(wanted.admission)
    if wanted.carried:
        _check_carried(wanted.carried)
    if wanted.definition is not None:
        _check_definition(wanted.definition)
    return wanted


def _check_place(wanted: StartRequest) -> None:
    if wanted.queue:
        checked_name(wanted.queue, "queue")
    elif wanted.lane or wanted.priority:
        option, value = ("priority", wanted.priority) if wanted.priority else ("lane", wanted.lane)
        raise BadValue(option, value, f"given without a queue: the {option} says whose turn it is in one; give the queue as well")
    if wanted.lane:
        checked_name(wanted.lane, "lane")
    checked_priority(wanted.priority, "priority")


def _check_admission(admission: StartAdmission) -> None:
    checked_attribute_name(admission.attribute)
    whole_number(admission.max, "admission", 0)
    try:
        value_of_sortable(admission.value)
    except LogDamaged as error:
        raise BadValue("admission", admission.value, "the sortable form of the value of an attribute") from error


def _check_carried(carried: Carried) -> None:
    size_bytes = sum(len(name.encode()) + len(raw) for name, raw in carried)
    if size_bytes > CARRIED_BYTES_MAX:
        raise TooLarge("carried", size_bytes, CARRIED_BYTES_MAX)
    for name, raw in carried:
        try:
            values.decode(raw, object, f"what is carried as {name}")
        except Undecodable as error:
            raise BadValue("carried", name, "the name of an encoded value") from error


@lru_cache(DEFINITIONS_KEPT)
def _check_definition(raw: bytes) -> None:
    """Checks that a definition has the form in which the log pins it. What its steps need, an engine checks."""
    if definition_bytes(read_definition(raw).canonical) != raw:
        raise BadValue("definition", "the document", "in its canonical form; start it as a document that is given with the start")
