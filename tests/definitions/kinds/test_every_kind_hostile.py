"""What is hostile comes to a result or to an error that says so, in time, in bounded memory, and leaves nothing: peers, output, values."""

import gzip
import re
import resource
import time
from collections.abc import Awaitable, Callable

import pytest

from perdure import ExecutionFailed
from tests.definitions.kinds.http.misbehaving_server import Wire, json_reply, reply
from tests.definitions.kinds.kind_table import KINDS, KindEnvironment, Step
from tests.definitions.kinds.test_every_kind import DEFECT, ended, nothing_is_left

pytest.importorskip("httpx2", reason="requests take the package httpx2: pip install 'perdure[http]'")
pytest.importorskip("pydantic_ai", reason="models take the package pydantic-ai-slim: pip install 'perdure[agents]'")
pytest.importorskip("quickjs", reason="sandboxes take their packages: pip install 'perdure[sandbox]'")

TIMEOUT_S = 2.0
ENOUGH_S = 15.0
GROWTH_BYTES_MAX = 250_000_000
"""More than an answer of 16 MB in all the forms that it has on its way; an endless one takes more within the time that it has."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PACKED = gzip.compress(gzip.compress(b"0" * 100_000_000))
DEEP = "[" * 100_000 + "]" * 100_000


def sends(*parts: bytes) -> Callable[[Wire], Awaitable[None]]:
    """A peer that sends these, and closes."""

    async def answer(wire: Wire) -> None:
        await wire.raw(*parts)
        wire.writer.close()

    return answer


def endless(head: bytes, part: bytes, every_s: float = 0.0) -> Callable[[Wire], Awaitable[None]]:
    """A peer that never ends."""

    async def answer(wire: Wire) -> None:
        await wire.raw(head)
        while True:
            await wire.raw(part, every_s=every_s)

    return answer


async def breaks(wire: Wire) -> None:
    """A peer that breaks the connection."""
    wire.reset()


PEERS: dict[str, Callable[[Wire], Awaitable[None]]] = {
    "closes": sends(),
    "breaks": breaks,
    "stops in its head": sends(HEAD),
    "stops in its body": sends(HEAD + b"Content-Length: 100\r\n\r\n{"),
    "speaks something else": sends(b"SSH-2.0-OpenSSH_9.6\r\n" * 3),
    "says no JSON": sends(reply(b"\xff\xfe\x00{" * 100, headers={"Content-Type": "application/json"})),
    "says something else in JSON": sends(json_reply('[null, {"choices": 5}]')),
    "says a number with a million digits": sends(json_reply("1" * 1_000_000)),
    "says what is deep": sends(json_reply(DEEP)),
    "says half a surrogate": sends(json_reply(r'{"a": "\ud800"}')),
    "packs zeros twice": sends(reply(PACKED, headers={"Content-Type": "application/json", "Content-Encoding": "gzip, gzip"})),
    "lies about how it is packed": sends(reply(b"no gzip", headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})),
    "has a head without end": endless(b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"x" * 10_000 + b"\r\n"),
    "has a body without end": endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65_536 + b"\r\n"),
    "says a byte at a time": endless(HEAD + b"Content-Length: 1000\r\n\r\n", b"[", 0.1),
    "leads to itself": sends(reply(b"", 302, {"Location": "/peer"})),
}

ASKING: dict[str, Callable[[KindEnvironment], Step]] = {
    "http": lambda place: {"http": f"{place.url}/peer"},
    "openapi": lambda place: {"openapi": {"url": f"{place.url}/peer", "operation": "x"}},
    "pipeline": lambda place: {"pipeline": [{"http_request": f"{place.url}/peer"}]},
    "llm": lambda place: {"llm": "x"},
    "agent": lambda place: {"agent": "x"},
}


@pytest.mark.parametrize("kind", ASKING)
@pytest.mark.parametrize(
    "peer", [name if name in ("breaks", "says half a surrogate", "says what is deep") else pytest.param(name, marks=pytest.mark.prove) for name in PEERS]
)
async def test_whatever_a_peer_does_the_step_ends_in_time_and_leaves_nothing(kind: str, peer: str, place: KindEnvironment) -> None:
    for path in ("/peer", "/v1/chat/completions"):
        place.server.on(path, PEERS[peer])
    began_s, began_bytes = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    how, _, _ = await ended(place.definition({"id": "a", **ASKING[kind](place), "timeout": TIMEOUT_S, "retry": {"max": 1}}))
    assert time.monotonic() - began_s < ENOUGH_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - began_bytes < GROWTH_BYTES_MAX
    if isinstance(how, Exception):
        assert isinstance(how, ExecutionFailed) and not DEFECT.search(str(how)), str(how)[:2_000]
    await nothing_is_left(place)


TS, PYTHON = "export default () => ", "def main(input):\n    return "
OUTPUT: dict[str, Step] = {
    "bash, bytes that are no text": {"bash": "head -c 100000 /dev/urandom; head -c 100000 /dev/urandom >&2"},
    "bash, closed streams": {"bash": "exec >&- 2>&- <&-; exit 0"},
    "bash, both streams without end": {"bash": "yes & yes >&2 & wait"},
    "ts, half a surrogate": {"ts": f"{TS}'\\ud800'"},
    "ts, half a surrogate as a name": {"ts": f"{TS}({{'\\ud800': 1}})"},
    "ts, printed half a surrogate": {"ts": f"{TS}{{ console.log('\\ud800'); return 1 }}"},
    "ts, deep": {"ts": f"{TS}{{ let a: any = []; for (let i = 0; i < 100000; i++) a = [a]; return a }}"},
    "ts, printed without end": {"ts": f"{TS}{{ while (true) console.log('x'.repeat(1000)) }}"},
    "ts, an error without end": {"ts": f"{TS}{{ throw new Error('x'.repeat(30_000_000)) }}"},
    "ts, large": {"ts": f"{TS}'x'.repeat(17_000_000)"},
    "python, half a surrogate": {"python": f"{PYTHON}chr(0xd800)"},
    "python, deep": {"python": "def main(input):\n    a = []\n    for _ in range(100000):\n        a = [a]\n    return a"},
    "python, printed without end": {"python": "def main(input):\n    while True:\n        print('x' * 1000)"},
    "python, an error without end": {"python": "def main(input):\n    raise ValueError('x' * 30000000)"},
    "python, large": {"python": f"{PYTHON}'x' * 17000000"},
    "pipeline, jq without end": {"pipeline": [{"jq_transform": "[range(1e12)]"}], "with": {"rows": [{"a": 1}]}},
    "pipeline, rows that multiply": {"pipeline": [{"jq_transform": "[range(2000000) | {a: .}]"}], "with": {"rows": [{"a": 1}]}},
}
LONG_S = 30.0


@pytest.mark.parametrize("name", [name if "half" in name or "closed" in name else pytest.param(name, marks=pytest.mark.prove) for name in OUTPUT])
async def test_whatever_a_step_says_is_a_result_or_an_error_that_says_so(name: str, place: KindEnvironment) -> None:
    began_s = time.monotonic()
    how, _, _ = await ended(place.definition({"id": "a", **OUTPUT[name], "timeout": TIMEOUT_S, "retry": {"max": 1}}))
    assert time.monotonic() - began_s < LONG_S
    if isinstance(how, Exception):
        assert isinstance(how, ExecutionFailed) and not DEFECT.search(str(how)), str(how)[:2_000]
        assert len(str(how)) < 300_000
    await nothing_is_left(place)


@pytest.mark.prove
@pytest.mark.parametrize("kind", [kind for kind, row in KINDS.items() if row.characters_max > 1_000_000])
async def test_results_that_are_too_large_together_are_an_error_that_says_so(kind: str, place: KindEnvironment) -> None:
    twice = {"id": "a", **KINDS[kind].echo(place), "each": {"in": [1, 2]}}
    how, _, _ = await ended(place.definition(twice, {"id": "b", "needs": ["a"], "return": "@a"}), value="é" * 4_500_000)
    assert isinstance(how, ExecutionFailed) and re.search(r"the limit is 16,777,216|TooLarge|ContentTooLong", str(how)), repr(how)[:2_000]
