"""What each check finds, and what it lets pass because it is right."""

import pytest

from tests.lint.snippets import body, codes, sync_body

ORDER = [
    ("for name in {'a', 'b'}:\n    await ctx.step(mail, name)", ["PD201"]),
    ("for name in bag:\n    await ctx.step(mail, name)", ["PD201"]),
    ("for name in bag | set(names):\n    ctx.emit(name)", ["PD201"]),
    ("for name in bag.union(names):\n    if name:\n        break", ["PD201"]),
    ("found = {name for name in names}\nfor name in found:\n    names.append(name)", ["PD201"]),
    ("found = set()\nfound.add(1)\nreturn list(found)", ["PD201"]),
    ("a: dict = {}\nfor name in a.keys() & names:\n    return name", ["PD201"]),
    ("await ctx.map(branch, bag)", ["PD201"]),
    ("return list(bag)", ["PD201"]),
    ("return tuple(bag)", ["PD201"]),
    ("return ', '.join(bag)", ["PD201"]),
    ("return [name for name in bag]", ["PD201"]),
    ("return next(iter(bag))", ["PD201"]),
    ("return bag.pop()", ["PD201"]),
    ("await ctx.join(*bag)", ["PD201"]),
    ("return {name: await ctx.step(charge, name) for name in bag}", ["PD201"]),
    ("return sorted(names, key=id)", ["PD204"]),
    ("for page in asyncio.as_completed(ctx.step(charge, name) for name in names): ...", ["PD202"]),
    ("todo = [other_one(name) for name in names]\nfor page in asyncio.as_completed(todo): ...", ["PD202"]),
    ("asyncio.create_task(other_one(1), eager_start=True)", ["PD203"]),
]


@pytest.mark.parametrize(("text", "expected"), ORDER)
def test_an_order_that_no_process_repeats_is_found(text: str, expected: list[str]) -> None:
    assert codes(body(text, imports="import asyncio\nasync def branch(c, name): ...\nasync def other_one(name): ...")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "for name in sorted(bag):\n    await ctx.step(mail, name)",
        "for name in bag:\n    flag = flag or name == 'x'",
        "for number in {1, 2, 3}:\n    await ctx.step(mail, number)",
        "return sorted(name for name in bag), len(bag), 'x' in bag, sum(len(name) for name in bag), max([len(name) for name in bag])",
        "return sorted(list(bag)), set(list(bag))",
        "return {name.lower() for name in bag}",
        "return bag | {'x'}",
        "for name in dict.fromkeys(names):\n    await ctx.step(mail, name)",
        "bag = sorted(bag)\nfor name in bag:\n    await ctx.step(mail, name)",
        "names.pop()",
        "def inner(numbers: set[int]):\n    for number in numbers:\n        ctx.emit(number)\ninner({1})",
        "for task in asyncio.as_completed([asyncio.create_task(ctx.step(charge, name)) for name in names]):\n    await task",
        "await asyncio.gather(*[ctx.step(charge, name) for name in names])",
        "await asyncio.wait({asyncio.create_task(ctx.sleep(1))})",
    ],
)
def test_what_has_an_order_or_needs_none_is_right(text: str) -> None:
    assert codes(body(text, imports="import asyncio")) == []


AWAITED = [
    "ctx.step(charge, 'a')",
    "ctx.sleep('3d')",
    "ctx.join(lambda c: c.sleep(1))",
    "if ctx.listen('x'): ...",
    "while not ctx.listen('x'): ...",
    "return ctx.step(charge, 'a') == 'b'",
    "return ctx.step(charge, 'a').lower()",
    "return ctx.step(charge, 'a')[0]",
    "return f'{ctx.step(charge, 1)}'",
    "return ctx.attempt(charge, 'a') or None",
    "c = ctx\nc.sleep(1)",
    "async def branch(c):\n    c.sleep(1)\nawait ctx.join(branch)",
    "async for turn in ctx.loop('x', state=0):\n    turn.sleep(1)",
    "return ctx.step(charge, 'a')",
    "return {'a': ctx.step(charge, 'a'), 'b': 1}",
    "return [ctx.step(charge, name) for name in names]",
    "return ctx.step(charge, 'a') if flag else None",
    "receipt = ctx.step(charge, 'a')",
    "receipt = ctx.step(charge, 'a')\nreturn receipt",
    "receipt: str = ctx.step(charge, 'a')\nreturn f'{receipt}!'",
    "receipt = ctx.step(charge, 'a')\nif receipt:\n    return receipt.lower()",
    "if receipt := ctx.step(charge, 'a'):\n    return receipt",
    "total = 1\ntotal += ctx.step(charge, 'a')",
    "for name in ctx.step(charge, 'a'): ...",
    "return len(ctx.listen('x'))",
    "ctx.set('a', ctx.step(charge, 'a'))",
    "await ctx.step(mail, ctx.step(charge, 'a'))",
    "await ctx.call(other, to=ctx.listen('x'))",
    "async for turn in ctx.loop('x', state=0):\n    turn.state = turn.step(charge, 'a')",
    "async def branch(c):\n    return c.step(charge, 'a')\nawait ctx.join(branch)",
]


@pytest.mark.parametrize("text", AWAITED)
def test_a_verb_that_is_not_awaited_is_found(text: str) -> None:
    assert codes(body(text)) == ["PD301"]


@pytest.mark.parametrize(
    "text",
    [
        "await ctx.step(charge, 'a')",
        "return (await ctx.step(charge, 'a')).lower()",
        "ctx.set('a', 1)\nctx.emit(1)\nctx.send(names, 'x', 1)\nctx.keep('y', flag)\nctx.start(other)\nctx.log.info('x')",
        "task = asyncio.create_task(ctx.sleep(1))\nawait task",
        "await asyncio.gather(ctx.sleep(1), ctx.sleep(2))",
        "await ctx.join(lambda c: c.sleep(1), lambda c: c.sleep(2))",
        "waits = ctx.sleep(1)\nawait waits",
        "waits = [ctx.sleep(1), ctx.sleep(2)]\nawait asyncio.gather(*waits)",
        "waits = ctx.sleep(1)\nif flag:\n    await waits",
        "waits = ctx.sleep(1)\nasync def late():\n    await waits\nawait late()",
        "waits = ctx.sleep(1) if flag else ctx.sleep(2)\nawait waits",
        "await (ctx.sleep(1) if flag else ctx.sleep(2))",
        "waits = ctx.sleep(1)\nreturn await asyncio.gather(waits)",
        "def later(c):\n    return c.step(charge, 'a')\nreturn await ctx.join(later, lambda c: c.sleep(1))",
        "return [await ctx.step(charge, name) for name in names], (await ctx.listen('x'))",
        "waits: dict = {}\nwaits['a'] = ctx.sleep(1)\nawait waits['a']",
        "names.sleep(1)\nflag.step(charge)",
    ],
)
def test_a_verb_that_is_awaited_here_or_elsewhere_is_right(text: str) -> None:
    assert codes(body(text, imports="import asyncio")) == []


def test_the_verbs_of_a_sync_workflow_are_not_to_be_awaited() -> None:
    assert codes(sync_body("ctx.step(charge, 'a')\nctx.sleep(1)\nfor turn in ctx.loop('x', state=0):\n    turn.sleep(2)\nctx.join(lambda c: c.sleep(1))")) == []


OUTER = [
    "await ctx.race(a=lambda c: ctx.sleep(1))",
    "async def branch(c):\n    await ctx.step(charge, 'a')\nawait ctx.join(branch)",
    "async def branch(c: Context):\n    await helper(ctx)\nawait ctx.join(branch)",
    "async for turn in ctx.loop('x', state=0):\n    await ctx.sleep(1)",
    "async for turn in ctx.loop('x', state=0):\n    turn.state = ctx.now()",
    "async for turn in ctx.loop('x', state=0):\n    turn.state = ctx.random.random()",
    "async for turn in ctx.loop('x', state=0):\n    await helper(ctx)",
    "async for turn in ctx.loop('x', state=0):\n    async for inner in turn.loop('y', state=0):\n        await turn.sleep(1)",
]


@pytest.mark.parametrize("text", OUTER)
def test_the_context_of_another_branch_or_turn_is_found(text: str) -> None:
    assert codes(body(text, imports="async def helper(c): ...")) == ["PD302"]


@pytest.mark.parametrize(
    "text",
    [
        "await ctx.race(a=lambda ctx: ctx.sleep(1))",
        "await ctx.join(lambda c: c.join(lambda d: d.sleep(1)))",
        "async def pay():\n    await ctx.step(charge, 'a')\nawait pay()",
        "async for turn in ctx.loop('x', state=0):\n    ctx.log.info(ctx.execution.id)\n    await turn.sleep(1)\nawait ctx.sleep(2)",
        "async for turn in ctx.loop('x', state=0):\n    await turn.sleep(1)\nasync for turn in ctx.loop('y', state=0):\n    await turn.sleep(1)",
        "async def pay(c):\n    await c.sleep(1)\n    await ctx.sleep(2)\nawait pay(ctx)",
        "async for ctx in ctx.loop('x', state=0):\n    await ctx.sleep(1)",
        "async def branch(c):\n    ctx.log.info('x')\n    await c.sleep(1)\nawait ctx.join(branch)",
    ],
)
def test_the_own_context_is_right(text: str) -> None:
    assert codes(body(text)) == []


CALLS = [
    ("charge('a')", ["PD303"]),
    ("await mail('a')", ["PD303"]),
    ("await ctx.join(lambda c: mail('a'))", ["PD303"]),
    ("await made('a')", ["PD303"]),
    ("await other(ctx)", ["PD304"]),
    ("other.run()", ["PD304"]),
    ("await other.arun()", ["PD304"]),
    ("await ctx.step(charge('a'))", ["PD305"]),
    ("await ctx.attempt('name', mail('a'))", ["PD305"]),
    ("await ctx.step(plain('a'))", ["PD305"]),
    ("await ctx.step(ctx.sleep(1))", ["PD305"]),
    ("await ctx.join(ctx.sleep(1))", ["PD306"]),
    ("await ctx.race(a=plain('a'))", ["PD306"]),
    ("await ctx.map(plain('a'), names)", ["PD306"]),
    ("await ctx.step(charge, ctx)", ["PD307"]),
    ("await ctx.call(other, ctx)", ["PD307"]),
    ("await ctx.step(lambda: ctx.now())", ["PD307"]),
    ("def inner(): ctx.emit(1)\nawait ctx.step(inner)", ["PD307"]),
    ("ctx.keep('x', lambda: ctx.uuid())", ["PD307"]),
    ("ctx.keep('x', plain)", ["PD308"]),
    ("ctx.keep('x', lambda: plain('a'))", ["PD308"]),
]


@pytest.mark.parametrize(("text", "expected"), CALLS)
def test_what_is_called_where_a_verb_should_be_is_found(text: str, expected: list[str]) -> None:
    assert codes(body(text, imports="from perdure import step\nasync def plain(x): ...\nmade = step(plain)")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "await ctx.step(charge, 'a')",
        "await ctx.step(charge.with_(timeout='1s'), 'a')",
        "await ctx.step(functools.partial(charge, 'a'))",
        "await ctx.step(make('a'), 'b')",
        "await ctx.call(other)",
        "ctx.start(other)\nctx.send(other.key('x'), 'y')",
        "await ctx.step(charge, ctx.execution.id)",
        "ctx.keep('x', lambda: ctx.execution.id)",
        "ctx.keep('x', lambda: 1)",
        "await ctx.join(make('a'))",
        "charge.with_(name='x')",
        "await helper(ctx)",
    ],
)
def test_what_is_handed_to_a_verb_as_it_wants_it_is_right(text: str) -> None:
    assert codes(body(text, imports="import functools\ndef make(x): return lambda c: c\nasync def helper(c): ...")) == []


REPEATS = [
    ("await ctx.step(charge, 'a')\nawait ctx.step(charge, 'b')", ["PD310"]),
    ("await ctx.step(charge, 'a')\nawait ctx.attempt(charge, 'b')", ["PD310"]),
    ("if flag:\n    await ctx.step(charge, 'a')\nawait ctx.step(charge, 'b')", ["PD310"]),
    ("try:\n    await ctx.step(charge, 'a')\nexcept StepFailed:\n    await ctx.step(charge, 'b')", ["PD310"]),
    ("for name in names:\n    await ctx.step(charge, name)\nawait ctx.step(charge, 'b')", ["PD310"]),
    ("await ctx.sleep('1d')\nawait ctx.sleep('1d')", ["PD310"]),
    ("await ctx.listen('x')\nawait ctx.listen('x', timeout=1)", ["PD310"]),
    ("await ctx.step(charge.with_(timeout='1s'), 1)\nawait ctx.step(charge.with_(timeout='1s'), 2)", ["PD310"]),
    ("await ctx.step('a', charge)\nawait ctx.step('a', mail)", ["PD309"]),
    ("await ctx.sleep(1, name='a')\nawait ctx.sleep(2, name='a')", ["PD309"]),
    ("ctx.keep('a', flag)\nctx.keep('a', flag)", ["PD309"]),
    ("for name in names:\n    ctx.keep('a', flag)", ["PD309"]),
    ("while flag:\n    await ctx.step('a', charge)", ["PD309"]),
    ("return [await ctx.step('a', charge, name) for name in names]", ["PD309"]),
    ("await ctx.step(charge.with_(name='a'))\nawait ctx.step(charge.with_(name='a'))", ["PD309"]),
    ("async for turn in ctx.loop('x', state=0):\n    for name in names:\n        turn.keep('a', flag)", ["PD309"]),
    ("while True:\n    await ctx.sleep(1)", ["PD311"]),
    ("while 1:\n    if flag:\n        await ctx.step(charge)", ["PD311"]),
    ("for number in itertools.count():\n    await ctx.step(charge, number)", ["PD311"]),
]


@pytest.mark.parametrize(("text", "expected"), REPEATS)
def test_what_repeats_without_a_name_of_its_own_or_an_end_is_found(text: str, expected: list[str]) -> None:
    assert codes(body(text, imports="import itertools")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "await ctx.step('a', charge)\nawait ctx.step('b', charge)",
        "await ctx.step(charge)\nawait ctx.step('b', charge)",
        "await ctx.step(charge)\nawait ctx.step(mail)",
        "await ctx.sleep('1d')\nawait ctx.sleep('2d')",
        "await ctx.sleep('1d')\nawait ctx.sleep('1d', name='again')",
        "for name in names:\n    await ctx.step(charge, name)",
        "for name in names:\n    await ctx.step(f'charge {name}', charge, name)",
        "if flag:\n    await ctx.step(charge, 'a')\nelse:\n    await ctx.step(charge, 'b')",
        "if flag:\n    return await ctx.step(charge, 'a')\nreturn await ctx.step(charge, 'b')",
        "if flag:\n    await ctx.step(charge, 'a')\n    raise ValueError\nawait ctx.step(charge, 'b')",
        "match flag:\n    case True:\n        await ctx.step(charge, 'a')\n    case _:\n        await ctx.step(charge, 'b')",
        "return await (ctx.step(charge, 'a') if flag else ctx.step(charge, 'b'))",
        "await ctx.join(lambda c: c.step(charge, 'a'), lambda c: c.step(charge, 'b'))",
        "await ctx.step(charge)\nasync for turn in ctx.loop('x', state=0):\n    await turn.step(charge)",
        "async for turn in ctx.loop('x', state=0):\n    await turn.step(charge)\nasync for turn in ctx.loop('y', state=0):\n    await turn.step(charge)",
        "async for turn in ctx.loop('x', state=0):\n    turn.keep('a', flag)",
        "for name in names:\n    if name:\n        ctx.keep('a', flag)\n        break",
        "for name in ctx.keep('a', flag): ...",
        "if flag:\n    ctx.keep('a', flag)\nelse:\n    ctx.keep('a', flag)",
        "while True:\n    names.pop()\n    break",
        "while flag:\n    await ctx.sleep(1)",
        "while True:\n    async for turn in ctx.loop('x', state=0):\n        break\n    break",
        "await ctx.step(names[0], charge)\nawait ctx.step(names[0], charge)",
    ],
)
def test_what_is_told_apart_and_comes_to_an_end_is_right(text: str) -> None:
    assert [code for code in codes(body(text)) if code != "PD311"] == []


STATE = [
    ("global counter\ncounter += 1", ["PD401"]),
    ("global counter\nfor counter in names: ...", ["PD401"]),
    ("cache['a'] = 1", ["PD402"]),
    ("del cache['a']", ["PD402"]),
    ("cache.setdefault('a', 1)", ["PD402"]),
    ("cache['a'].append(1)", ["PD402"]),
    ("settings.seen.append(1)", ["PD402"]),
    ("settings.debug = True", ["PD402"]),
    ("math.pi = 3", ["PD402"]),
    ("next(numbers)", ["PD402"]),
]


@pytest.mark.parametrize(("text", "expected"), STATE)
def test_state_that_outlives_the_execution_is_found(text: str, expected: list[str]) -> None:
    imports = "import itertools, math\ncounter = 0\ncache = {}\nclass Settings: ...\nsettings = Settings()\nnumbers = itertools.count()"
    assert codes(body(text, imports=imports)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "counter = 1",
        "cache = {}\ncache['a'] = 1",
        "return cache['a'], cache.get('b'), counter",
        "global counter\nreturn counter",
        "found = []\ndef inner():\n    found.append(1)\ninner()",
        "count = 0\ndef inner():\n    nonlocal count\n    count += 1\ninner()",
        "names.append('a')",
        "async for turn in ctx.loop('x', state=0):\n    turn.state = 1",
        "tools.append(1)",
        "tools.lists.append(1)",
        "class Local: ...\nLocal.x = 1",
    ],
)
def test_state_of_the_execution_is_right(text: str) -> None:
    assert codes(body(text, imports="counter = 0\ncache = {}\nimport tools")) == []


def test_the_variables_of_a_function_that_makes_workflows_outlive_their_executions() -> None:
    source = "from perdure import workflow\ndef make():\n    seen = []\n    count = 0\n    @workflow\n    async def f(ctx):\n        nonlocal count\n"
    assert codes(f"{source}        count += 1\n        seen.append(1)\n    return f") == ["PD401", "PD402"]


@pytest.mark.parametrize("default", ["[]", "{}", "set()", "list()", "collections.defaultdict(list)", "[1]"])
def test_a_default_that_can_be_changed_is_found(default: str) -> None:
    assert (
        codes(f"import collections\nfrom perdure import Context, workflow\n@workflow\nasync def f(ctx: Context, x={default}, *, y={default}): ...")
        == ["PD403"] * 2
    )


CLEANUP = [
    ("try:\n    await ctx.sleep(1)\nexcept:\n    pass", ["PD501"]),
    ("try:\n    await ctx.sleep(1)\nexcept (ValueError, BaseException) as error:\n    return error", ["PD501"]),
    ("try:\n    await helper()\nexcept asyncio.CancelledError:\n    return 1", ["PD501"]),
    ("try:\n    await ctx.sleep(1)\nexcept ValueError:\n    pass\nexcept CancelledError:\n    ctx.log.info('x')", ["PD501"]),
    ("with contextlib.suppress(BaseException):\n    await ctx.sleep(1)", ["PD501"]),
    ("try:\n    await ctx.sleep(1)\nfinally:\n    await ctx.step(charge)", ["PD502"]),
    ("try:\n    await ctx.sleep(1)\nexcept CancelledError:\n    await ctx.step(charge)\n    raise", ["PD502"]),
]


@pytest.mark.parametrize(("text", "expected"), CLEANUP)
def test_cancellation_that_is_kept_or_answered_with_work_is_found(text: str, expected: list[str]) -> None:
    assert codes(body(text, imports="import asyncio, contextlib\nfrom asyncio import CancelledError\nasync def helper(): ...")) == expected


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    await ctx.sleep(1)\nexcept Exception:\n    return 1",
        "try:\n    await ctx.sleep(1)\nexcept BaseException:\n    ctx.log.info('x')\n    raise",
        "try:\n    names.pop()\nexcept:\n    return 1",
        "task = asyncio.create_task(ctx.sleep(1))\ntask.cancel()\ntry:\n    await task\nexcept asyncio.CancelledError:\n    pass",
        "with contextlib.suppress(StepFailed):\n    await ctx.step(charge)",
        "try:\n    await ctx.sleep(1)\nfinally:\n    ctx.log.info('x')",
        "try:\n    await ctx.sleep(1)\nexcept StepFailed:\n    await ctx.step(charge)\n    raise",
    ],
)
def test_cancellation_that_passes_is_right(text: str) -> None:
    assert codes(body(text, imports="import asyncio, contextlib")) == []


def test_a_sync_workflow_keeps_no_cancellation_either() -> None:
    assert codes(sync_body("try:\n    ctx.sleep(1)\nexcept BaseException:\n    return 1")) == ["PD501"]


@pytest.mark.parametrize(
    "text",
    [
        "def note(name):\n    names.append(name)\nawait ctx.step(note, 'a')",
        "await ctx.step('note', lambda: names.append('a'))",
        "await ctx.keep('note', lambda: names.append('a'))",
        "found = {}\nasync def note(name):\n    found[name] = 1\nawait ctx.attempt(note, 'a')",
        "count = 0\ndef note():\n    nonlocal count\n    count += 1\nawait ctx.step(note)",
        "found = set()\ndef note(name):\n    found.add(name)\nawait ctx.step(partial(note, 'a'))",
        "found = []\n@step\ndef note(name):\n    found.append(name)\nawait ctx.step(note.with_(name='n'), 'a')",
        "async for turn in ctx.loop('x', state=0):\n    def note():\n        turn.state = 1\n    await turn.step(note)",
    ],
)
def test_a_step_that_changes_the_workflow_s_variables_is_found(text: str) -> None:
    assert codes(body(text, imports="from functools import partial")) == ["PD404"]


@pytest.mark.parametrize(
    "text",
    [
        "def note(name):\n    found = []\n    found.append(name)\n    return found\nnames.extend(await ctx.step(note, 'a'))",
        "def note(names):\n    names.append('a')\n    return names\nnames = await ctx.step(note, names)",
        "found = []\ndef note(name):\n    found.append(name)\nnote('a')",
        "found = []\nasync def branch(c):\n    found.append(await c.step(charge, 'a'))\nawait ctx.join(branch)",
        "client = await ctx.step(charge, 'a')\nawait ctx.step(lambda: client.update())",
    ],
)
def test_what_a_step_keeps_to_itself_or_returns_is_right(text: str) -> None:
    assert [code for code in codes(body(text)) if code != "PD310"] == []


ADDING = "async def add(c, name):\n    nonlocal total\n    {}\n"


@pytest.mark.parametrize(
    "text",
    [
        "total = 0\n" + ADDING.format("total += await c.step(charge, name)") + "await ctx.map(add, names)",
        "total = 0\n" + ADDING.format("total = total + await c.step(charge, name)") + "await ctx.map(add, names)",
        "total = 0\n" + ADDING.format("total += 2 * len(await c.step(charge, name))") + "await ctx.join(add, add)",
        "sums = {}\nasync def add(c, name):\n    sums['a'] += await c.step(charge, name)\nawait ctx.map(add, names)",
        "n = 0\nasync def one(c):\n    nonlocal n\n    n += await c.step(charge, 1)\nasync def two(c):\n    nonlocal n\n    n -= 1\nawait ctx.join(one, two)",
        "total = 0\nasync def one():\n    nonlocal total\n    total += await ctx.step(charge, 1)\nawait asyncio.gather(one(), one())",
    ],
)
def test_a_sum_that_branches_share_and_that_waits_is_found(text: str) -> None:
    assert codes(body(text, imports="import asyncio")) == ["PD205"]


@pytest.mark.parametrize(
    "text",
    [
        "total = 0\nfor name in names:\n    total += await ctx.step(f'charge {name}', charge, name)",
        "total = 0\n" + ADDING.format("found = await c.step(charge, name)\n    total += found") + "await ctx.map(add, names)",
        "total = 0\n" + ADDING.format("total = await c.step(charge, name) + total") + "await ctx.map(add, names)",
        "total = 0\nasync def one(c):\n    nonlocal total\n    total += await c.step(charge, 1)\nawait ctx.join(one, lambda c: c.sleep(1))",
        "total = 0\nasync def one():\n    nonlocal total\n    total += await ctx.step(charge, 1)\nawait one()\nawait one()",
        "async def one(c):\n    total = 0\n    total += await c.step(charge, 1)\nawait ctx.map(one, names)",
    ],
)
def test_a_sum_that_nothing_else_writes_while_it_waits_is_right(text: str) -> None:
    assert codes(body(text, imports="import asyncio")) == []
