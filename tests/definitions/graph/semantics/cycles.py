"""Cycles: ways that lead back. A turn is over when nothing in it goes on any more; the next one begins with one token, however many led back."""

from tests.definitions.graph.semantics.table import Open, Row, Skip, Voted

COUNT = """
order: ports
input: {{n: {{type: integer}}}}
vars: {{x: 0}}
steps:
  - {{id: add, tool: ADD, with: {{a: "@vars.x", b: 1}}, next: keep}}
  - {{id: keep, set: {{x: "@add"}}, next: [{{when: {{ref: "@vars.x", lt: "@input.n"}}, to: add, {bound}}}, {{to: done}}]}}
  - {{id: done, tool: SAY, with: {{value: "@vars.x"}}}}
"""

ROWS = [
    Row(
        "a rule leads back to the step itself, at most max times",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [{when: {ref: "@self", neq: good}, to: a, max: 5}, {to: b}]}
          - {id: b, tool: SAY, with: {value: "@a"}}
        """,
        answers={"a": ["bad", "bad", "good"]},
        ran="a/~0/a a/~1/a a/~2/a b",
        result="good",
        crashes=True,
    ),
    Row(
        "a rule leads back to an earlier step, and a step in a cycle is read as it was last",
        COUNT.format(bound="max: 20"),
        {"n": 3},
        ran="add/~0/add add/~0/keep add/~1/add add/~1/keep add/~2/add add/~2/keep done",
        result=3,
        crashes=True,
    ),
    Row(
        "when max is used up, the next rule is looked at",
        COUNT.format(bound="max: 2"),
        {"n": 100},
        ran="add/~0/add add/~0/keep add/~1/add add/~1/keep add/~2/add add/~2/keep done",
        result=3,
    ),
    Row(
        "when max is used up, on_max says where to go on",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [{when: {ref: "@self", eq: null}, to: a, max: 2, on_max: z}, {to: b}]}
          - {id: b, tool: SAY}
          - {id: z, tool: SAY, with: {value: given up}}
        output: "@z"
        """,
        ran="a/~0/a a/~1/a a/~2/a z",
        result="given up",
    ),
    Row(
        "success on the last allowed turn is success, not on_max",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [{when: {ref: "@self", neq: good}, to: a, max: 2, on_max: z}, {to: b}]}
          - {id: b, tool: SAY, with: {value: done}}
          - {id: z, tool: SAY, with: {value: given up}}
        output: {b: "@b", z: "@z"}
        """,
        answers={"a": ["bad", "bad", "good"]},
        ran="a/~0/a a/~1/a a/~2/a b",
        result={"b": "done", "z": None},
    ),
    Row(
        "a port may lead back, at most max times",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: b}
          - {id: b, test: {ref: "@a", eq: good}, next: {"true": c, "false": {to: a, max: 3, on_max: z}}}
          - {id: c, tool: SAY, with: {value: fine}}
          - {id: z, tool: SAY, with: {value: given up}}
        output: {c: "@c", z: "@z"}
        """,
        answers={"a": ["bad", "good"]},
        ran="a/~0/a a/~0/b a/~1/a a/~1/b c",
        result={"c": "fine", "z": None},
    ),
    Row(
        "a port that has led back max times leads to on_max",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: b}
          - {id: b, test: {ref: "@a", eq: good}, next: {"true": c, "false": {to: a, max: 2, on_max: z}}}
          - {id: c, tool: SAY, with: {value: fine}}
          - {id: z, tool: SAY, with: {value: given up}}
        output: {c: "@c", z: "@z"}
        """,
        ran="a/~0/a a/~0/b a/~1/a a/~1/b a/~2/a a/~2/b z",
        result={"c": None, "z": "given up"},
    ),
    Row(
        "a port that has led back max times, and says nothing more, leads nowhere: the cycle is left",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: b}
          - {id: b, test: {ref: "@a", eq: good}, next: {"true": c, "false": {to: a, max: 1}}}
          - {id: c, tool: SAY}
        output: over
        """,
        ran="a/~0/a a/~0/b a/~1/a a/~1/b",
        result="over",
    ),
    Row(
        "tokens that lead back over several edges in one turn become one",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [b, c]}
          - {id: b, tool: SAY, next: [{when: {ref: "@a", lt: 3}, to: a, max: 9}, {to: d}]}
          - {id: c, tool: SAY, next: [{when: {ref: "@a", lt: 3}, to: a, max: 9}, {to: d}]}
          - {id: d, tool: SAY, with: {value: "@a"}}
        """,
        answers={"a": [1, 2, 3, 4]},
        takes={"b": "1s", "c": "3s"},
        ran="a/~0/a a/~0/b a/~0/c a/~1/a a/~1/b a/~1/c a/~2/a a/~2/b a/~2/c d",
        result=3,
        took=9,
    ),
    Row(
        "a turn waits for all that goes on in it before the next begins",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [b, c]}
          - {id: b, tool: SAY, next: [{when: {ref: "@a", lt: 2}, to: a, max: 9}, {to: d}]}
          - {id: c, tool: SAY, next: [{when: {ref: "@a", gt: 9}, to: a, max: 9}]}
          - {id: d, tool: SAY}
        """,
        answers={"a": [1, 2]},
        takes={"b": "1s", "c": "10s"},
        script=(Skip("5s"), Open("a/~0/c"), Skip("5.5s"), Open("a/~1/b a/~1/c"), Skip("1s"), Open("a/~1/c")),
        ran="a/~0/a a/~0/b a/~0/c a/~1/a a/~1/b a/~1/c d",
        took=20,
    ),
    Row(
        "a step from which no way leads back stands outside of the cycle: it begins at once, and a second turn may not begin it again",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [b, c]}
          - {id: b, tool: SAY, next: [{when: {ref: "@a", lt: 2}, to: a, max: 9}, {to: []}]}
          - {id: c, tool: SAY}
        """,
        answers={"a": [1, 2]},
        failed="unsafe_loop: a second token came over a -> c in one iteration",
        ran="a/~0/a a/~0/b c a/~1/a",
    ),
    Row(
        "joins inside of a cycle begin anew in each turn: tokens of two turns never meet",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [b, c]}
          - {id: b, tool: SAY, with: {value: "b@{a}"}, next: d}
          - {id: c, tool: SAY, with: {value: "c@{a}"}, next: d}
          - {id: d, tool: ECHO, with: {b: "@b", c: "@c"}, next: [{when: {ref: "@a", lt: 3}, to: a, max: 9}, {to: z}]}
          - {id: z, tool: SAY, with: {value: "@d"}}
        """,
        answers={"a": [1, 2, 3, 4]},
        takes={"b": "1s"},
        result={"b": "b3", "c": "c3"},
    ),
    Row(
        "loops nest: the inner one begins anew with each turn of the outer one",
        """
        order: ports
        steps:
          - {id: outer, tool: SAY, next: inner}
          - {id: inner, tool: SAY, next: note}
          - {id: note, tool: SAY, next: [{when: {ref: "@inner", eq: go}, to: inner, max: 2}, {to: turn}]}
          - {id: turn, test: {ref: "@outer", eq: go}, next: {"true": {to: outer, max: 5}, "false": z}}
          - {id: z, tool: SAY, with: {value: ["@outer", "@inner"]}}
        """,
        answers={"outer": ["go", "last"], "inner": ["go", "out", "go", "out"]},
        ran="""
          outer/~0/outer outer/~0/inner/~0/inner outer/~0/inner/~0/note outer/~0/inner/~1/inner outer/~0/inner/~1/note outer/~0/turn
          outer/~1/outer outer/~1/inner/~0/inner outer/~1/inner/~0/note outer/~1/inner/~1/inner outer/~1/inner/~1/note outer/~1/turn z
        """,
        result=["last", "out"],
        crashes=True,
    ),
    Row(
        "max of an inner loop counts anew in each stay in it",
        """
        order: ports
        steps:
          - {id: outer, tool: SAY, next: inner}
          - {id: inner, tool: SAY, next: [{to: inner, max: 2}, {to: turn}]}
          - {id: turn, test: {ref: "@outer", eq: go}, next: {"true": {to: outer, max: 5}, "false": []}}
        output: "@outer"
        """,
        answers={"outer": ["go", "last"]},
        ran="""
          outer/~0/outer outer/~0/inner/~0/inner outer/~0/inner/~1/inner outer/~0/inner/~2/inner outer/~0/turn
          outer/~1/outer outer/~1/inner/~0/inner outer/~1/inner/~1/inner outer/~1/inner/~2/inner outer/~1/turn
        """,
        result="last",
    ),
    Row(
        "a branch leaves a cycle while its sibling goes on turning",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [b, c]}
          - {id: b, tool: SAY, next: [{when: {ref: "@a", lt: 3}, to: a, max: 9}, {to: d}]}
          - {id: c, test: {ref: "@a", eq: 1}, next: {"true": out, "false": e}}
          - {id: e, tool: SAY, next: [{when: {ref: "@a", gt: 9}, to: a, max: 1}, {to: []}]}
          - {id: d, tool: SAY, with: {value: turned}}
          - {id: out, tool: SAY, with: {value: left}}
        """,
        answers={"a": [1, 2, 3, 4]},
        takes={"b": "2s"},
        script=(Skip("1s"), Open("a/~0/b")),
        ran="a/~0/a a/~0/c a/~0/b out a/~1/a a/~1/c a/~1/b a/~1/e a/~2/a a/~2/c a/~2/b a/~2/e d",
        crashes=True,
        result={"d": "turned", "out": "left"},
    ),
    Row(
        "a second token out of a cycle over one edge is an unsafe loop, and the edge is named",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [{when: {ref: "@a", lt: 3}, to: [a, out], max: 9}, {to: []}]}
          - {id: out, tool: SAY}
        """,
        answers={"a": [1, 2, 3, 4]},
        failed="unsafe_loop: a second token came over a -> out in one iteration; join: each on out runs it for every token",
        ran="a/~0/a out a/~1/a",
    ),
    Row(
        "with a join of each, every turn may send one out",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [{when: {ref: "@a", lt: 4}, to: [a, out], max: 9}, {to: []}]}
          - {id: out, tool: SAY, join: each}
        output: "@a"
        """,
        answers={"a": [1, 2, 3, 4]},
        ran="a/~0/a out a/~1/a out#2 a/~2/a out#3 a/~3/a",
        result=4,
    ),
    Row(
        "ways out that were never taken are dead when the cycle is left, so the join behind them fires",
        """
        order: ports
        steps:
          - {id: start, tool: SAY, next: [a, side]}
          - {id: side, tool: SAY, next: z}
          - {id: a, tool: SAY, next: b}
          - {id: b, test: {ref: "@a", lt: 2}, next: {"true": {to: a, max: 5}, "false": end, error: z}}
          - {id: end, tool: SAY}
          - {id: z, tool: SAY, with: {value: both}}
        output: "@z"
        """,
        answers={"a": [1, 2, 3, 4]},
        result="both",
        ran="start a/~0/a side a/~0/b a/~1/a a/~1/b end z",
    ),
    Row(
        "a join behind a cycle waits until the cycle is left",
        """
        order: ports
        steps:
          - {id: start, tool: SAY, next: [a, side]}
          - {id: side, tool: SAY, next: z}
          - {id: a, tool: SAY, next: b}
          - {id: b, tool: SAY, next: [{when: {ref: "@a", lt: 3}, to: a, max: 5}, {when: {ref: "@a", gt: 9}, to: z}]}
          - {id: z, tool: SAY, with: {value: both}}
        """,
        answers={"a": [1, 2, 3, 4]},
        takes={"b": "10s"},
        script=(Skip("25s"), Open("a/~2/b")),
        result="both",
        took=30,
    ),
    Row(
        "a cycle in which nothing leads on is left, and what follows it is dead",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: [{when: {ref: "@self", eq: again}, to: a, max: 5}, {when: {ref: "@self", eq: good}, to: b}]}
          - {id: b, tool: SAY}
        output: over
        """,
        answers={"a": ["again", "nothing"]},
        ran="a/~0/a a/~1/a",
        result="over",
    ),
    Row(
        "a rejected draft is written again, until somebody approves",
        """
        order: ports
        steps:
          - {id: write, tool: SAY, next: ok}
          - {id: ok, approve: {title: "Is it good?"}, next: {approved: send, rejected: {to: write, max: 3}}}
          - {id: send, tool: SAY, with: {value: "@write"}}
        """,
        answers={"write": ["first", "second"]},
        script=(Voted("write/~0/ok", False), Open("write/~1/ok"), Voted("write/~1/ok")),
        ran="write/~0/write write/~0/ok write/~1/write write/~1/ok send",
        result="second",
        crashes=True,
    ),
    Row(
        "max_hops bounds each turn of an endless loop, and not all of them",
        """
        order: ports
        limits: {max_hops: 2}
        steps:
          - {id: a, tool: SAY, with: {value: x}, next: [b, c, d]}
          - {id: b, tool: SAY, next: [{when: {ref: "@self", eq: done}, to: e}, {to: a, endless: true}]}
          - {id: c, tool: SAY}
          - {id: d, tool: SAY}
          - {id: e, tool: SAY}
        """,
        failed="exceeded_max_hops: more than 2 transitions were taken; bound the loop, or raise limits.max_hops",
    ),
    Row(
        "in dialect 004 loops need no bound of their own, for max_hops bounds them",
        """
        dialect: "token_graph"
        order: ports
        limits: {max_hops: 5}
        steps:
          - {id: a, tool: SAY, next: [{when: {ref: "@self", eq: done}, to: b}, {to: a}]}
          - {id: b, tool: SAY}
        """,
        failed="exceeded_max_hops",
        ran="a/~0/a a/~1/a a/~2/a a/~3/a a/~4/a a/~5/a",
    ),
    Row(
        "a failure inside of a cycle may lead back as well",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: b}
          - {id: b, tool: FAIL, retry: {max: 1}, next: {success: c, error: {to: a, max: 2, on_max: z}}}
          - {id: c, tool: SAY}
          - {id: z, tool: SAY, with: {value: "@b.type"}}
        """,
        ran="a/~0/a a/~0/b a/~1/a a/~1/b a/~2/a a/~2/b z",
        result={"z": "Broken"},
    ),
    Row(
        "a step that a turn passes by is null in that turn, and behind the cycle as it was last",
        """
        order: ports
        vars: {seen: []}
        steps:
          - {id: l, loop: {items: [3, 4, 5]}, next: {loop: t, done: z}}
          - {id: t, test: {ref: "@item", eq: 4}, next: {"true": a, "false": b}}
          - {id: a, do: [{id: inner, tool: SAY, with: {value: four}}], next: m}
          - {id: b, tool: SAY, with: {value: other}, next: m}
          - {id: m, set: {seen: ["@vars.seen", "@a", "@inner", "@b"]}, next: {success: {to: l, max: 9}}}
          - {id: z, tool: SAY, with: {value: ["@vars.seen", "@a", "@b"]}}
        """,
        result=[[[[[], None, None, "other"], "four", "four", None], None, None, "other"], "four", "other"],
        crashes=True,
    ),
    Row(
        "the head of a cycle reads the steps behind it as the turn before has left them",
        """
        order: ports
        vars: {n: 0}
        steps:
          - {id: head, set: {n: "@last.n?", saw: ["@a?", "@b?"]}, next: t}
          - {id: t, tool: SAY, next: [{when: {ref: "@self", eq: a}, to: a}, {when: {ref: "@self", eq: b}, to: b}, {to: z}]}
          - {id: a, tool: SAY, with: {value: A}, next: {success: {to: head, max: 9}}}
          - {id: b, tool: SAY, with: {value: B}, next: {success: {to: head, max: 9}}}
          - {id: z, tool: SAY, with: {value: "@vars.saw"}}
        """,
        answers={"t": ["a", "b", "c"]},
        result=[None, "B"],
    ),
    Row(
        "an inner cycle that a turn does not enter is null in it, and so is a step that none of its turns reached",
        """
        order: ports
        vars: {seen: []}
        steps:
          - {id: o, loop: {items: [1, 2, 3], as: outer}, next: {loop: which, done: z}}
          - {id: which, test: {ref: "@outer", eq: 2}, next: {"true": m, "false": i}}
          - {id: i, tool: SAY, with: {value: "@outer"}, next: j}
          - {id: j, test: {ref: "@outer", eq: 1}, next: {"true": k, "false": n}}
          - {id: k, tool: SAY, with: {value: K}, next: n}
          - {id: n, tool: SAY, next: [{when: {ref: "@self", eq: go}, to: i, max: 1}, {to: m}]}
          - {id: m, set: {seen: ["@vars.seen", "@i", "@k"]}, next: {success: {to: o, max: 9}}}
          - {id: z, tool: SAY, with: {value: "@vars.seen"}}
        """,
        result=[[[[], 1, "K"], None, None], 3, None],
    ),
    Row(
        "a cycle that forgets its turns goes on knowing what the turn before has passed by",
        """
        order: ports
        vars: {n: 0, saw: []}
        steps:
          - {id: head, set: {saw: ["@a?", "@b?"]}, next: t}
          - {id: t, tool: SAY, next: [{when: {ref: "@self", eq: a}, to: a}, {when: {ref: "@self", eq: b}, to: b}, {to: z}]}
          - {id: a, tool: SAY, with: {value: A}, next: {success: {to: nap, endless: true}}}
          - {id: b, tool: SAY, with: {value: B}, next: {success: {to: nap, endless: true}}}
          - {id: nap, join: any, sleep: 1s, next: {success: {to: head, endless: true}}}
          - {id: z, tool: SAY, with: {value: "@vars.saw"}}
        """,
        answers={"t": ["a", *["b"] * 5, "c"]},
        script=(Skip("10s"),),
        result=[None, "B"],
        crashes=True,
    ),
    Row(
        "the items of a loop have the names that it gives them, in all steps of its cycle",
        """
        order: ports
        vars: {all: []}
        steps:
          - {id: l, loop: {items: [3, 4], as: one, index: nth}, next: {loop: b, done: z}}
          - {id: b, do: [{id: c, set: {all: ["@vars.all", "@one", "@nth", "@loop.batch.index"]}}], next: {success: {to: l, max: 9}}}
          - {id: z, tool: SAY, with: {value: "@vars.all"}}
        """,
        result=[[[], 3, 0, 0], 4, 1, 1],
    ),
]
