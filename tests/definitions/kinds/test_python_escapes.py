"""What strangers write in Python: each tries to get out, to see what it must not, or to take more than there is. After each, the sandbox still answers.

A row is what it tries, the source, and what has to come of it: a value, or an error and what that says. Rows are added, and none is taken away.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from perdure.core.errors import OutOfMemory, OutOfTime, OutputTooLarge, SandboxLimit, SourceFailed
from perdure.definitions.kinds.sandbox import monty_pool
from perdure.definitions.kinds.sandbox.python_kind import PythonRun
from perdure.definitions.kinds.sandbox.sandbox_pool import SandboxLimits

QUICK = SandboxLimits(wall_s=0.05, memory_bytes=16_000_000, output_bytes=1_000_000)
SMALL = QUICK._replace(wall_s=20.0)
CALM = SandboxLimits(wall_s=20.0, memory_bytes=64_000_000, output_bytes=1_000_000)
LIMITS = {OutOfTime: QUICK, OutOfMemory: SMALL, SandboxLimit: QUICK, Exception: QUICK}
"""What there is for what is to end by which error; all else has time."""


class Fails(NamedTuple):
    """An error that is of this class and says this."""

    error: type[Exception] = SourceFailed
    said: str = ""


def does(*lines: str) -> str:
    """A source whose ``main`` does this."""
    return "\n    ".join(("def main(input):", *lines))


def returns(expression: str) -> str:
    """A source that returns the value of an expression."""
    return does(f"return {expression}")


OUT_OF_TIME, OUT_OF_MEMORY, EITHER, ANY = Fails(OutOfTime), Fails(OutOfMemory), Fails(SandboxLimit), Fails(Exception)
DEEP = Fails(SourceFailed, "RecursionError")

ROWS: list[tuple[str, str, Any]] = [
    # files, processes, network, environment
    ("open", returns("open('/etc/passwd').read()"), Fails(said="PermissionError")),
    ("open to write", does("f = open('/tmp/x', 'w')", "f.write('x')"), Fails(said="PermissionError")),
    ("open of /proc", returns("open('/proc/self/environ', 'rb').read()"), Fails(said="PermissionError")),
    ("open of a descriptor", returns("open(0).read()"), Fails()),
    ("open of itself", returns("open(__file__).read()"), Fails(said="PermissionError")),
    ("pathlib", does("import pathlib", "return str(pathlib.Path('/').exists())"), Fails(said="PermissionError")),
    ("pathlib to list", does("from pathlib import Path", "return [str(p) for p in Path('/').iterdir()]"), Fails(said="PermissionError")),
    ("pathlib to write", does("from pathlib import Path", "Path('/tmp/x').write_text('x')"), Fails(said="PermissionError")),
    ("os.environ", does("import os", "return dict(os.environ)"), Fails()),
    ("os.getenv", does("import os", "return os.getenv('HOME')"), Fails()),
    ("os.system", does("import os", "os.system('true')"), Fails()),
    ("os.popen", does("import os", "return os.popen('id').read()"), Fails()),
    ("os.listdir", does("import os", "return os.listdir('/')"), Fails()),
    ("os.kill", does("import os", "os.kill(os.getppid(), 9)"), Fails()),
    ("os.fork", does("import os", "while True: os.fork()"), Fails()),
    ("os._exit", does("import os", "os._exit(0)"), Fails()),
    ("os.getcwd", does("import os", "return os.getcwd()"), "/"),
    ("subprocess", does("import subprocess"), Fails(said="No module named 'subprocess'")),
    ("socket", does("import socket"), Fails(said="No module named 'socket'")),
    ("urllib", does("import urllib.request"), Fails(said="No module named")),
    ("http", does("from http.client import HTTPConnection"), Fails(said="No module named")),
    ("ctypes", does("import ctypes"), Fails(said="No module named")),
    ("signal", does("import signal"), Fails(said="No module named")),
    ("threading", does("import threading"), Fails(said="No module named")),
    ("multiprocessing", does("import multiprocessing"), Fails(said="No module named")),
    ("importlib", does("import importlib", "return importlib.import_module('os')"), Fails(said="No module named")),
    ("builtins", does("import builtins", "return builtins.open"), Fails(said="No module named")),
    ("gc", does("import gc", "return gc.get_objects()"), Fails(said="No module named")),
    ("inspect", does("import inspect"), Fails(said="No module named")),
    ("pickle", does("import pickle"), Fails(said="No module named")),
    ("tempfile", does("import tempfile"), Fails(said="No module named")),
    ("a module of the engine", does("import perdure"), Fails(said="No module named 'perdure'")),
    ("a module by a relative import", does("from . import x"), Fails()),
    ("__import__", returns("__import__('os').system('true')"), Fails()),
    ("asyncio's processes", does("import asyncio", "asyncio.create_subprocess_shell('true')"), Fails()),
    ("asyncio's connections", "import asyncio\nasync def main(input):\n    await asyncio.open_connection('localhost', 80)", Fails()),
    ("sys.modules", does("import sys", "return list(sys.modules)"), Fails()),
    ("sys._getframe", does("import sys", "return sys._getframe().f_globals"), Fails()),
    ("sys.exit", does("import sys", "sys.exit(1)"), Fails()),
    ("sys.stdout", does("import sys", "sys.stdout.buffer.write(b'x')"), Fails()),
    ("input()", does("del input", "return input('?')"), Fails()),
    ("breakpoint", does("breakpoint()"), Fails()),
    ("help", does("help()"), Fails()),
    # walks by dunders and formats
    ("__class__", returns("().__class__.__bases__[0].__subclasses__()"), Fails(said="AttributeError")),
    ("__mro__", returns("type(()).__mro__"), Fails()),
    ("__subclasses__", returns("type(1).__subclasses__()"), Fails(said="AttributeError")),
    ("__globals__", returns("main.__globals__"), Fails()),
    ("__code__", returns("main.__code__.co_consts"), Fails()),
    ("__closure__", returns("(lambda: input).__closure__[0].cell_contents"), Fails()),
    ("__builtins__", returns("__builtins__['open']"), Fails()),
    ("__loader__", returns("__loader__"), Fails()),
    ("__dict__ of a module", does("import json", "return list(json.__dict__)"), Fails()),
    ("getattr", returns("getattr((), '__cl' + 'ass__')"), Fails()),
    ("a format", returns("'{0.__class__.__mro__}'.format(1)"), Fails(said="AttributeError")),
    ("a format of globals", returns("'{0.__globals__}'.format(main)"), Fails()),
    ("an f-string", returns("f'{main.__globals__}'"), Fails()),
    ("a class with __reduce__", "class A:\n    def __reduce__(self): return (open, ('/etc/passwd',))\n" + returns("A()"), Fails(said="not JSON serializable")),
    ("a metaclass", "class M(type): pass\nclass A(metaclass=M): pass\n" + returns("1"), Fails()),
    ("type of three", returns("type('A', (), {'x': open})().x('/etc/passwd')"), Fails()),
    ("an exception's frames", does("try: 1 / 0", "except Exception as e: return e.__traceback__.tb_frame.f_globals"), Fails()),
    ("an exception's context", does("try: 1 / 0", "except Exception as e: return str(e.__context__)"), Fails()),
    ("a generator's frame", returns("(x for x in [1]).gi_frame.f_globals"), Fails()),
    ("a coroutine's frame", "async def f(): pass\n" + returns("f().cr_frame"), Fails()),
    ("globals", returns("globals()"), Fails(said="NameError")),
    ("vars", returns("vars()"), Fails()),
    ("locals", returns("sorted(locals())"), ["input"]),
    ("eval", returns("eval('1 + 1')"), 2),
    ("eval of an import", returns("eval('__import__(\"os\")')"), Fails()),
    ("exec of an import", does("exec('import socket')"), Fails(said="No module named")),
    ("compile", returns("compile('1', 'x', 'eval')"), Fails()),
    ("monkeypatching", does("import json", "json.dumps = lambda *a, **k: '1'"), Fails()),
    ("a name of the call", "_json = None\ndumps = None\n" + returns("'kept'"), "kept"),
    ("main that is a class", "class main: pass", Fails(said="main() takes no arguments")),
    ("main that is not there", "x = 1", Fails(said="it defines no main; write def main(input)")),
    ("main that is defined over", does("return 1") + "\nmain = None", Fails(said="TypeError")),
    ("main with two arguments", "def main(a, b): return 1", Fails(said="main() missing 1 required positional argument")),
    ("no Python", "def main(input):\n    return (", Fails(said="SyntaxError")),
    ("NUL in the source", "def main(input):\n    return 1\0", Fails()),
    ("an encoding that is declared", "# -*- coding: rot13 -*-\n" + returns("1"), 1),
    # what it returns and raises
    ("NaN", returns("float('nan')"), Fails(said="not JSON compliant")),
    ("a set", returns("{1, 2}"), Fails(said="not JSON serializable")),
    ("bytes", returns("b'x'"), Fails(said="not JSON serializable")),
    ("a function", returns("main"), Fails(said="not JSON serializable")),
    ("keys that are no text", returns("{1: 'a', None: 'b'}"), {"1": "a", "null": "b"}),
    ("keys that can't be text", returns("{(1, 2): 'a'}"), Fails(said="keys must be str")),
    ("a cycle", does("x = []", "x.append(x)", "return x"), Fails(said="Circular reference")),
    ("a result that is deep", does("x = []", "for _ in range(5000): x = [x]", "return x"), DEEP),
    ("a result that is large", returns("'x' * 1_000_001"), Fails(OutputTooLarge, "more than 1,000,000 bytes")),
    ("a result that is large in bytes", returns("'é' * 600_000"), Fails(OutputTooLarge)),
    ("a result that doubles", does("x = [1]", "for _ in range(40): x = [x, x]", "return x"), EITHER),
    ("a result of a great number", returns("10 ** 4000"), 10**4000),
    ("__proto__ in the result", returns("{'__proto__': {'a': 1}}"), {"__proto__": {"a": 1}}),
    ("half a character", returns("'\\ud800'"), "\ufffd"),
    ("raise SystemExit", does("raise SystemExit"), Fails()),
    ("raise KeyboardInterrupt", does("raise KeyboardInterrupt"), Fails(said="KeyboardInterrupt")),
    ("raise BaseException", does("raise BaseException('x')"), Fails()),
    ("raise of what is no error", does("raise 1"), Fails()),
    ("an error with a large message", does("raise ValueError('x' * 10 ** 6)"), Fails(said="ValueError")),
    ("an error whose text is an error", "class E(Exception):\n    def __str__(self): return 1 / 0\n" + does("raise E()"), Fails()),
    # memory
    ("memory by lists", does("x = []", "while True: x.append(x)"), EITHER),
    ("memory by text", returns("'x' * 10 ** 10"), OUT_OF_MEMORY),
    ("memory by bytes", returns("b'x' * 10 ** 10"), OUT_OF_MEMORY),
    ("memory by a list that is repeated", returns("[0] * 10 ** 10"), OUT_OF_MEMORY),
    ("memory by text that doubles", does("s = 'x'", "while True: s += s"), OUT_OF_MEMORY),
    ("memory by lists that double", does("x = [0]", "while True: x = x + x"), OUT_OF_MEMORY),
    ("memory by a power", returns("10 ** 10 ** 10"), OUT_OF_MEMORY),
    ("memory by powers of powers", returns("9 ** 9 ** 9 ** 9"), ANY),
    ("memory by shifts", returns("1 << 10 ** 12"), ANY),
    ("memory by products", does("n = 10", "while True: n = n * n"), EITHER),
    ("memory by range", returns("list(range(10 ** 10))"), EITHER),
    ("memory by a comprehension", returns("[i for i in range(10 ** 10)]"), EITHER),
    ("memory by a mapping", returns("{i: str(i) for i in range(10 ** 10)}"), EITHER),
    ("memory by a set", returns("len({i for i in range(10 ** 10)})"), EITHER),
    ("memory by join", returns("','.join(['x' * 1000] * 10 ** 6)"), OUT_OF_MEMORY),
    ("memory by replace", does("s = 'a' * 100", "while True: s = s.replace('a', 'aaaaaaaaaa')"), EITHER),
    ("memory by a format's width", returns("'{:>9999999999}'.format(1)"), ANY),
    ("memory by an f-string's width", returns("f'{1:>{10 ** 9}}'"), ANY),
    ("memory by %", returns("'%9999999999d' % 1"), ANY),
    ("memory by ljust", returns("'x'.ljust(10 ** 10)"), OUT_OF_MEMORY),
    ("memory by expandtabs", returns("'\\t'.expandtabs(10 ** 10)"), ANY),
    ("memory by bytes of a number", returns("(1).to_bytes(10 ** 10, 'big')"), ANY),
    ("memory by bytearray", returns("len(bytearray(10 ** 10))"), ANY),
    ("memory by itertools", does("import itertools", "return list(itertools.repeat(1))"), ANY),
    ("memory by JSON", does("import json", "x = [1]", "for _ in range(40): x = [x, x]", "return json.dumps(x)"), EITHER),
    ("memory by repr", does("x = [1]", "for _ in range(40): x = [x, x]", "return repr(x)"), EITHER),
    ("memory by sorting", returns("sorted(range(10 ** 9))"), EITHER),
    ("memory by zip", returns("list(zip(range(10 ** 9), range(10 ** 9)))"), EITHER),
    ("memory by unpacking", returns("[*range(10 ** 9)]"), EITHER),
    ("memory by a regular expression", does("import re", "return re.sub('', 'x' * 10 ** 5, 'y' * 10 ** 5)"), EITHER),
    ("memory by math", does("import math", "return math.factorial(10 ** 7)"), ANY),
    ("memory by combinations", does("import math", "return math.comb(10 ** 7, 5 * 10 ** 6)"), ANY),
    ("memory that is caught", does("while True:", "    try: 'x' * 10 ** 10", "    except MemoryError: pass"), EITHER),
    ("memory by classes", does("x = []", "while True:", "    class A: pass", "    x.append(A)"), EITHER),
    ("memory by closures", does("f = lambda: 1", "while True: f = (lambda g: lambda: g)(f)"), EITHER),
    ("memory by exceptions", does("e = ValueError()", "x = []", "while True: x.append(ValueError('x' * 1000))"), EITHER),
    ("memory by decimals", does("import decimal", "return str(decimal.Decimal(10) ** 10 ** 9)"), ANY),
    # the stack
    ("recursion", does("return main(input)"), DEEP),
    ("recursion of two", "def f(x): return g(x)\ndef g(x): return f(x)\n" + returns("f(1)"), DEEP),
    ("recursion of lambdas", returns("(lambda f: f(f))(lambda f: f(f))"), DEEP),
    ("recursion of repr", does("x = []", "for _ in range(10 ** 5): x = [x]", "return repr(x)[:1]"), "["),
    ("recursion of comparison", does("a, b = [], []", "for _ in range(10 ** 5): a, b = [a], [b]", "return a == b"), ANY),
    ("recursion of __eq__", "class A:\n    def __eq__(self, other): return self == other\n" + returns("A() == A()"), ANY),
    ("recursion of __getattr__", "class A:\n    def __getattr__(self, name): return getattr(self, name)\n" + returns("A().x"), ANY),
    ("recursion that is caught", does("try: return main(input)", "except RecursionError: return main(input)"), ANY),
    ("recursion of the source", returns("(" * 5000 + "1" + ")" * 5000), Fails(said="SyntaxError")),
    ("recursion of operators", returns("-" * 50_000 + "1"), Fails()),
    ("recursion of JSON", does("import json", "return json.loads('[' * 10 ** 6)"), Fails()),
    ("recursion of eval", returns("eval('(' * 10 ** 5 + ')' * 10 ** 5)"), Fails()),
    ("recursion of a regular expression", does("import re", "return re.compile('(' * 10 ** 5 + ')' * 10 ** 5).groups"), Fails()),
    # time
    ("a loop", does("while True: pass"), OUT_OF_TIME),
    ("a loop at the top", "while True: pass\n" + returns("1"), OUT_OF_TIME),
    ("a loop in finally", does("try:", "    while True: pass", "finally:", "    while True: pass"), OUT_OF_TIME),
    ("a loop in except", does("while True:", "    try: 1 / 0", "    except Exception: pass"), OUT_OF_TIME),
    ("a loop that catches its end", does("while True:", "    try:", "        while True: pass", "    except BaseException: pass"), OUT_OF_TIME),
    ("a loop in __repr__", "class A:\n    def __repr__(self):\n        while True: pass\n" + returns("repr(A())"), OUT_OF_TIME),
    ("a loop in a key", does("def key(x):", "    while True: pass", "return sorted([2, 1], key=key)"), OUT_OF_TIME),
    ("a loop of awaits", "import asyncio\nasync def main(input):\n    while True: await asyncio.sleep(0)", ANY),
    ("a long sleep", does("import time", "time.sleep(10 ** 6)", "return 'slept'"), "slept"),
    ("a long sleep, awaited", "import asyncio\nasync def main(input):\n    await asyncio.sleep(10 ** 6)\n    return 'slept'", "slept"),
    ("a regular expression that backtracks", does("import re", "return bool(re.match('(a+)+$', 'a' * 60 + 'b'))"), False),
    ("a regular expression with references", does("import re", "return bool(re.match(r'(x+x+)+\\1y', 'x' * 60))"), ANY),
    ("sum of a range", returns("sum(range(10 ** 12))"), OUT_OF_TIME),
    ("in a range of steps", returns("any(i < 0 for i in range(10 ** 12))"), EITHER),
    ("a power with a modulus", returns("pow(3, 10 ** 10 ** 5, 10 ** 10 ** 5 + 1)"), ANY),
    ("digits of a number", does("import sys", "sys.set_int_max_str_digits(0)", "return len(str(3 ** 10 ** 6))"), ANY),
    ("hashes that collide", returns("len({i * (2 ** 61 - 1) for i in range(10 ** 6)})"), ANY),
    ("find in text", returns("('a' * 10 ** 6).find('a' * 5 * 10 ** 5 + 'b')"), -1),
    ("names that are undefined", does("for _ in range(100_000):", "    try: undefined", "    except NameError: pass"), ANY),
    ("requests of the system", does("for _ in range(100_000):", "    try: open('/x')", "    except PermissionError: pass"), ANY),
    # what it prints
    ("printing much", does("for _ in range(10_000): print('x' * 100)", "return 'done'"), "done"),
    ("printing at once", does("print('x' * 10 ** 6)", "return 'done'"), "done"),
    ("printing without end", does("while True: print('x')"), OUT_OF_TIME),
    ("printing to standard error", does("import sys", "print('x', file=sys.stderr)", "return 'done'"), "done"),
    # time and chance are real, and nothing else of the world
    ("the clock", does("import time, random", "return time.time() > 1.7e9 and 0 <= random.random() < 1"), True),
    ("the time zone", does("import time", "return time.timezone"), 0),
]


@pytest.fixture(scope="module", autouse=True)
def sandboxes() -> Iterator[None]:
    yield
    monty_pool.close_monty_pool()


@pytest.mark.slow
@pytest.mark.parametrize(("source", "comes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_strangers_write_gets_nowhere(source: str, comes: Any) -> None:
    if isinstance(comes, Fails):
        with pytest.raises(comes.error) as caught:
            PythonRun(source, {"a": 1}, LIMITS.get(comes.error, CALM)).result()
        assert isinstance(caught.value, SourceFailed | SandboxLimit) and comes.said in str(caught.value) and len(str(caught.value)) < 6000
    else:
        assert PythonRun(source, {"a": 1}, CALM).result()[0] == comes
    assert PythonRun(returns("1 + 1"), None, CALM).result()[0] == 2


def test_there_are_enough_of_them() -> None:
    assert len({row[0] for row in ROWS}) == len(ROWS) >= 60
