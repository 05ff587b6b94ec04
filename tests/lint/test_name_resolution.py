"""What a name means: followed through imports and aliases, and left alone where something else has it."""

import pytest

from tests.lint.snippets import body, codes

MEANT = [
    ("import datetime", "datetime.datetime.now()", "PD101"),
    ("import datetime as dt", "dt.datetime.utcnow()", "PD101"),
    ("from datetime import datetime as moment", "moment.now()", "PD101"),
    ("from datetime import date", "date.today()", "PD101"),
    ("from time import monotonic as clock", "clock()", "PD101"),
    ("from time import *", "perf_counter()", "PD101"),
    ("import time\nnow = time.time", "now()", "PD101"),
    ("import time", "now = time.time\nnow()", "PD101"),
    ("import asyncio", "loop = asyncio.get_running_loop()\nloop.time()", "PD101"),
    ("import asyncio", "asyncio.get_event_loop().call_later(1, print)", "PD103"),
    ("from random import choice as c", "c(names)", "PD105"),
    ("import numpy as np", "np.random.rand()", "PD105"),
    ("import random", "random.Random().random()", "PD105"),
    ("import random", "r = random.SystemRandom()", "PD106"),
    ("import uuid as u", "u.uuid1()", "PD107"),
    ("import os", "os.environ.get('X')", "PD108"),
    ("from os import environ, getenv", "getenv('X')", "PD108"),
    ("from os import environ", "environ['X']", "PD108"),
    ("import os.path", "os.path.exists('x')", "PD110"),
    ("from os import path", "path.getsize('x')", "PD110"),
    ("", "open('x')", "PD110"),
    ("from pathlib import Path", "(Path('a') / 'b').exists()", "PD110"),
    ("from pathlib import Path", "where = Path('a').parent\nwhere.write_text('x')", "PD110"),
    ("import shutil", "shutil.rmtree('x')", "PD110"),
    ("import requests", "requests.get('x')", "PD111"),
    ("import requests", "s = requests.Session()", "PD111"),
    ("import httpx", "async with httpx.AsyncClient() as client: ...", "PD111"),
    ("import urllib.request", "urllib.request.urlopen('x')", "PD111"),
    ("from socket import socket", "socket()", "PD111"),
    ("import smtplib", "smtplib.SMTP('x')", "PD111"),
    ("from perdure import Client", "Client()", "PD112"),
    ("import os", "os.system('x')", "PD113"),
    ("import asyncio.subprocess", "await asyncio.create_subprocess_exec('x')", "PD113"),
    ("from concurrent.futures import ThreadPoolExecutor", "ThreadPoolExecutor()", "PD114"),
    ("import threading as t", "t.Thread(target=print).start()", "PD114"),
    ("import logging\nlogger = logging.getLogger(__name__)", "logger.info('x')", "PD117"),
    ("import sys", "sys.stdout.write('x')", "PD117"),
    ("", "raise SystemExit(1)", "PD118"),
]


@pytest.mark.parametrize(("imports", "text", "code"), MEANT)
def test_a_name_is_followed_to_what_it_means(imports: str, text: str, code: str) -> None:
    assert codes(body(text, imports=imports)) == [code]


def test_a_hint_says_what_a_parameter_is() -> None:
    source = "from pathlib import Path\nfrom perdure import Context, workflow\n@workflow\nasync def f(ctx: Context, file: Path): file.read_text()"
    assert codes(source) == ["PD110"]
    assert codes(source.replace("file: Path", "file: 'Path'")) == ["PD110"]
    assert codes(source.replace("file: Path", "file: Path | Book")) == []


SHADOWED = [
    ("import time", "time = names\ntime.time()"),
    ("import time", "for time in names:\n    time.time()"),
    ("import time", "with flag as (time, x):\n    time.time()"),
    ("import time", "def inner(time): time.time()"),
    ("import time", "(lambda time: time.time())(names)"),
    ("import time", "[time.time() for time in names]"),
    ("import time", "try:\n    pass\nexcept ValueError as time:\n    time.time()"),
    ("import time", "match names:\n    case [time]:\n        time.time()"),
    ("import time", "import clock as time\ntime.time()"),
    ("import time", "def time(): ...\ntime()"),
    ("import time", "if (time := names):\n    time.time()"),
    ("import time\ntime = object()", "time.time()"),
    ("import time\nclass Time:\n    time = 1", "Time.time()"),
    ("from clock import time", "time()"),
    ("from .time import time", "time()"),
    ("def open(name): ...", "open('x')"),
    ("from files import open", "open('x')"),
    ("", "id = names\nid(1)"),
    ("", "def print(x): ...\nprint(1)"),
    ("", "input = names[0]\ninput.strip()"),
    ("from random import Random", "Random(7).random()"),
    ("import random", "random.Random(7).choice(names)"),
    ("import numpy as np", "np.random.default_rng(7)"),
    ("", "ctx.random.choice(names)"),
    ("", "ctx.now()"),
    ("import uuid", "uuid.uuid5(uuid.NAMESPACE_DNS, 'x')"),
    ("import time", "time.gmtime(0), time.strftime('%Y', time.gmtime(0))"),
    ("from datetime import UTC, datetime", "datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(0, tz=UTC), ctx.now().astimezone(UTC)"),
    ("from pathlib import Path", "Path('a') / 'b', Path('a').name, Path('a').with_suffix('.b')"),
    ("import requests", "raise requests.HTTPError('x')"),
    ("from urllib.parse import quote", "quote('x')"),
    ("import os.path", "os.path.join('a', 'b')"),
    ("import asyncio", "await asyncio.sleep(0)"),
    ("import asyncio", "async with asyncio.timeout(None): ..."),
    ("import asyncio", "async with asyncio.Lock(): ..."),
    ("import logging", "logging.getLogger(__name__)"),
]


@pytest.mark.parametrize(("imports", "text"), SHADOWED)
def test_a_name_that_means_something_else_is_left_alone(imports: str, text: str) -> None:
    assert codes(body(text, imports=imports)) == []


def test_a_name_that_means_itself_means_nothing() -> None:
    assert codes(body("x = x.y\nx()\ny = z\nz = y\nz()")) == []


def test_the_name_of_a_class_is_not_that_of_its_methods() -> None:
    source = "import time\nfrom perdure import Context\nclass A:\n    time = 1\n    async def f(self, ctx: Context): time.time()"
    assert codes(source) == ["PD101"]


def test_defaults_are_looked_into_because_each_process_makes_its_own() -> None:
    assert codes("import time\nfrom perdure import Context, workflow\n@workflow\nasync def f(ctx: Context, at=time.time()): ...") == ["PD101"]
