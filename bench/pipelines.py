"""What pipelines cost: operations over many rows beside the same in plain Python and in jq alone, and small ones as steps of a durable definition.

    python bench/pipelines.py [--quick]

Plain Python is what somebody would write by hand who knows his rows: no missing fields, no limits, no errors that name a row. Steps are durable, on a file with
synchronous=FULL. Medians of three rounds, taken by turns.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from perdure import Definition
from perdure.core import values
from perdure.core.paths import Key
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.pipeline import run
from perdure.runtime.local_engine import local_engine, run_to_end

ROUNDS = 3
Rows = list[dict[str, Any]]

SORT = [{"table_sort": "price"}]
FILTER = [{"table_filter": {"field": "price", "gt": 500}}]
GROUP = [{"groupby": {"by": "city", "aggregates": {"total": {"sum": "price"}, "rows": "count"}}}]
JOIN = [{"join": {"with": "cities", "on": {"city": "name"}}}]
JQ = "map(select(.price > 500))"
SMALL = [{"table_filter": {"field": "price", "gt": 3}}, {"table_sort": "-price"}, {"top_k": 3}]


def many(count: int) -> Rows:
    """Rows of a shop: a number, a price, one of a hundred cities."""
    return [{"id": number, "price": number * 7919 % 1000, "city": f"city {number * 31 % 100}", "note": "x" * 10} for number in range(count)]


def by_hand(rows: Rows, cities: Rows) -> dict[str, Callable[[], Any]]:
    """The same in plain Python, by what it does."""

    def grouped(given: Rows) -> Rows:
        totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for row in given:
            totals[row["city"]][0] += row["price"]
            totals[row["city"]][1] += 1
        return [{"city": city, "total": total, "rows": count} for city, (total, count) in totals.items()]

    def joined(given: Rows) -> Rows:
        index = {city["name"]: city for city in cities}
        return [{**row, "people": index[row["city"]]["people"]} for row in given if row["city"] in index]

    def filtered(given: Rows) -> Rows:
        return [row for row in given if row["price"] > 500]

    def in_order(given: Rows) -> Rows:
        return sorted(given, key=itemgetter("price"))

    return {
        "sort": lambda: in_order(rows),
        "filter": lambda: filtered(rows),
        "groupby": lambda: grouped(rows),
        "join": lambda: joined(rows),
        "sort, filter, join, groupby": lambda: grouped(joined(filtered(in_order(rows)))),
    }


def timed(work: Callable[[], Any]) -> float:
    """How many seconds it takes."""
    began_s = time.perf_counter()
    _ = work()
    return time.perf_counter() - began_s


def beside_python(count: int) -> None:
    """Each operation over many rows, and all of them, beside plain Python."""
    rows, cities = many(count), [{"name": f"city {number}", "people": number} for number in range(100)]
    piped = {"sort": SORT, "filter": FILTER, "groupby": GROUP, "join": JOIN, "sort, filter, join, groupby": [*SORT, *FILTER, *JOIN, *GROUP]}
    for what, plain in by_hand(rows, cities).items():
        ours, theirs = list[float](), list[float]()
        for _ in range(ROUNDS):
            ours.append(timed(lambda ops=piped[what]: asyncio.run(run(ops, rows, inputs={"cities": cities}))))  # type: ignore[misc]  # bound to its turn
            theirs.append(timed(plain))
        line(f"{what}, {count:,} rows", statistics.median(ours) * 1000, "ms", statistics.median(theirs) * 1000, "plain Python")


def beside_jq(count: int) -> None:
    """A filter in jq, in its sandbox, beside the operation, and beside jq in this process."""
    import jq  # type: ignore[import-not-found]  # it has no types

    rows, program = many(count), jq.compile(JQ)
    boxed, own, alone = list[float](), list[float](), list[float]()
    for _ in range(ROUNDS):
        boxed.append(timed(lambda: asyncio.run(run([{"jq_transform": JQ}], rows))))
        own.append(timed(lambda: asyncio.run(run(FILTER, rows))))
        alone.append(timed(lambda: program.input_value(rows).all()))
    line(f"jq_transform, {count:,} rows", statistics.median(boxed) * 1000, "ms", statistics.median(alone) * 1000, "jq alone, in this process")
    line(f"table_filter, {count:,} rows", statistics.median(own) * 1000, "ms", statistics.median(alone) * 1000, "jq alone, in this process")


async def small(calls: int) -> float:
    """Small pipelines a second, one after the other, without a workflow around."""
    rows = many(10)
    began_s = time.perf_counter()
    for _ in range(calls):
        _ = await run(SMALL, rows)
    return calls / (time.perf_counter() - began_s)


async def durable(executions: int, at_once: int, counted: bool) -> float:
    """Small pipelines a second, each the step of a durable execution, so many at once."""
    document = {"perdure": 1, "name": "measured", "input": {"rows": {}}, "steps": [{"id": "a", "pipeline": SMALL, "with": {"rows": "@input.rows"}}]}
    definition = Definition.of(document, deployment=Deployment(counts_pipelines=counted))
    raw = values.encode(((), {"rows": many(10)}), "the input")
    with tempfile.TemporaryDirectory() as directory:
        async with local_engine([definition.graph], f"sqlite:///{directory}/bench.db") as engine:
            left = iter(range(executions))

            async def in_turn() -> None:
                for number in left:
                    _ = await run_to_end(engine, Key("default", definition.graph.name, str(number)), raw)

            began_s = time.perf_counter()
            await asyncio.gather(*(in_turn() for _ in range(at_once)))
            return executions / (time.perf_counter() - began_s)


def line(what: str, ours: float, unit: str, theirs: float | None = None, against: str = "") -> None:
    """One row of the table."""
    ratio = "" if theirs is None else f"{theirs:10,.1f} {unit}  {ours / theirs:5.2f}×  {against}"
    print(f"{what:44} {ours:10,.1f} {unit:5} {ratio}")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and calls")
    part = 10 if parser.parse_args().quick else 1
    beside_python(100_000 // part)
    beside_jq(100_000 // part)
    calls_s = statistics.median(asyncio.run(small(5_000 // part)) for _ in range(ROUNDS))
    line("a small pipeline", calls_s, "/s")
    for at_once in (1, 100):
        counted, quiet = list[float](), list[float]()
        for _ in range(ROUNDS):
            counted.append(asyncio.run(durable(1_000 // part, at_once, counted=True)))
            quiet.append(asyncio.run(durable(1_000 // part, at_once, counted=False)))
        line(f"a durable step, {at_once} at once", statistics.median(counted), "/s", statistics.median(quiet), "with no uses counted")


if __name__ == "__main__":
    main()
