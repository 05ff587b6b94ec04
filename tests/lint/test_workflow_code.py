"""Which functions are workflow code: workflows however they are declared, what is in them, and what they call; never steps."""

from textwrap import dedent

import pytest

from perdure.lint import lint
from tests.lint.snippets import body, codes

CLOCK = "time.time()"


@pytest.mark.parametrize(
    "source",
    [
        "import perdure\n@perdure.workflow\nasync def f(ctx): time.time()",
        "import perdure as p\n@p.workflow(version=2)\nasync def f(ctx): time.time()",
        "from perdure import workflow as durable\n@durable()\nasync def f(ctx): time.time()",
        "from perdure.workflow_function import workflow\n@workflow\ndef f(ctx): time.time()",
        "from perdure import *\n@workflow\nasync def f(ctx): time.time()",
        "from perdure import workflow\ndurable = workflow\n@durable\nasync def f(ctx): time.time()",
        "from perdure import workflow\ndef test():\n    @workflow\n    async def f(ctx): time.time()",
        "from perdure import workflow\nasync def code(ctx): time.time()\nf = workflow(code)",
        "from perdure import workflow\nasync def code(ctx): time.time()\nf = workflow(name='g')(code)",
        "from perdure import Context\nasync def branch(ctx: Context): time.time()",
        "from perdure import Context\nasync def branch(ctx: 'Context'): time.time()",
        "from perdure import Turn\nasync def branch(turn: Turn[int]): time.time()",
        "from perdure import SyncContext\ndef branch(ctx: SyncContext): time.time()",
        "from perdure import SyncTurn\ndef branch(turn: 'SyncTurn[int]'): time.time()",
        "from perdure import Context\nclass Flows:\n    async def branch(self, ctx: Context): time.time()",
        "try:\n    from perdure import workflow\nexcept ImportError:\n    raise\n@workflow\nasync def f(ctx): time.time()",
    ],
)
def test_a_workflow_or_branch_is_known_however_it_is_written(source: str) -> None:
    assert codes(f"import time\n{source}") == ["PD101"]


@pytest.mark.parametrize(
    "source",
    [
        "from perdure import step\n@step\ndef f(ctx): time.time()",
        "from perdure import step\n@step(timeout='1s')\nasync def f(ctx): time.time()",
        "from perdure import step\n@step\ndef f(): ...\n@f.undo\ndef g(done): time.time()\n@f.undo(in_doubt=True)\ndef h(done): time.time()",
        "from perdure import Context, step\n@step\ndef f(ctx: Context): time.time()",
        "from perdure import step, workflow\n@step\ndef f(n): time.time()\n@workflow\nasync def g(ctx): await ctx.map(f, [1])",
        "from perdure import step, workflow\n@step\ndef f(): time.time()\n@workflow\nasync def g(ctx): await ctx.race(a=f, b=lambda c: c.sleep(1))",
        "from celery import workflow\n@workflow\ndef f(ctx): time.time()",
        "from .perdure import workflow\n@workflow\ndef f(ctx): time.time()",
        "from perdure import workflow\ndef workflow(fn): return fn\n@workflow\ndef f(ctx): time.time()",
        "from perdure import Context\ndef f(at: int, ctx: Context): time.time()",
        "import perdure\ndef f(ctx): time.time()",
    ],
)
def test_what_is_no_workflow_code_is_left_alone(source: str) -> None:
    assert codes(f"import time\n{source}") == []


@pytest.mark.parametrize(
    "text",
    [
        "def inner(): time.time()",
        "async def inner():\n    def deeper(): time.time()",
        "names.sort(key=lambda name: time.time())",
        "await ctx.join(lambda c: time.time())",
        "await ctx.race(late=lambda c: time.time())",
        "await ctx.map(lambda c, name: time.time(), names)",
        "class Inner:\n    at = time.time()",
        "helper()",
        "await asyncio.gather(awaited())",
        "through()",
        "await ctx.map(branch, names)",
        "await ctx.join(functools.partial(branch, name='x'))",
    ],
)
def test_what_a_workflow_holds_calls_or_branches_into_is_workflow_code(text: str) -> None:
    helpers = """
        import asyncio, functools, time
        def helper(): return time.time()
        async def awaited(): return time.time()
        def through(): return helper()
        async def branch(c, name): return time.time()
    """
    assert codes(body(text, imports=dedent(helpers))) == ["PD101"]


@pytest.mark.parametrize(
    "text",
    [
        "await ctx.step(read)",
        "await ctx.step('read', read)",
        "await ctx.attempt(read)",
        "await ctx.keep('at', read)",
        "await ctx.keep('at', time.time)",
        "await ctx.keep('at', lambda: time.time())",
        "await ctx.step(lambda: time.time())",
        "await ctx.step('at', functools.partial(read))",
        "await ctx.step(step(read))",
        "def inner(): time.time()\nawait ctx.step(inner)",
        "def inner(): time.time()\nawait ctx.join(lambda c: c.step(inner))",
        "@step\ndef inner(): time.time()\nawait ctx.step(inner)",
    ],
)
def test_what_runs_as_a_step_is_not(text: str) -> None:
    assert codes(body(text, imports="import functools, time\ndef read(): return time.time()\n")) == []


def test_what_is_handed_to_a_step_and_called_as_well_is_workflow_code() -> None:
    assert codes(body("def read(): return time.time()\nread()\nawait ctx.step(read)", imports="import time")) == ["PD101"]


def test_a_helper_says_by_which_workflow_it_is_reached() -> None:
    (found,) = lint(body("return through()", imports="import time\ndef helper(): return time.time()\ndef through(): return helper()"))
    assert found.workflow == "flow"
    assert "(workflow `flow` calls `helper`); use ctx.now()" in found.message


def test_a_finding_names_its_workflow_as_the_log_does() -> None:
    source = "import time\nfrom perdure import Context, workflow\n@workflow(name='billing')\nasync def f(ctx: Context):\n    async def g(): time.time()"
    assert [one.workflow for one in lint(source)] == ["billing"]


def test_a_helper_that_is_given_a_context_has_verbs() -> None:
    assert codes(body("await helper(ctx, 1)", imports="async def helper(c, n): c.sleep(1)")) == ["PD301"]
    assert codes(body("await helper(n=1, c=ctx)", imports="async def helper(c, n): c.sleep(1)")) == ["PD301"]
    assert codes(body("await helper(1)", imports="async def helper(c): c.sleep(1)")) == []


def test_helpers_that_call_each_other_are_looked_into_once() -> None:
    helpers = "import time\nfrom perdure import workflow\ndef a(): b()\ndef b():\n    a()\n    time.time()\n"
    assert codes(f"{helpers}@workflow\nasync def f(ctx): a()\n@workflow\nasync def g(ctx): b()") == ["PD101"]


SETTINGS = """
import os

class Base:
    def inherited(self) -> int:
        return int(os.environ["LIMIT"])

class Settings(Base):
    def limit(self) -> int:
        return self.below()

    def below(self) -> int:
        return int(os.environ["LIMIT"])

    @property
    def region(self) -> str:
        return os.environ["REGION"]

    def made_step(self) -> object:
        def read() -> str:
            return os.environ["LIMIT"]
        return read

    @staticmethod
    def of(name: str) -> str:
        return os.environ[name]

    @classmethod
    def made(cls) -> str:
        return os.environ["MADE"]

class Read:
    def __init__(self) -> None:
        self.limit = os.environ["LIMIT"]

settings = Settings()
"""


@pytest.mark.parametrize(
    "text",
    [
        "return Settings().limit()",
        "return Settings().inherited()",
        "return settings.limit()",
        "mine = Settings()\nreturn mine.region",
        "return Settings.of('X')",
        "return Settings.made()",
        "return Read().limit",
        "def ask(given: Settings) -> int:\n    return given.limit()\nreturn ask(bag)",
        "def ask(given: 'Settings') -> str:\n    return given.region\nreturn ask(bag)",
    ],
)
def test_methods_of_the_module_are_followed(text: str) -> None:
    assert codes(body(text, imports=SETTINGS)) == ["PD108"]


@pytest.mark.parametrize(
    "text",
    [
        "return await ctx.step(settings.limit)",
        "return await ctx.keep('region', lambda: settings.region)",
        "settings = names\nreturn settings.limit()",
        "return names.limit(), bag.region",
        "def ask(given) -> int:\n    return given.limit()\nreturn ask(bag)",
        "return await ctx.step(settings.made_step())",
    ],
)
def test_methods_that_steps_run_or_that_are_not_known_are_not_followed(text: str) -> None:
    assert codes(body(text, imports=SETTINGS)) == []
