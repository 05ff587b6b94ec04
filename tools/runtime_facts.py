"""Tells what comes of random programs and definitions on the package of one checkout, a line of JSON for each seed.

`tools.runtime_differential` runs this file on two checkouts; it therefore imports only what both have, under the names of either.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import perdure

SIZES = (3, 6, 10, 20)
DEFINITION_SIZES = (3, 6, 10)

CASE_MODULES = ("tests.proof.simulated_cases", "tests.proof.code_cases")
"""The module of `CodeCase`: today, and before it was renamed."""

UNCOMPARED = ("by", "traceback", "number", "numbers", "sent")
"""The fields of events that need not be the same, beside moments: who holds a step, lines of the own files, the order in which messages were sent and came."""


def program_facts(seed: int) -> dict[str, Any]:
    """What comes of a random program in a world without faults, every second of them evicted at each commit: results, effects, logs."""
    generate = import_module("tests.proof.program_generator").generate
    simulator, options = import_module("tests.proof.simulator"), import_module("tests.proof.world_options").Options
    rng = Random(f"{seed}: differential")
    program = generate(rng, rng.choice(SIZES))
    held: list[Any] = []

    def made(simulation: Any) -> Sequence[Any]:
        held.extend((simulation, _code_case()(simulation, 0, program)))
        return held[1:]

    report = simulator.run(made, seed, options(engines=1, always_suspend=seed % 2 == 1, compact_from=sys.maxsize))
    simulation, case = held
    logs = {str(key): [_event(event) for row in simulation.store.rows(key) for event in _decoded(row)] for key in simulation.store.keys}
    return {"input": _digest(program), "problems": report.problems, "effects": dict(case.world.effects), "maybe": list(case.prediction.maybe), "logs": logs}


def definition_facts(seed: int) -> dict[str, Any]:
    """What comes of a random definition in a world of its own: how it ended, with what, and each piece of work with its place, its result and its tries."""
    rng = Random(f"{seed}: differential")
    case = import_module("tests.proof.definitions.generator").random_case(rng, rng.choice(DEFINITION_SIZES))
    runner = import_module("tests.proof.definitions.runner").WorldRunner(always_suspend=seed % 2 == 1)
    try:
        facts = json.loads(msgspec.json.encode(runner.run(case.definition, case.script)))
    except Exception as error:  # whatever it is, the other checkout must come to the same
        facts = {"error": type(error).__name__}
    return {"input": _digest([case.definition, case.script]), "facts": facts}


def _code_case() -> Callable[..., Any]:
    for name in CASE_MODULES:
        try:
            found: Callable[..., Any] = import_module(name).CodeCase
        except ModuleNotFoundError:
            continue
        return found
    raise ModuleNotFoundError(f"no module of {', '.join(CASE_MODULES)} is in this checkout: add the name that its CodeCase has there")


def _decoded(row: bytes) -> Sequence[Any]:
    events: Sequence[Any] = import_module("perdure.core.log_format").decode_row(row)
    return events


def _event(event: Any) -> str:
    """An event in words that have neither moments nor holders nor tracebacks."""
    return f"{type(event).__name__.removesuffix('Event')} {_plain(event)}"


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in sorted(value.__struct_fields__) if name not in UNCOMPARED and not name.endswith("at_s")}
    return value


def _digest(value: Any) -> str:
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _lines(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    of = definition_facts if given.definitions else program_facts
    for seed in range(given.first, given.first + given.count):
        yield {"seed": seed, **of(seed)}


def main() -> None:
    """Print the facts of each seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout", type=Path)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--definitions", action="store_true")
    given = parser.parse_args()
    if not Path(perdure.__file__).is_relative_to(given.checkout):
        sys.exit(f"perdure was imported from {perdure.__file__}, not from {given.checkout}: set PYTHONPATH to that checkout and its src.")
    for line in _lines(given):
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
