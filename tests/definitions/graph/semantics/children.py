"""Children: other workflows, called by name and range of versions."""

from tests.definitions.graph.semantics.table import Broken, Cancelled, Row

OLD = 'name: greet\nversion: 1.4.0\ninput: {who: {}}\nsteps:\n  - {id: g, tool: SAY, with: {value: "Hello @{input.who}"}}'
NEW = 'name: greet\nversion: 2.1.0\ninput: {who: {}}\nsteps:\n  - {id: g, tool: SAY, with: {value: "Hi @{input.who}"}}'
BROKEN = "name: bad\nsteps:\n  - {id: f, fail: {message: broken, type: Jam}}"
ASKS = 'name: asks\nsteps:\n  - {id: ask, approve: {title: "?", timeout: 1h, on_timeout: reject}}'
SLOW = "name: slow\nsteps:\n  - {id: s, sleep: 1d}"


def calling(target: str, more: str = "") -> str:
    """One step that calls a workflow."""
    return f"""
        steps:
          - {{id: c, call: {target}, with: {{who: Ada}}{more}}}
    """


ROWS = [
    Row("without a version, the newest is called", calling("greet"), calls=(OLD, NEW), ran="c", result="Hi Ada", crashes=True),
    Row("a range is the newest that it allows", calling("greet@^1"), calls=(OLD, NEW), result="Hello Ada"),
    Row("a range by x", calling("greet@1.x"), calls=(OLD, NEW), result="Hello Ada"),
    Row("an exact version is that one", calling("greet@1.4.0"), calls=(OLD, NEW), result="Hello Ada"),
    Row(
        "a version that does not exist fails the step, and the error says what there is", calling("greet@^3"), calls=(OLD, NEW), failed="there are 1.4.0, 2.1.0"
    ),
    Row(
        "a child's failure is the step's",
        calling("bad").replace(", with: {who: Ada}", ""),
        calls=(BROKEN,),
        failed="broken",
        children=(("bad", "failed", "Jam: broken"),),
    ),
    Row(
        "a child's failure may be caught",
        """
        order: listed
        steps:
          - {id: c, call: bad, on_error: go_on}
          - {id: b, tool: SAY, with: {value: ["@c"]}}
        """,
        calls=(BROKEN,),
        result=[None],
    ),
    Row(
        "a rejection in a child that nothing handles cancels who waits for it",
        """
        order: listed
        steps:
          - {id: all, parallel: [{id: c, call: asks, retry: {max: 3}}, {id: s, sleep: 1d}]}
        """,
        calls=(ASKS,),
        cancelled="ask was rejected",
        children=(("asks", "cancelled", None),),
        crashes=True,
    ),
    Row(
        "a rejection in a child may be handled as an error",
        """
        order: listed
        steps:
          - {id: c, call: asks, on_error: [{id: told, set: {why: "@error.type"}}]}
        vars: {why: ""}
        output: "@vars.why"
        """,
        calls=(ASKS,),
        result="rejected",
    ),
    Row(
        "cancelling an execution cancels the child that it waits for",
        calling("slow").replace(", with: {who: Ada}", ""),
        calls=(SLOW,),
        script=(Cancelled("enough"),),
        cancelled="enough",
        children=(("slow", "cancelled", None),),
    ),
    Row(
        "with wait: false it is started, and lives on by itself",
        """
        order: listed
        steps:
          - {id: c, call: slow, wait: false}
          - {id: b, tool: SAY, with: {value: "@c.workflow"}}
        """,
        calls=(SLOW,),
        result="slow",
        took=0,
        children=(("slow", "waiting", None),),
        crashes=True,
    ),
    Row(
        "cancelling an execution leaves those alone that it does not wait for",
        """
        order: listed
        steps:
          - {id: c, call: slow, wait: false}
          - {id: s, sleep: 1d}
        """,
        calls=(SLOW,),
        script=(Cancelled(),),
        cancelled="",
        children=(("slow", "waiting", None),),
    ),
    Row(
        "each item may be a child",
        """
        steps:
          - {id: m, each: {in: [Ada, Bob]}, call: greet, with: {who: "@item"}}
        """,
        calls=(NEW,),
        result=["Hi Ada", "Hi Bob"],
        children=(("greet", "completed", "Hi Ada"), ("greet", "completed", "Hi Bob")),
    ),
    Row(
        "a timeout of a call gives it up and cancels the child",
        """
        steps:
          - {id: c, call: slow, timeout: 1h}
        """,
        calls=(SLOW,),
        failed="timeout: c did not end within 3600 s",
        took=3600,
        children=(("slow", "cancelled", None),),
    ),
    Row(
        "a Python function is called by where it is",
        """
        steps:
          - {id: c, call: py:tests.definitions.graph.semantics.table.add, with: {a: 1, b: 2}}
        """,
        result=3,
        if_killed="a function is not known to be idempotent, so it is not called again",
    ),
    Row(
        "an input that the child does not take fails it, and so the step",
        """
        steps:
          - {id: c, call: greet}
        """,
        calls=(NEW,),
        failed="the input lacks who",
    ),
    Row(
        "a called workflow that fails is started anew as often as its retry says",
        """
        steps:
          - {id: c, call: trip, retry: {max: 3, wait: 10s, factor: 1}, schema: {type: integer}}
        """,
        calls=("name: trip\nsteps:\n  - {id: t, tool: SAY, retry: {max: 1}}",),
        answers={"t": [Broken("no"), Broken("no"), 5]},
        result=5,
        children=(("trip", "failed", "Broken: no"), ("trip", "failed", "Broken: no"), ("trip", "completed", 5)),
        crashes=True,
    ),
    Row(
        "its retry names the errors after which it is started anew",
        """
        steps:
          - {id: c, call: trip, retry: {max: 3, fatal: [Broken]}}
        """,
        calls=("name: trip\nsteps:\n  - {id: t, tool: SAY, retry: {max: 1}}",),
        answers={"t": [Broken("no")]},
        failed="Broken",
        children=(("trip", "failed", "Broken: no"),),
    ),
    Row(
        "the timeout of a call is that of all its children together",
        """
        steps:
          - {id: c, call: trip, timeout: 25s, retry: {max: 9, wait: 10s, factor: 1}}
        """,
        calls=("name: trip\nsteps:\n  - {id: t, tool: FAIL, retry: {max: 1}}",),
        failed="timeout: c did not end within 25 s",
        took=25,
    ),
]
