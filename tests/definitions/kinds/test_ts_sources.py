"""The kind ts with the sources that people write: of all sizes, with every kind of string in what they return, print and raise."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import SourceFailed
from perdure.definitions.kinds.sandbox import sandbox_pool
from perdure.definitions.kinds.sandbox.sandbox_pool import SandboxLimits, run_job

CALM = SandboxLimits(wall_s=60.0)
INVOICES = (Path(__file__).parent / "sources" / "invoices.ts").read_text(encoding="utf-8")
JOINED_CHARACTERS = 2000
"""From 512 characters on, QuickJS keeps what was joined as a tree of its parts."""


@pytest.fixture(scope="module", autouse=True)
def sandboxes() -> Iterator[None]:
    yield
    sandbox_pool.close_pool()


async def answer(source: str, given: Any = None) -> Any:
    """What a sandbox says of a source: what it returned, and what it printed."""
    return await run_job("js", {"source": source, "input": given}, CALM)


def generated(characters: int) -> str:
    """A program of so many characters, whose functions call each other; it returns how many there are."""
    parts: list[str] = []
    size = 0
    while size < characters or not parts:
        number = len(parts)
        parts.append(
            f"interface In{number} {{ at: number; names?: string[] }}\n"
            f"enum Step{number} {{ One = {number}, Two, Three = 'three' as any }}\n"
            f"function f{number}<T extends In{number}>(given: T, more: number = {number}): number {{\n"
            f"  const said: string = `é😀 ${{given.at}} of ${{Step{number}.Two}}`\n"
            f"  return said.length && given.at >= {number} ? {number + 1} : {f'f{number - 1}(given)' if number else 'more'}\n}}\n"
        )
        size += len(parts[-1])
    return "".join(parts) + f"export default (input: {{at: number}}): number => f{len(parts) - 1}(input)\n"


@pytest.mark.slow
@pytest.mark.parametrize("characters", [1, 1_000, 10_000, 100_000])
async def test_a_program_of_any_size_runs(characters: int) -> None:
    source = generated(characters)
    found = (await answer(source, {"at": 1_000_000}))["value"]
    assert found == source.count("interface") and len(source) >= characters


async def test_a_real_program_runs() -> None:
    csv = 'id,customer,net,vat,paid\n1,"Ada, Ltd.",100,19,yes\n2,Grace | Co,10.5,7,\n3,"Ada, Ltd.",1,19,\n4,,1,19,\n5,Bob,x,19,\n6,Bob,1,20,\n'
    found = (await answer(INVOICES, {"csv": csv}))["value"]
    assert found["refused"] == ["line 5: no customer", "line 6: a number that is none", "line 7: a rate of VAT that is none"] and found["open"] == 2
    assert found["report"].splitlines()[2:] == ["| Ada, Ltd. | 1, 3 | 120.19 |", "| Grace \\| Co | 2 | 11.24 |"]


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 1, 200, 511, 512, 513, 8191, 8192, 8193, JOINED_CHARACTERS, 100_000])
@pytest.mark.parametrize("character", ["a", "é", "€", "😀", "\0", '"', "\\", "\n", "\u2028"])
async def test_a_string_of_any_length_comes_back_however_it_was_made(length: int, character: str) -> None:
    source = """export default ({character, length}: {character: string, length: number}) => {
        let joined = ''
        for (let n = 0; n < length; n++) joined += character
        const repeated = character.repeat(length), halves = repeated.slice(0, length >> 1) + repeated.slice(length >> 1), nested = `<${joined}${halves}>`
        return [joined, repeated, halves, nested, {[joined.slice(0, 600) + character.repeat(600)]: 1}, [...joined].reverse().join('')]
    }"""
    text = character * length
    name = character.encode("utf-16-le")
    cut = (name * length)[:1200].decode("utf-16-le", "replace") + character * 600
    joined, repeated, halves, nested, key, reverse = (await answer(source, {"character": character, "length": length}))["value"]
    assert [joined, repeated, halves, nested, reverse] == [text, text, text, f"<{text}{text}>", text] and list(key) == [cut]


async def test_what_is_printed_and_raised_may_be_joined_too() -> None:
    long = "('é'.repeat(700) + '😀'.repeat(700))"
    found = await answer(f"export default () => {{ console.log({long}, {long} + 'x'); console.log({{a: {long}}}) }}")
    assert found["console"].count("😀") == 2100
    for raised in (f"throw new Error({long})", f"throw {long}", f"throw {{a: {long}}}", f"class E extends Error {{ name = {long} }}; throw new E('x')"):
        with pytest.raises(SourceFailed) as failed:
            await answer(f"export default () => {{ {raised} }}")
        assert "é" * 700 in str(failed.value)


async def test_half_a_character_is_refused_in_words() -> None:
    with pytest.raises(SourceFailed, match=r"its result can't be stored: a text in it has a lone surrogate"):
        await answer("export default () => 'a'.repeat(600) + '\\ud83d' + 'b'.repeat(600)")
