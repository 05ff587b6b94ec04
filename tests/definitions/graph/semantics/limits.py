"""Limits: what bounds an execution, and by which name each bound speaks."""

from tests.definitions.graph.semantics.table import Row

ROWS = [
    Row(
        "max_steps bounds how many steps are begun",
        """
        order: listed
        limits: {max_steps: 2}
        steps:
          - {id: a, tool: SAY}
          - {id: b, tool: SAY}
          - {id: c, tool: SAY}
        """,
        ran="a b",
        failed="exceeded_max_steps: more than 2 steps were started; raise limits.max_steps, or end the loop",
    ),
    Row(
        "a step counts once however many its items, and those within it count in each",
        """
        limits: {max_steps: 5}
        order: listed
        steps:
          - {id: m, each: {in: [1, 2, 3, 4, 5, 6, 7]}, tool: SAY}
          - {id: d, each: {in: [1, 2, 3, 4], concurrency: 1}, do: [{id: x, tool: SAY}]}
        """,
        failed="exceeded_max_steps",
        ran="m/~0 m/~1 m/~2 m/~3 m/~4 m/~5 m/~6 d/~0/x d/~1/x d/~2/x",
    ),
    Row(
        "max_hops bounds how many edges are gone along",
        """
        order: ports
        limits: {max_hops: 2}
        steps:
          - {id: a, tool: SAY, next: b}
          - {id: b, tool: SAY, next: c}
          - {id: c, tool: SAY, next: d}
          - {id: d, tool: SAY}
        """,
        ran="a b c",
        failed="exceeded_max_hops",
    ),
    Row(
        "max_bytes bounds what all results take",
        """
        order: listed
        limits: {max_bytes: 20}
        steps:
          - {id: a, tool: SAY, with: {value: 0123456789}}
          - {id: b, tool: SAY, with: {value: 0123456789}}
          - {id: c, tool: SAY}
        """.replace("0123456789", '"0123456789"'),
        ran="a b",
        failed="exceeded_max_bytes: the results take 22 bytes, and at most 20 are allowed",
    ),
    Row(
        "max_fanout bounds how many steps one leads to",
        """
        order: ports
        limits: {max_fanout: 2}
        steps:
          - {id: a, tool: SAY, next: [b, c, d]}
          - {id: b, tool: SAY}
          - {id: c, tool: SAY}
          - {id: d, tool: SAY}
        """,
        ran="a",
        failed="exceeded_max_fanout: a leads to 3 steps at once, and at most 2 are allowed",
    ),
    Row(
        "max_fanout bounds the items of an each",
        """
        limits: {max_fanout: 2}
        steps:
          - {id: m, each: {in: [1, 2, 3]}, tool: SAY}
        """,
        ran="",
        failed="exceeded_max_fanout: each over 3 items, and at most 2 are allowed",
    ),
    Row(
        "the deadline ends the execution, whatever it waits for, and what was done is undone",
        """
        order: listed
        limits: {deadline: 1h}
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: s, sleep: 1d}
        """,
        ran="a s",
        undone="a",
        failed="deadline_exceeded: the execution did not end",
        took=3600,
        crashes=True,
    ),
    Row(
        "no try is made after the deadline, whatever the wait between tries is drawn to be",
        """
        limits: {deadline: 30s}
        steps:
          - {id: a, tool: FAIL, retry: {max: 100, wait: 7s, factor: 1}}
        """,
        failed="deadline_exceeded: the execution did not end",
        took=30,
    ),
    Row(
        "an execution that ends in time has no deadline to speak of",
        """
        limits: {deadline: 1h}
        steps:
          - {id: s, sleep: 59m}
        """,
        took=3540,
    ),
    Row(
        "recursion ends at the greatest depth, with an error that says so",
        """
        name: again
        steps:
          - {id: c, call: again}
        """,
        failed="too_deep",
    ),
    Row(
        "recursion with an end comes to it",
        """
        name: again
        input: {n: {type: integer}}
        order: listed
        steps:
          - {id: r, when: {ref: "@input.n", lte: 0}, return: bottom}
          - {id: less, tool: ADD, with: {a: "@input.n", b: -1}}
          - {id: c, call: again, with: {n: "@less"}}
        """,
        {"n": 3},
        skipped="r",
        ran="less c",
        result="bottom",
    ),
]
