"""The kind ts: what a source is given, what comes of it, and what its author is told."""

import json
from itertools import count
from typing import Any

import pytest

from perdure import BadDefinition, Definition, ExecutionFailed
from perdure.code.step_environment import StepInfo, current_step
from perdure.core import events, log_format, values
from perdure.core.errors import MissingExtra, SourceFailed
from perdure.definitions.kinds.sandbox import sandbox_pool, source_limits, ts_kind
from perdure.testing import World

numbers = count()


@pytest.fixture(scope="module", autouse=True)
def sandboxes() -> Any:
    yield
    sandbox_pool.close_pool()


def definition(source: str, **more: Any) -> Definition:
    """A definition with one step of this source."""
    return Definition.of({"perdure": 1, "name": f"it{next(numbers)}", "steps": [{"id": "a", "ts": source, "with": {"x": 3}, **more}]})


def failure(world: World, source: str, **more: Any) -> str:
    """How a step of this source fails."""
    with pytest.raises(ExecutionFailed) as failed:
        world.run(definition(source, **more))
    return failed.value.error.message


def printed(world: World, run: Any) -> list[Any]:
    """What the log has of what was printed."""
    found = world.machine.read(run.key)
    assert found is not None
    return [
        values.decode(one.body, Any, "")
        for one in log_format.decode_rows(found.payloads)
        if isinstance(one, events.ProgressedEvent) and isinstance(one.body, bytes)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "export default function (input: {x: number}) { return input.x + 1 }",
        "export default function main(input) { return input.x + 1 }",
        "export default async function (input) { await null; return input.x + 1 }",
        "export default (input: {x: number}): number => input.x + 1",
        "export default async ({x}: {x: number}) => x + 1",
        "const one = 1\nfunction next(n: number) { return n + one }\nexport default (input: any) => next(input.x)",
        "const main = (input: any) => input.x + 1\nexport default main",
        "const main = (input: any) => input.x + 1\nexport {main as default}",
        "interface In { x: number }\ntype Out = number\nenum Step { One = 1 }\nexport default (input: In): Out => input.x + Step.One as Out",
        "import type {T} from './types'\nexport default <A extends {x: number}>(input: A) => (input satisfies A).x! + 1",
        "class Adder { constructor(private readonly by: number) {} add(n: number) { return n + this.by } }\nexport default (i: any) => new Adder(1).add(i.x)",
        "export const helper = 1\nexport default (input: any) => Promise.resolve(input.x).then((x: number) => x + helper)",
    ],
)
def test_the_default_export_is_called_with_the_input(world: World, source: str) -> None:
    assert world.run(definition(source)) == 4


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("undefined", None),
        ("null", None),
        ("{a: undefined, b: [undefined], d: new Date(0), s: 'é😀\\n\\0'}", {"b": [None], "d": "1970-01-01T00:00:00.000Z", "s": "é😀\n\0"}),
        ("[1, 1.5, 1e21, -0, 2 ** 53]", [1, 1.5, 1e21, 0, 2**53]),
        ("new (class { toJSON() { return {a: 1} } })()", {"a": 1}),
        ("[...new Set([1, 2])].map(String)", ["1", "2"]),
    ],
)
def test_what_it_returns_is_json(world: World, expression: str, result: Any) -> None:
    assert world.run(definition(f"export default () => ({expression})")) == result


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("export default (i) => {\n  const x: number = 1; return i.a.b\n}", "at line 2, column 31: TypeError: cannot read property 'b' of undefined"),
        ("type A = {b: number}\n\nfunction f() { throw new RangeError('no') }\nexport default () => f()", "at line 3, column 26: RangeError: no"),
        ("export default async () => {\n  await null\n  throw new Error('later')\n}", "at line 3, column 13: Error: later"),
        ("throw new Error('top')\nexport default () => 1", "at line 1, column 11: Error: top"),
        ("export default function () {\n  return 1 +\n}", "at line 3, column 1: SyntaxError: Unexpected token"),
        ("export default () => { let a = 1; let a = 2 }", "SyntaxError"),
        ("export default 3", "it exports no function; write: export default function (input)"),
        ("class E extends Error { name = 'E' }\nexport default () => { throw new E('own') }", "E: own"),
        ("export default () => { throw {code: 7} }", 'has failed: {"code":7}'),
        ("export default () => NaN", "the result is NaN"),
        ("export default () => new Promise(() => {})", "never settles"),
    ],
)
def test_its_author_is_told_what_failed_and_where(world: World, source: str, said: str) -> None:
    told = failure(world, source)
    assert said in told and "Traceback" not in told
    assert len(world.runs) == 1


def test_a_source_that_fails_is_not_tried_again(world: World) -> None:
    run = world.start(definition("export default () => { throw new Error('x') }", on_error="go_on"))
    assert run.step("a").attempts == 1


def test_what_is_printed_is_in_the_log_and_at_the_end_of_an_error(world: World) -> None:
    run = world.start(definition("export default () => { console.log('one', {a: [1]}); console.warn('two') }"))
    assert run.result() is None and printed(world, run) == [{"console": 'one {"a":[1]}\ntwo\n'}]
    silent = world.start(definition("export default () => 1"))
    assert printed(world, silent) == []
    told = failure(world, "export default () => { for (let n = 0; n < 500; n++) console.log('line ' + n); throw new Error('x') }")
    assert told.endswith("line 499") and "line 9\n" not in told and "Error: x. Its last output:" in told


def test_what_is_printed_is_kept_up_to_64_k_and_in_the_log_its_end(world: World) -> None:
    run = world.start(
        definition(
            "export default () => { for (;;) { console.log('é'.repeat(1000)); if (++globalThis.n > 99) return } }".replace("for", "globalThis.n = 0; for", 1)
        )
    )
    ((said,),) = [list(one.values()) for one in printed(world, run)]
    assert said.startswith("…é") and said.endswith("… more was printed, and is not kept\n") and len(said.encode()) < 49_300


def test_a_timeout_is_its_time_and_no_more_than_a_minute() -> None:
    def of(timeout_s: float | None) -> float:
        token = current_step.set(StepInfo(None, (), 1, timeout_s=timeout_s))  # type: ignore[arg-type]  # of whom it is does not matter
        try:
            return source_limits.step_limits().wall_s
        finally:
            current_step.reset(token)

    assert [of(None), of(1.0), of(3.0), of(30.0), of(3600.0)] == [10.0, 0.8, 2.5, 29.5, 60.0]
    assert source_limits.step_limits().wall_s == 10.0


@pytest.mark.slow
def test_a_step_that_takes_longer_fails_once_and_says_so(world: World) -> None:
    told = failure(world, "export default () => { while (true) {} }", timeout="0.2s")
    assert told.startswith("the TypeScript did not end within 0.16 s. Have it do less, or give its step a longer timeout (60 s at most)")


@pytest.mark.slow
def test_a_source_makes_over_what_another_step_gives(world: World) -> None:
    assert world.run(definition("export default (i) => i", transform={"ts": "export default (i: {x: number}) => i.x * 2"})) == 6


def test_steps_are_done_for_each_and_their_secrets_are_given(world: World) -> None:
    each = {"perdure": 1, "name": "it", "steps": [{"id": "a", "each": {"in": [1, 2, 3]}, "ts": "export default (i) => i.n * 10", "with": {"n": "@item"}}]}
    assert world.run(Definition.of(each)) == [10, 20, 30]


@pytest.mark.parametrize("source", ["", "1 + 1", "function main() {}", "export const a = 1"])
def test_a_source_that_exports_nothing_is_refused_when_it_is_read(source: str) -> None:
    with pytest.raises(BadDefinition):
        definition(source)


def test_the_example_runs_as_it_says(world: World) -> None:
    assert world.run(Definition.of(ts_kind.EXAMPLE)) == json.loads(ts_kind.EXAMPLE.splitlines()[-1].removeprefix("# "))


async def test_it_is_a_function_that_can_be_called_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await ts_kind.run_typescript("export default (i) => { console.log(i); return i }", [1]) == [1]
    with pytest.raises(SourceFailed) as failed:
        await ts_kind.run_typescript("export default () => {\n  console.log('hi'); throw new TypeError('x') }")
    error = failed.value
    assert (error.language, error.type, error.text, error.line, error.column, error.console) == ("TypeScript", "TypeError", "x", 2, 32, "hi\n")
    monkeypatch.setattr(sandbox_pool, "_is_installed", lambda module: module != "quickjs")
    with pytest.raises(MissingExtra, match=r"TypeScript in a sandbox needs quickjs-ng.*perdure\[sandbox\]"):
        await ts_kind.run_typescript("export default () => 1")


@pytest.mark.parametrize("padding", [0, 3, 900, 3990, 65_530, 65_536 + 4090])
def test_a_secret_that_it_prints_or_raises_is_not_kept_nor_a_piece_of_it(world: World, padding: int) -> None:
    canary = "QQ-canary-of-the-test-QQ"
    source = (
        "export default (i) => {\n  const said = '.'.repeat(i.padding) + i.token\n  for (let n = 0; n < 3; n++) console.log(said)\n  throw new Error(said)\n}"
    )
    step = {"id": "a", "ts": source, "with": {"token": "@secrets.TOKEN", "padding": padding}}
    run = world.start(Definition.of({"perdure": 1, "name": "it", "steps": [step]}, secrets={"TOKEN": canary}))
    with pytest.raises(ExecutionFailed, match="source_failed"):
        run.result()
    found = world.machine.read(run.key)
    assert found is not None and "QQ-c" not in repr(log_format.decode_rows(found.payloads)) and "st-QQ" not in repr(log_format.decode_rows(found.payloads))
