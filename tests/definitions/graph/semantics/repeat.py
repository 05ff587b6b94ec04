"""Repeat: a step turn by turn. After each turn its condition is judged, and only then is looked at the bound, so success on the last try is success."""

from tests.definitions.graph.semantics.table import Broken, Open, Row, Sent, Skip, Voted

ROWS = [
    Row(
        "until it holds",
        """
        steps:
          - {id: a, tool: SAY, repeat: {until: {ref: "@self", eq: good}, max: 5}}
        """,
        answers={"a/~0": ["bad"], "a/~1": ["bad"], "a/~2": ["good"]},
        ran="a/~0 a/~1 a/~2",
        result="good",
        crashes=True,
    ),
    Row(
        "while it holds, at least once",
        """
        steps:
          - {id: a, tool: SAY, repeat: {while: {ref: "@self", eq: bad}, max: 5}}
        """,
        answers={"a/~0": ["good"]},
        ran="a/~0",
        result="good",
    ),
    Row(
        "success on the last try is success",
        """
        steps:
          - {id: a, tool: SAY, repeat: {until: {ref: "@self", eq: good}, max: 3}}
        """,
        answers={"a/~0": ["bad"], "a/~1": ["bad"], "a/~2": ["good"]},
        result="good",
    ),
    Row(
        "after max turns without success the step fails",
        """
        steps:
          - {id: a, tool: SAY, repeat: {until: {ref: "@self", eq: good}, max: 3}}
        """,
        ran="a/~0 a/~1 a/~2",
        failed="repeat_exhausted: the condition of repeat was not met within 3 iterations; raise `max`, or say `on_max: go_on`",
    ),
    Row(
        "with on_max: go_on, it goes on with the last result",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, repeat: {until: {ref: "@self", eq: good}, max: 2, on_max: go_on}}
          - {id: b, tool: SAY, with: {value: "@a"}}
        """,
        answers={"a/~1": ["bad"]},
        ran="a/~0 a/~1 b",
        result="bad",
    ),
    Row(
        "with on_max, a step by name is where it goes on",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, repeat: {until: {ref: "@self", eq: good}, max: 2, on_max: z}, next: b}
          - {id: b, tool: SAY}
          - {id: z, tool: SAY, with: {value: given up}}
        output: "@z"
        """,
        ran="a/~0 a/~1 z",
        result="given up",
    ),
    Row(
        "the port max leads on likewise",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, repeat: {until: {ref: "@self", eq: good}, max: 2, on_max: go_on}, next: {success: b, max: z}}
          - {id: b, tool: SAY}
          - {id: z, tool: SAY, with: {value: given up}}
        output: {b: "@b", z: "@z"}
        """,
        ran="a/~0 a/~1 z",
        result={"b": None, "z": "given up"},
    ),
    Row(
        "between turns, delay passes; after the last none does",
        """
        steps:
          - {id: a, tool: SAY, repeat: {until: {ref: "@self", eq: good}, max: 3, delay: 30s}}
        """,
        answers={"a/~0": ["bad"], "a/~1": ["good"]},
        script=(Skip("10s"),),
        result="good",
        took=30,
        crashes=True,
    ),
    Row(
        "delay may be a template that reads the turn's result",
        """
        steps:
          - {id: a, tool: SAY, repeat: {until: {ref: "@self.done"}, max: 3, delay: "@self.wait"}}
        """,
        answers={"a/~0": [{"done": False, "wait": "10s"}], "a/~1": [{"done": False, "wait": 5}], "a/~2": [{"done": True}]},
        result={"done": True},
        took=15,
    ),
    Row(
        "a turn reads its number, and what the one before has come to",
        """
        steps:
          - {id: a, tool: ECHO, with: {i: "@index", n: "@loop.index", before: "@loop.state"}, repeat: {while: {ref: "@index", lt: 2}, max: 5, state: none}}
        """,
        result={"i": 2, "n": 2, "before": {"i": 1, "n": 1, "before": {"i": 0, "n": 0, "before": "none"}}},
    ),
    Row(
        "state is what the first turn finds as @state, and each turn leaves its result there",
        """
        steps:
          - {id: a, tool: ADD, with: {a: "@state", b: 1}, repeat: {until: {ref: "@self", gte: 3}, max: 9, state: 0}}
        """,
        ran="a/~0 a/~1 a/~2",
        result=3,
    ),
    Row(
        "the turn before can be read as @last_turn, which is null in the first",
        """
        steps:
          - {id: a, tool: ECHO, with: {before: "@last_turn"}, repeat: {while: {ref: "@index", lt: 2}, max: 9}}
        """,
        result={"before": {"before": {"before": None}}},
    ),
    Row(
        "a failed turn fails the step, its tries apart",
        """
        steps:
          - {id: a, tool: SAY, retry: {max: 2}, repeat: {until: {ref: "@self", eq: good}, max: 3}}
        """,
        answers={"a/~0": [Broken("once"), "bad"], "a/~1": [Broken("a"), Broken("b")]},
        failed="Broken: b",
        tries={"a/~0": 2},
        ran="a/~0 a/~1",
    ),
    Row(
        "a block repeats as a whole, and the condition sees its last result",
        """
        order: listed
        steps:
          - id: poll
            repeat: {until: {ref: "@self", eq: ready}, max: 5, delay: 1m}
            do:
              - {id: ask, tool: SAY}
              - {id: look, tool: SAY, with: {value: "@ask"}}
        """,
        answers={"poll/~0/ask": ["wait"], "poll/~1/ask": ["ready"]},
        ran="poll/~0/ask poll/~0/look poll/~1/ask poll/~1/look",
        result="ready",
        took=60,
    ),
    Row(
        "an approval repeats until the form says so",
        """
        steps:
          - {id: ok, approve: {title: "Enough?", form: {enough: {type: boolean}}}, repeat: {until: {ref: "@self.form.enough"}, max: 3}}
        output: "@ok.by"
        """,
        script=(Voted("ok/~0", form={"enough": False}), Open("ok/~1"), Voted("ok/~1", form={"enough": True}, by="bob")),
        result="bob",
    ),
    Row(
        "an approval repeats until somebody approves, and leads on by that port",
        """
        order: ports
        steps:
          - {id: ok, approve: {title: "Now?"}, repeat: {until: {ref: "@self.approved"}, max: 3, delay: 1d}, next: {approved: a, rejected: b}}
          - {id: a, tool: SAY, with: {value: yes}}
          - {id: b, tool: SAY, with: {value: no}}
        output: ["@a", "@b"]
        """,
        script=(Voted("ok/~0", False), Skip("1d"), Voted("ok/~1")),
        ran="ok/~0 ok/~1 a",
        result=["yes", None],
    ),
    Row(
        "a test repeats, and leads on by its last answer",
        """
        order: ports
        steps:
          - {id: t, test: {ref: "@index", gte: 2}, repeat: {until: {ref: "@self"}, max: 5, delay: 1s}, next: {"true": a, "false": b}}
          - {id: a, tool: SAY, with: {value: yes}}
          - {id: b, tool: SAY, with: {value: no}}
        output: "@a"
        """,
        ran="t/~0 t/~1 t/~2 a",
        result="yes",
        took=2,
    ),
    Row(
        "listening repeats: an endless one ends when it is told to",
        """
        steps:
          - {id: l, listen: item, repeat: {until: {ref: "@self", eq: stop}, endless: true}}
        """,
        script=(Sent("item", 1), Sent("item", 2), Sent("item", "stop")),
        ran="l/~0/l l/~1/l l/~2/l",
        result="stop",
    ),
    Row(
        "a sleep repeats",
        """
        steps:
          - {id: s, sleep: 10s, repeat: {while: {ref: "@index", lt: 2}, max: 5}}
        """,
        took=30,
    ),
    Row(
        "a condition that can't be judged fails the step",
        """
        steps:
          - {id: a, tool: SAY, with: {value: x}, repeat: {until: {ref: "@self", gt: 3}, max: 3}, retry: {max: 1}}
        """,
        failed="compares",
        ran="a/~0",
    ),
    Row(
        "a step that a turn does not reach is null in it and in its condition, and behind the repetition as it was last",
        """
        order: listed
        vars: {all: []}
        steps:
          - id: l
            repeat: {until: {all: [{ref: "@index", gte: 2}, {ref: "@a", eq: null}]}, max: 9}
            do:
              - {id: t, if: {ref: "@index", eq: 1}, then: [{id: a, tool: SAY, with: {value: one}}], else: [{id: b, tool: SAY, with: {value: other}}]}
              - {id: m, set: {all: ["@vars.all", "@a", "@b"]}}
          - {id: z, tool: SAY, with: {value: ["@vars.all", "@a", "@b"]}}
        """,
        result=[[[[[], None, "other"], "one", None], None, "other"], "one", "other"],
        crashes=True,
    ),
    Row(
        "in the steps that stand in, a step that the turn has not reached is null",
        """
        order: listed
        vars: {seen: []}
        steps:
          - id: l
            repeat: {until: {ref: "@index", gte: 1}, max: 9}
            do:
              - id: d
                do:
                  - {id: a, tool: SAY, retry: {max: 1}}
                  - {id: b, tool: SAY, with: {value: B}}
                on_error:
                  - {id: c, set: {seen: ["@b", "@error.message"]}}
          - {id: z, tool: SAY, with: {value: "@vars.seen"}}
        """,
        answers={"a": ["fine", Broken("no")]},
        result=[None, "no"],
    ),
]
