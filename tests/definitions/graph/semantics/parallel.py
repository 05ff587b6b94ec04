"""Parallel: steps that begin at once; its result has theirs by id."""

from tests.definitions.graph.semantics.table import Broken, Open, Row, Skip, Voted

ROWS = [
    Row(
        "all branches begin at once, and the result has each by its id",
        """
        steps:
          - id: p
            parallel:
              - {id: a, tool: SAY, with: {value: 1}}
              - {id: b, tool: SAY, with: {value: 2}}
        """,
        ran="p/a p/b",
        at_once=2,
        result={"a": 1, "b": 2},
        crashes=True,
    ),
    Row(
        "tools, sleeps and people run beside one another",
        """
        steps:
          - id: p
            parallel:
              - {id: a, tool: SAY}
              - {id: s, sleep: 1h}
              - {id: ok, approve: {title: "Go?"}}
        output: "@p.ok.approved"
        """,
        script=(Open("p/s p/ok"), Voted("p/ok"), Open("p/s"), Skip("2h")),
        result=True,
        took=3600,
        crashes=True,
    ),
    Row(
        "with concurrency, so many branches at a time, in the order in which they are written",
        """
        steps:
          - id: p
            parallel:
              concurrency: 2
              steps:
                - {id: a, sleep: 10s}
                - {id: b, sleep: 1s}
                - {id: c, sleep: 1s}
                - {id: d, sleep: 1s}
        """,
        ran="p/a p/b p/c p/d",
        script=(Open("p/a p/b"), Skip("1.5s"), Open("p/a p/c")),
        at_once=2,
        took=10,
    ),
    Row(
        "the first branch that fails, fails the block, and the others are dropped",
        """
        steps:
          - id: p
            parallel:
              - {id: a, tool: FAIL, retry: {max: 1}}
              - {id: b, sleep: 1h}
        """,
        takes={"a": "1s"},
        answers={"a": [Broken("no")]},
        failed="Broken: no",
        took=1,
    ),
    Row(
        "with on_error: go_on, a failed branch is null and the others go on",
        """
        steps:
          - id: p
            parallel:
              on_error: go_on
              steps:
                - {id: a, tool: FAIL, retry: {max: 1}}
                - {id: b, tool: SAY, with: {value: 2}}
        """,
        result={"a": None, "b": 2},
    ),
    Row(
        "with on_error: go_on and concurrency, a failed branch makes place for the next",
        """
        steps:
          - id: p
            parallel:
              on_error: go_on
              concurrency: 1
              steps:
                - {id: a, tool: FAIL, retry: {max: 1}}
                - {id: b, tool: SAY, with: {value: 2}}
                - {id: c, tool: SAY, with: {value: 3}}
        """,
        ran="p/a p/b p/c",
        at_once=1,
        result={"a": None, "b": 2, "c": 3},
    ),
    Row(
        "with on_error: go_on, a failure deep inside of a branch is that branch's",
        """
        order: listed
        steps:
          - id: p
            parallel:
              on_error: go_on
              steps:
                - {id: a, do: [{id: x, tool: SAY}, {id: y, fail: "no"}, {id: z, tool: SAY}]}
                - {id: b, sleep: 1m}
        """,
        ran="p/b p/a/x",
        result={"a": None, "b": None},
        took=60,
    ),
    Row(
        "branches may need one another",
        """
        steps:
          - id: p
            parallel:
              - {id: a, sleep: 5s}
              - {id: b, needs: a, tool: SAY}
              - {id: c, tool: SAY}
        """,
        ran="p/a p/c p/b",
        took=5,
        result={"a": None, "b": None, "c": None},
    ),
    Row(
        "a skipped branch is null in the result",
        """
        steps:
          - id: p
            parallel:
              - {id: a, when: {expr: "false"}, tool: SAY}
              - {id: b, tool: SAY, with: {value: 2}}
        """,
        skipped="p/a",
        result={"a": None, "b": 2},
    ),
    Row(
        "with concurrency, a skipped branch and a dead one keep no place",
        """
        steps:
          - id: p
            parallel:
              concurrency: 1
              steps:
                - {id: a, when: {expr: "false"}, tool: SAY}
                - {id: n, needs: a, tool: SAY}
                - {id: b, tool: SAY, with: {value: 2}}
                - {id: c, tool: SAY, with: {value: 3}}
        """,
        skipped="p/a",
        ran="p/b p/c",
        at_once=1,
        result={"a": None, "n": None, "b": 2, "c": 3},
    ),
    Row(
        "what was not reached this time is null, whatever it was the time before",
        """
        order: ports
        steps:
          - {id: t, tool: SAY, next: p}
          - id: p
            parallel:
              - {id: a, when: {ref: "@t", eq: 1}, tool: SAY, with: {value: one}}
              - {id: b, needs: a, tool: SAY, with: {value: two}}
            next: again
          - {id: again, test: {ref: "@t", eq: 1}, next: {"true": {to: t, max: 3}, "false": z}}
          - {id: z, tool: SAY, with: {value: "@p"}}
        """,
        answers={"t": [1, 2]},
        skipped="t/~1/p/a",
        result={"a": None, "b": None},
    ),
    Row(
        "parallels nest, and results inside can be read from outside",
        """
        order: listed
        steps:
          - id: p
            parallel:
              - {id: q, parallel: [{id: x, tool: SAY, with: {value: 1}}, {id: y, tool: SAY, with: {value: 2}}]}
              - {id: b, tool: SAY, with: {value: 3}}
          - {id: s, tool: SAY, with: {value: ["@p.q.x", "@y", "@b"]}}
        """,
        result=[1, 2, 3],
    ),
    Row(
        "one branch that waits for nobody holds no other up",
        """
        order: listed
        steps:
          - id: p
            parallel:
              - {id: ok, approve: {title: "?"}}
              - {id: chain, do: [{id: x, sleep: 1h}, {id: y, tool: SAY}, {id: z, sleep: 1h}]}
        """,
        script=(Skip("90m"), Open("p/ok p/chain/z")),
        waiting=True,
    ),
]
