"""Joins: for what a step waits to which several ways lead. What can come no more is not waited for, so none of these hangs."""

from tests.definitions.graph.semantics.table import Open, Row, Skip

DIAMOND = """
order: ports
steps:
  - {{id: a, tool: SAY, next: [b, c]}}
  - {{id: b, tool: SAY, next: d}}
  - {{id: c, tool: SAY, next: d}}
  - {{id: d, tool: SAY, {join}, next: e}}
  - {{id: e, tool: SAY}}
"""

ROWS = [
    Row(
        "all is the default, and waits for every way",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [b, c]}
          - {id: b, tool: SAY, next: d}
          - {id: c, tool: SAY, next: d}
          - {id: d, tool: SAY}
        """,
        takes={"b": "1s", "c": "5s"},
        script=(Open("b c"), Skip("2s"), Open("c")),
        ran="a b c d",
        took=5,
        crashes=True,
    ),
    Row(
        "any goes on with the first token, and takes no notice of the others",
        DIAMOND.format(join="join: any"),
        takes={"b": "1s", "c": "5s"},
        script=(Skip("2s"), Open("c")),
        ran="a b c d e",
        took=5,
    ),
    Row(
        "each runs once for every token, and what follows runs as often",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [b, c]}
          - {id: b, tool: SAY, next: d}
          - {id: c, tool: SAY, next: d}
          - {id: d, tool: SAY, join: each, next: e}
          - {id: e, tool: SAY, join: each}
        """,
        takes={"b": "1s", "c": "5s"},
        ran="a b c d e d#2 e#2",
        took=5,
    ),
    Row(
        "what follows a join of each waits for all of its runs unless it says otherwise, which a second token makes an unsafe loop",
        DIAMOND.format(join="join: each"),
        takes={"b": "1s", "c": "5s"},
        failed="unsafe_loop: a second token came over d -> e in one iteration; join: each on e runs it for every token",
        ran="a b c d d#2",
    ),
    Row(
        "a number waits for so many tokens",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [b, c, d]}
          - {id: b, tool: SAY, next: e}
          - {id: c, tool: SAY, next: e}
          - {id: d, tool: SAY, next: e}
          - {id: e, tool: SAY, join: 2}
        """,
        takes={"b": "3s", "c": "1s", "d": "2s"},
        script=(Skip("1.5s"), Open("b d"), Skip("1s"), Open("b")),
        ran="a b c d e",
        took=3,
    ),
    Row(
        "a number that can't be reached any more makes the step dead, and nothing hangs",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, with: {value: 1}, next: [b, c]}
          - {id: b, tool: SAY, next: e}
          - {id: c, test: {ref: "@a", gt: 1}, next: {"true": e, "false": []}}
          - {id: e, tool: SAY, join: 2, next: f}
          - {id: f, tool: SAY}
        output: over
        """,
        ran="a c b",
        result="over",
    ),
    Row(
        "behind an exclusive choice, a join waits only for the way that was taken",
        """
        order: ports
        input: {n: {type: integer}}
        steps:
          - {id: a, test: {ref: "@input.n", gt: 3}, next: {"true": b, "false": c}}
          - {id: b, tool: SAY, next: d}
          - {id: c, tool: SAY, next: d}
          - {id: d, tool: SAY, with: {value: ["@b", "@c"]}}
        """,
        {"n": 5},
        answers={"b": ["big"]},
        ran="a b d",
        result=["big", None],
        crashes=True,
    ),
    Row(
        "dead tokens go on through all that no way leads to any more",
        """
        order: ports
        steps:
          - {id: a, test: {expr: "true"}, next: {"true": z, "false": b}}
          - {id: b, tool: SAY, next: [c, d]}
          - {id: c, tool: SAY, next: e}
          - {id: d, tool: SAY, next: e}
          - {id: e, tool: SAY, next: z}
          - {id: z, tool: SAY, with: {value: last}}
        """,
        ran="a z",
        result="last",
    ),
    Row(
        "after a choice of several ways, a join waits for just those",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, with: {value: 2}, next: [{when: {ref: "@self", eq: 1}, to: [b]}, {when: {ref: "@self", eq: 2}, to: [b, c]}, {to: [b, c, d]}]}
          - {id: b, tool: SAY, next: e}
          - {id: c, tool: SAY, next: e}
          - {id: d, tool: SAY, next: e}
          - {id: e, tool: SAY}
        """,
        takes={"b": "1s", "c": "2s"},
        ran="a b c e",
        took=2,
    ),
    Row(
        "a join of which every way is dead is dead itself",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [b, c]}
          - {id: b, test: {expr: "false"}, next: {"true": d, "false": []}}
          - {id: c, test: {expr: "false"}, next: {"true": d, "false": []}}
          - {id: d, tool: SAY}
        output: none
        """,
        ran="a b c",
        result="none",
    ),
    Row(
        "needs adds a way to a join, besides next",
        """
        order: ports
        steps:
          - {id: a, tool: SAY}
          - {id: b, tool: SAY, next: c}
          - {id: c, tool: SAY, needs: a}
        """,
        takes={"a": "3s"},
        script=(Skip("1s"), Open("a")),
        ran="a b c",
        took=3,
    ),
    Row(
        "in refs too, needs waits for success: what needs a step that was skipped is not run",
        """
        steps:
          - {id: a, when: {expr: "false"}, tool: SAY}
          - {id: b, needs: a, tool: SAY}
          - {id: c, needs: b, tool: SAY}
          - {id: d, tool: SAY, with: {value: "@b"}}
        """,
        skipped="a",
        ran="",
        result={},
    ),
    Row(
        "two edges from one step to another are one token each, and both are waited for",
        """
        order: ports
        steps:
          - {id: a, test: {expr: "true"}, next: {"true": c, "false": c}}
          - {id: c, tool: SAY, with: {value: 1}}
        """,
        ran="a c",
        result=1,
    ),
]
