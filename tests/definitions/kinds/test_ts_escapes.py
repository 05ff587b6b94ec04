"""What strangers write in TypeScript: each tries to get out, to see what it must not, or to take more than there is. After each, the sandbox still answers.

A row is what it tries, the source, and what has to come of it: a value, or an error and what that says. Rows are added, and none is taken away.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from perdure.core.errors import OutOfMemory, OutOfTime, OutputTooLarge, SandboxLimit, SourceFailed
from perdure.definitions.kinds.sandbox import sandbox_pool
from perdure.definitions.kinds.sandbox.sandbox_pool import SandboxLimits, run_job

QUICK = SandboxLimits(wall_s=0.05, memory_bytes=16_000_000, output_bytes=1_000_000)
SMALL = QUICK._replace(wall_s=20.0)
CALM = SandboxLimits(wall_s=20.0, memory_bytes=64_000_000, output_bytes=1_000_000)
LIMITS = {OutOfTime: QUICK, OutOfMemory: SMALL, SandboxLimit: QUICK, Exception: QUICK}
"""What there is for what is to end by which error; all else has time."""


class Fails(NamedTuple):
    """An error that is of this class and says this."""

    error: type[Exception] = SourceFailed
    said: str = ""


def returns(expression: str) -> str:
    """A source that returns the value of an expression."""
    return f"export default (input: any) => {expression}"


def does(*statements: str) -> str:
    """A source whose function does this."""
    return "export default (input: any) => {\n" + "\n".join(statements) + "\n}"


OUT_OF_TIME, OUT_OF_MEMORY, EITHER = Fails(OutOfTime), Fails(OutOfMemory), Fails(SandboxLimit)
DEEP = Fails(SourceFailed, "RangeError: Maximum call stack size exceeded")

ROWS: list[tuple[str, str, Any]] = [
    # ways out by what there is
    ("process", returns("process.env"), Fails(said="there is no process in a sandbox")),
    ("require", returns("require('fs')"), Fails(said="there are no modules in a sandbox")),
    ("require by alias", does("const r = require", "return r('child_' + 'process')"), Fails(said="there are no modules")),
    ("import of a module", "import fs from 'fs'\nexport default () => fs", Fails(said="there are no modules")),
    ("import for its effect", "import '/etc/passwd'\nexport default () => 1", Fails(said="there are no modules")),
    ("export from a module", "export * from 'os'\nexport default () => 1", Fails(said="there are no modules")),
    ("import()", "export default async () => await import('fs')", Fails(said="there are no modules")),
    ("import() of a file", "export default async () => await import('/etc/passwd')", Fails(said="could not load module")),
    ("import() of a URL", "export default async () => await import('data:text/javascript,export default 1')", Fails(said="could not load module")),
    ("import() in Function", "export default async () => await Function('return import(\"std\")')()", Fails(said="could not load module")),
    ("import.meta", returns("import.meta.url"), Fails(said="SyntaxError")),
    ("std and os", returns("[typeof std, typeof os, typeof bjson, typeof scriptArgs]"), ["undefined"] * 4),
    ("globals of other hosts", returns("[typeof Deno, typeof Bun, typeof window, typeof self, typeof global, typeof WebAssembly]"), ["undefined"] * 6),
    ("fetch", returns("fetch('http://localhost')"), Fails(said="there is no fetch in a sandbox: send requests in a step of kind http")),
    ("XMLHttpRequest", returns("new XMLHttpRequest()"), Fails(said="there is no XMLHttpRequest")),
    ("WebSocket and Worker", returns("[typeof WebSocket, typeof Worker, typeof EventSource, typeof postMessage]"), ["undefined"] * 4),
    ("setTimeout", returns("setTimeout(() => 1, 0)"), Fails(said="there is no setTimeout in a sandbox: there are no timers")),
    ("print and load", returns("[typeof print, typeof load, typeof read, typeof quit, typeof gc, typeof __loadScript]"), ["undefined"] * 6),
    ("names of the bundle", returns("[typeof sucrase, typeof host, typeof load, typeof begin]"), ["undefined"] * 4),
    # ways out by constructors and prototypes: they lead to the global object of the sandbox, in which there is nothing
    ("constructor.constructor", returns("[].constructor.constructor('return typeof process')()"), "undefined"),
    ("this of Function", returns("Object.keys(Function('return this')()).sort()"), ["console", "performance"]),
    (
        "Function of a generator",
        does("const G = Object.getPrototypeOf(function* () {}).constructor", "return G('yield typeof os')().next().value"),
        "undefined",
    ),
    ("Function of async", "export default async () => await Object.getPrototypeOf(async () => 1).constructor('return typeof std')()", "undefined"),
    ("eval", returns("eval('1 + 1')"), 2),
    ("indirect eval", returns("(0, eval)('typeof require + typeof module + typeof exports')"), "undefined" * 3),
    ("caller", does("return (function f() { return f.caller })()"), Fails(said="TypeError")),
    ("arguments.callee", does("return (function () { return arguments.callee })()"), Fails(said="TypeError")),
    ("an error's prepareStackTrace", does("Error.prepareStackTrace = (_, frames) => frames", "return typeof new Error().stack"), "object"),
    ("an error's frames", does("Error.prepareStackTrace = (_, f) => f.map(x => typeof x.getThis)", "return new Error().stack.includes('function')"), False),
    ("the constructor of console", returns("console.log.constructor('return this')() === globalThis"), True),
    ("module and exports", returns("[typeof module, Object.keys(exports)]"), ["object", ["default"]]),
    ("exports as a getter", "Object.defineProperty(exports, 'default', {get() { throw new Error('got') }})", Fails(said="Error: got")),
    ("exports as a proxy", "export default new Proxy(() => 1, {apply() { return 'trapped' }})", "trapped"),
    ("a brace too many", "}); globalThis.x = 1; (function () {", Fails(said="SyntaxError")),
    ("a comment to the end", "export default () => 1 /*", Fails(said="SyntaxError")),
    ("a line comment to the end", "export default () => 1 //", 1),
    ("an HTML comment", "export default () => 1\n<!-- x", 1),
    ("return at the top", "return 1", Fails(said="it exports no function")),
    ("await at the top", "await 1\nexport default () => 1", Fails(said="SyntaxError")),
    ("a label", "a: for (;;) { break a }\nexport default () => { b: { break b } return 'past' }", "past"),
    ("with", "export default (input) => { with (input) { return 1 } }", Fails(said="SyntaxError")),
    ("NUL in the source", "export default () => 1\0 + 1", Fails(said="it has a character NUL")),
    ("a source map", "//# sourceMappingURL=file:///etc/passwd\nexport default () => 1", 1),
    # what it returns, and what that would do
    ("__proto__ in the result", does('return JSON.parse(\'{"__proto__": {"polluted": true}}\')'), {"__proto__": {"polluted": True}}),
    ("__proto__ in the input", returns("[input.polluted === undefined, Object.keys(input)]"), [True, ["__proto__"]]),
    ("a prototype that is changed", does("Object.prototype.polluted = 1", "Array.prototype.toJSON = () => 'no'", "return {a: []}"), {"a": "no"}),
    ("JSON that is changed", does("JSON.stringify = () => '0'", "JSON.parse = () => 0", "return 'kept'"), "kept"),
    ("Promise that is changed", "Promise.prototype.then = () => 1\nglobalThis.Promise = null\nexport default async () => 'kept'", "kept"),
    ("Reflect and Map that are changed", does("Reflect.apply = Map = Set = Error = String = undefined", "console.log(1)", "return 'kept'"), "kept"),
    (
        "a String that is changed",
        does("String.prototype.slice = String.prototype.toWellFormed = () => 'no'", "throw new Error('kept')"),
        Fails(said="Error: kept"),
    ),
    ("a thenable", returns("({then(resolve) { resolve('from then') }})"), "from then"),
    ("a thenable that never ends", returns("({then() {}})"), Fails(said="never settles")),
    ("a promise that never ends", returns("new Promise(() => {})"), Fails(said="never settles")),
    ("a BigInt", returns("10n ** 20n"), Fails(said="the result is a BigInt")),
    ("NaN within", returns("({a: [1, 0 / 0]})"), Fails(said='the result has, as "1", NaN')),
    ("a function", returns("({f() {}})"), Fails(said='the result has, as "f", a function')),
    ("a symbol", returns("Symbol.iterator"), Fails(said="the result is a symbol")),
    ("a cycle", does("const a: any = {}", "a.a = a", "return a"), Fails(said="circular reference")),
    ("half a character", returns("'\\ud800'"), Fails(said="can't be stored")),
    ("a getter that throws", returns("({get a() { throw new Error('got') }})"), Fails(said="Error: got")),
    ("toJSON that throws", returns("({toJSON() { throw 'thrown' }})"), Fails(said="has failed: thrown")),
    ("a revoked proxy", does("const p = Proxy.revocable({}, {})", "p.revoke()", "return p.proxy"), Fails(said="TypeError")),
    ("a result that is deep", does("let a: any = 1", "for (let i = 0; i < 5000; i++) a = [a]", "return a"), Fails(said="")),
    ("a result that is large", returns("'x'.repeat(1_000_001)"), Fails(OutputTooLarge, "more than 1,000,000 bytes")),
    ("a result that is large in bytes", returns("'é'.repeat(600_000)"), Fails(OutputTooLarge)),
    ("a result of many", returns("Array.from({length: 300_000}, (_, i) => i)"), Fails(OutputTooLarge)),
    ("a result that doubles", does("let a: any = [1]", "for (let i = 0; i < 40; i++) a = [a, a]", "return a"), EITHER),
    # what it throws
    ("throw null", does("throw null"), Fails(said="null was thrown")),
    ("throw undefined", does("throw undefined"), Fails(said="undefined")),
    ("throw a proxy", does("throw new Proxy({}, {get() { throw 1 }, getPrototypeOf() { throw 2 }})"), Fails(said="can't be shown")),
    ("an error with an evil name", does("const e: any = new Error('x')", "Object.defineProperty(e, 'name', {get() { throw 1 }})", "throw e"), Fails()),
    ("an error with an evil message", does("const e: any = new Error()", "e.message = {toString() { throw 1 }}", "throw e"), Fails()),
    ("an error that is large", does("throw new Error('x'.repeat(1e6))"), Fails(said="Error: xxx")),
    ("an error of half a character", does("throw new Error('\\ud800')"), Fails(said="Error: \ufffd")),
    ("throw at the top", "throw new TypeError('at the top')", Fails(said="TypeError: at the top")),
    ("throw in a microtask", does("queueMicrotask(() => { throw new Error('later') })", "return new Promise(() => {})"), Fails(said="Error: later")),
    ("an error that names a limit", does("throw new RangeError('interrupted')"), Fails(said="RangeError: interrupted")),
    # memory
    ("memory by arrays", does("const a = []", "while (true) a.push(new Array(1000).fill(0))"), EITHER),
    ("memory by objects", does("const a = []", "while (true) a.push({})"), EITHER),
    ("memory by text that doubles", does("let s = 'x'", "while (true) s += s"), Fails(Exception)),
    ("memory by repeat", returns("'x'.repeat(2 ** 28).length"), OUT_OF_MEMORY),
    ("memory by padStart", returns("''.padStart(2 ** 28, 'ab').length"), OUT_OF_MEMORY),
    ("memory by join", returns("new Array(2 ** 25).join('abcdefgh').length"), EITHER),
    ("memory by replaceAll", does("let s = 'a'.repeat(1e5)", "while (true) s = s.replaceAll('a', 'aaaaaaaaaa')"), EITHER),
    ("memory by typed arrays", returns("new Uint8Array(2 ** 30).length"), OUT_OF_MEMORY),
    ("a little more memory than there is", returns("new Uint8Array(3e7).length"), OUT_OF_MEMORY),
    ("memory by array buffers", does("const a = []", "while (true) a.push(new ArrayBuffer(1e6))"), OUT_OF_MEMORY),
    (
        "memory by a buffer that grows",
        does("const b: any = new ArrayBuffer(8, {maxByteLength: 2 ** 32})", "b.resize(2 ** 31)", "return b.byteLength"),
        Fails(Exception),
    ),
    ("memory by shared buffers", returns("new SharedArrayBuffer(2 ** 30).byteLength"), Fails(Exception)),
    ("memory by a regular expression", returns("new RegExp('(?:' + 'a?'.repeat(1e6) + ')').test('a')"), True),
    ("memory by BigInt", does("let n = 10n", "while (true) n = n * n"), Fails(Exception)),
    ("memory by a power of BigInt", returns("(2n ** (2n ** 40n)).toString().length"), Fails(Exception)),
    ("memory by maps", does("const m = new Map()", "for (let i = 0; ; i++) m.set(i, i)"), EITHER),
    ("memory by weak references", does("const a = []", "while (true) a.push(new WeakRef({}))"), EITHER),
    ("memory by promises", does("const a = []", "while (true) a.push(new Promise(() => {}))"), EITHER),
    ("memory by generators", does("const a = []", "while (true) { const g = (function* () { yield 1 })(); g.next(); a.push(g) }"), EITHER),
    ("memory by Error.stackTraceLimit", does("Error.stackTraceLimit = Infinity", "const a = []", "while (true) a.push(new Error('x'))"), EITHER),
    ("memory that is caught", does("const a = []", "while (true) try { a.push('x'.repeat(1e6) + a.length) } catch {}"), OUT_OF_TIME),
    ("an array of a great length", returns("new Array(2 ** 32 - 1).fill(0).length"), EITHER),
    ("a list of arguments", returns("Math.max(...new Array(1e7).fill(0))"), Fails(Exception)),
    # the stack
    ("recursion", does("const f: any = () => f() + 1", "return f()"), DEEP),
    ("recursion of getters", does("const o: any = {get a() { return this.a }}", "return o.a"), DEEP),
    ("recursion of proxies", does("let p: any = {}", "for (let i = 0; i < 1e5; i++) p = new Proxy(p, {})", "return p.a === undefined"), Fails(Exception)),
    ("recursion of toString", does("const o: any = {toString() { return '' + o }}", "return '' + o"), DEEP),
    ("recursion of JSON", does("let s = '['.repeat(1e6)", "return JSON.parse(s)"), Fails()),
    ("recursion that is caught", does("let depth = 0", "const f = () => { depth++; try { f() } catch { f() } }", "f()"), Fails(Exception)),
    ("recursion of the source", "export default () => " + "(" * 50_000 + "1" + ")" * 50_000, Fails(said="SyntaxError")),
    ("recursion of a regular expression", returns("new RegExp('('.repeat(1e5) + ')'.repeat(1e5)).test('')"), Fails()),
    ("recursion of apply", does("const f: any = (...a: any[]) => f.apply(null, a)", "return f(1)"), DEEP),
    # time
    ("a loop", does("while (true) {}"), OUT_OF_TIME),
    ("a loop at the top", "while (true) {}\nexport default () => 1", OUT_OF_TIME),
    ("a loop in finally", does("try { while (true) {} } finally { while (true) {} }"), OUT_OF_TIME),
    ("a loop in catch", does("for (;;) try { for (;;) {} } catch {}"), OUT_OF_TIME),
    ("a loop in a getter", returns("({get a() { while (true) {} }})"), OUT_OF_TIME),
    ("a loop in toJSON", returns("({toJSON() { while (true) {} }})"), OUT_OF_TIME),
    ("a loop in a proxy", returns("new Proxy({}, {ownKeys() { while (true) {} }})"), OUT_OF_TIME),
    ("a loop in then", returns("({then() { while (true) {} }})"), OUT_OF_TIME),
    ("a loop in an error", does("const e: any = new Error()", "Object.defineProperty(e, 'message', {get() { while (true) {} }})", "throw e"), OUT_OF_TIME),
    ("a loop in what is printed", does("console.log({toJSON() { while (true) {} }})"), OUT_OF_TIME),
    ("a loop of awaits", "export default async () => { while (true) await null }", OUT_OF_TIME),
    ("a loop of microtasks", does("const f = () => queueMicrotask(f)", "f()", "return new Promise(() => {})"), OUT_OF_TIME),
    ("microtasks that go on behind the result", does("const f = () => queueMicrotask(f)", "f()", "return 'done'"), "done"),
    ("a loop of async generators", "export default async () => { for await (const _ of (async function* () { while (true) yield 1 })()); }", OUT_OF_TIME),
    ("a regular expression that backtracks", returns("/^(a+)+$/.test('a'.repeat(60) + 'b')"), OUT_OF_TIME),
    ("a regular expression with references", returns("/(x+x+)+\\1y/.test('x'.repeat(60))"), OUT_OF_TIME),
    ("a comparator that never ends", returns("[3, 2, 1].sort(() => { while (true) {} })"), OUT_OF_TIME),
    ("an iterator that never ends", returns("[...{[Symbol.iterator]() { return {next() { return {done: false} }} }}]"), EITHER),
    ("an array that is not one", returns("Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)"), OUT_OF_TIME),
    ("a native loop", returns("Array.prototype.fill.call({length: 2 ** 40}, 0)"), EITHER),
    ("Atomics.wait", does("const a = new Int32Array(new SharedArrayBuffer(8))", "Atomics.wait(a, 0, 0)"), Fails(Exception)),
    ("a loop in a finalizer", does("const r = new FinalizationRegistry(() => { while (true) {} })", "r.register({}, 1)", "return 'done'"), OUT_OF_TIME),
    ("a loop that prints", does("while (true) console.log('x'.repeat(1000))"), OUT_OF_TIME),
    ("a loop in the decoding of a source", "export default () => `" + "${`" * 2000 + "`}" * 2000 + "`", Fails(Exception)),
    # what it prints
    ("printing much", does("for (let i = 0; i < 20_000; i++) console.log('x'.repeat(100))", "return 'done'"), "done"),
    ("printing what can't be shown", does("console.log(new Proxy({}, {get() { throw 1 }}), Symbol('s'), 1n, null)", "return 'done'"), "done"),
    ("printing half a character", does("console.log('\\ud800')", "return 'done'"), "done"),
    ("printing NUL", does("console.log('a\\0b')", "return 'done'"), "done"),
    ("console that is changed", does("console.log = console.error = undefined as any", "delete (globalThis as any).console", "return 'done'"), "done"),
    # time and chance are real, and nothing else of the world
    ("the clock", returns("Date.now() > 1.7e12 && Math.random() >= 0 && Math.random() < 1"), True),
    ("the time zone", returns("new Date(0).getTimezoneOffset()"), 0),
    ("performance", returns("typeof performance.now()"), "number"),
    ("locales", returns("typeof Intl"), "undefined"),
]


@pytest.fixture(scope="module", autouse=True)
def sandboxes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as quicker:
        quicker.setattr(sandbox_pool, "GRACE_S", 0.02)
        yield
    sandbox_pool.close_pool()


@pytest.mark.slow
@pytest.mark.parametrize(("source", "comes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
async def test_what_strangers_write_gets_nowhere(source: str, comes: Any) -> None:
    given = {"source": source, "input": {"__proto__": {"polluted": True}}}
    if isinstance(comes, Fails):
        with pytest.raises(comes.error) as caught:
            await run_job("js", given, LIMITS.get(comes.error, CALM))
        assert isinstance(caught.value, SourceFailed | SandboxLimit) and comes.said in str(caught.value) and len(str(caught.value)) < 6000
    else:
        assert (await run_job("js", given, CALM))["value"] == comes
    assert (await run_job("js", {"source": returns("1 + 1"), "input": None}, CALM))["value"] == 2


def test_there_are_enough_of_them() -> None:
    assert len({row[0] for row in ROWS}) == len(ROWS) >= 60
