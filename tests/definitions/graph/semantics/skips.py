"""Skips: a step whose `when` does not hold does nothing, and its result is null. What depends on it still runs and sees that, unless it needs its success."""

from tests.definitions.graph.semantics.table import Row

ROWS = [
    Row(
        "a skipped step is null, and what reads it runs",
        """
        steps:
          - {id: a, when: {expr: "false"}, tool: SAY, with: {value: 1}}
          - {id: b, tool: SAY, with: {value: ["@a"]}}
        """,
        ran="b",
        skipped="a",
        result=[None],
        crashes=True,
    ),
    Row(
        "a path into a skipped step is null, too",
        """
        steps:
          - {id: a, when: {expr: "false"}, tool: SAY}
          - {id: b, tool: SAY, with: {value: ["@a.deep.down", "@a[3]"]}}
        """,
        skipped="a",
        result=[None, None],
    ),
    Row(
        "skips cascade through conditions that need the step",
        """
        steps:
          - {id: a, when: {expr: "false"}, tool: SAY, with: {value: 1}}
          - {id: b, when: {ref: "@a"}, tool: SAY, with: {value: 2}}
          - {id: c, when: {ref: "@b"}, tool: SAY, with: {value: 3}}
          - {id: d, tool: SAY, with: {value: ["@a", "@b", "@c"]}}
        """,
        ran="d",
        skipped="a b c",
        result=[None, None, None],
    ),
    Row(
        "with needs, a step whose source was skipped is not reached at all",
        """
        order: listed
        steps:
          - {id: a, when: {expr: "false"}, tool: SAY}
          - {id: b, tool: SAY, with: {value: on}}
        """,
        ran="b",
        skipped="a",
        result="on",
    ),
    Row(
        "in listed order a skipped step holds nothing up",
        """
        order: listed
        input: {n: {type: integer}}
        steps:
          - {id: small, when: {ref: "@input.n", lt: 10}, tool: SAY, with: {value: small}}
          - {id: big, when: {ref: "@input.n", gte: 10}, tool: SAY, with: {value: big}}
          - {id: say, tool: SAY, with: {value: ["@small", "@big"]}}
        """,
        {"n": 12},
        ran="big say",
        skipped="small",
        result=[None, "big"],
    ),
    Row(
        "in ports order a skipped step leads on only by its port skipped",
        """
        order: ports
        steps:
          - {id: a, when: {expr: "false"}, tool: SAY, next: {success: b, skipped: c}}
          - {id: b, tool: SAY}
          - {id: c, tool: SAY, with: {value: instead}}
        output: "@c"
        """,
        ran="c",
        skipped="a",
        result="instead",
        crashes=True,
    ),
    Row(
        "in ports order, without an edge for it, the way ends at a skipped step",
        """
        order: ports
        steps:
          - {id: a, when: {expr: "false"}, tool: SAY, next: b}
          - {id: b, tool: SAY, next: c}
          - {id: c, tool: SAY}
        output: over
        """,
        ran="",
        skipped="a",
        result="over",
    ),
    Row(
        "a skipped block does none of its steps",
        """
        order: listed
        steps:
          - {id: a, when: {expr: "false"}, do: [{id: x, tool: SAY}, {id: y, tool: SAY}]}
          - {id: b, tool: SAY, with: {value: ["@a", "@x"]}}
        """,
        ran="b",
        skipped="a",
        result=[None, None],
    ),
    Row(
        "a skipped return ends nothing",
        """
        steps:
          - {id: r, when: {expr: "false"}, return: early}
          - {id: a, tool: SAY, with: {value: late}}
        output: "@a"
        """,
        ran="a",
        skipped="r",
        result="late",
    ),
    Row(
        "the untaken branch of an if is null to those outside",
        """
        order: listed
        steps:
          - {id: i, if: {expr: "true"}, then: [{id: x, tool: SAY, with: {value: 1}}], else: [{id: y, tool: SAY, with: {value: 2}}]}
          - {id: b, tool: SAY, with: {value: ["@i", "@x", "@y"]}}
        """,
        ran="i i/x b",
        result=[1, 1, None],
    ),
    Row(
        "an empty branch of an if is null",
        """
        order: listed
        steps:
          - {id: i, if: {expr: "false"}, then: [{id: x, tool: SAY, with: {value: 1}}]}
          - {id: b, tool: SAY, with: {value: ["@i"]}}
        """,
        ran="i b",
        result=[None],
    ),
    Row(
        "a condition is judged once all that it reads is there, before the step's input is made",
        """
        steps:
          - {id: slow, tool: SAY, with: {value: null}}
          - {id: b, when: {ref: "@slow"}, tool: SAY, with: {value: "@slow.must.be.there"}}
        """,
        takes={"slow": "3s"},
        ran="slow",
        skipped="b",
        took=3,
    ),
    Row(
        "a condition that can't be judged fails the step",
        """
        steps:
          - {id: a, tool: SAY, with: {value: text}}
          - {id: b, when: {ref: "@a", gt: 3}, tool: SAY}
        """,
        failed="compares",
        ran="a",
    ),
]
