"""Expressions: what references and conditions read, and what is missing, in each dialect."""

from tests.definitions.graph.semantics.table import Row

ROWS = [
    Row(
        "a whole reference keeps its type, text is made of those inside, and @@ is an @",
        """
        steps:
          - {id: a, tool: SAY, with: {value: {n: 3, list: [1, {x: deep}]}}}
          - {id: b, tool: SAY, with: {value: ["@a.n", "n is @{a.n}", "@a.list[1].x", "a@@b", "@@a"]}}
        """,
        result=[3, "n is 3", "deep", "a@b", "@a"],
    ),
    Row(
        "a result is made over by a template that sees it as @self, and is held against the schema then",
        """
        steps:
          - {id: a, tool: SAY, with: {value: {n: 3, more: [1]}}, transform: "@self.n", schema: {type: integer}}
          - {id: b, tool: SAY, with: {value: 2}, transform: {was: "@self", and: "@a"}}
        output: ["@a", "@b"]
        """,
        result=[3, {"was": 2, "and": 3}],
    ),
    Row(
        "what can't be made of a result fails the step",
        """
        steps:
          - {id: a, tool: SAY, with: {value: {n: 3}}, transform: "@self.m", on_error: go_on}
        output: "@a"
        """,
        result=None,
    ),
    Row(
        "the roots of an execution",
        """
        input: {who: {type: string}}
        vars: {x: 1}
        steps:
          - {id: a, tool: SAY, with: {value: ["@input.who", "@vars.x", "@execution.workflow", "@execution.id"]}}
        """,
        {"who": "Ada"},
        result=["Ada", 1, "it", "1"],
    ),
    Row(
        "inputs have defaults",
        """
        input: {n: {type: integer, default: 5}}
        steps:
          - {id: a, tool: SAY, with: {value: "@input.n"}}
        """,
        result=5,
    ),
    Row(
        "set changes variables from then on, and only those that it names",
        """
        order: listed
        vars: {x: 1, y: 1}
        steps:
          - {id: s, set: {x: 2, z: "@vars.y"}}
          - {id: a, tool: SAY, with: {value: ["@vars.x", "@vars.y", "@vars.z", "@s.x"]}}
        """,
        result=[2, 1, 1, 2],
    ),
    Row(
        "variables that are set in a block stay set behind it",
        """
        order: listed
        vars: {x: 1}
        steps:
          - {id: d, do: [{id: s, set: {x: 2}}]}
          - {id: a, tool: SAY, with: {value: "@vars.x"}}
        """,
        result=2,
    ),
    Row(
        "@last is the result before, whichever step that was",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: 1}}
          - {id: b, tool: ADD, with: {a: "@last", b: 1}}
          - {id: c, tool: ADD, with: {a: "@last", b: 1}}
        """,
        result=3,
    ),
    Row(
        "the envelope of a step has its type, its data and its port",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: 1}}
          - {id: b, tool: SAY, with: {value: "@steps.a.output"}}
        """,
        result={"type": "tool", "data": 1, "meta": {}, "port": "success"},
    ),
    Row(
        "conditions in rows: each operator",
        """
        vars: {n: 3, s: abc, list: [1, 2], none: null}
        order: listed
        steps:
          - {id: a, test: {all: [{ref: "@vars.n", eq: 3.0}, {ref: "@vars.n", neq: 4}, {ref: "@vars.n", gt: 2}, {ref: "@vars.n", gte: 3}]}}
          - {id: b, test: {all: [{ref: "@vars.n", lt: 4}, {ref: "@vars.n", lte: 3}, {ref: "@vars.n", in: [1, 3]}, {ref: "@vars.s", contains: b}]}}
          - {id: c, test: {all: [{ref: "@vars.s", starts_with: a}, {ref: "@vars.s", ends_with: c}, {ref: "@vars.none", empty: true}]}}
          - id: d
            test:
              all:
                - {ref: "@vars.s", matches_re: "^a.c$"}
                - {ref: "@vars.list", contains: 2}
                - {ref: "@vars.s", exists: true}
                - {any: [{ref: "@vars.n", eq: 0}, {ref: "@vars.s"}]}
                - {not: {ref: "@vars.none"}}
          - {id: e, test: {ref: "@vars.n", eq: "@vars.list[1]"}}
        output: ["@a", "@b", "@c", "@d", "@e"]
        """,
        result=[True, True, True, True, False],
    ),
    Row(
        "conditions in CEL read steps and roots by name",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: {score: 81.5, tags: [x, y]}}}
          - {id: t, test: {expr: "a.score >= 80.0 && 'x' in a.tags && size(a.tags) == 2"}}
        """,
        result=True,
    ),
    Row(
        "conditions in JSONPath, counted and summed",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: {rows: [{n: 3}, {n: 4}]}}}
          - {id: t, test: {all: [{ref: "$.a.rows[*].n", sum: {eq: 7}}, {ref: "$.a.rows[?@.n > 3]", count: {eq: 1}}]}}
        """,
        result=True,
    ),
    Row(
        "conditions by JSON Schema",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: {data: 1}}}
          - {id: t, test: {ref: "@a", matches: {type: object, required: [data]}}}
        """,
        result=True,
    ),
    Row(
        "what is missing is an error, which says how to take it for null",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: {n: 1}}}
          - {id: b, tool: SAY, with: {value: "@a.m.deep"}}
        """,
        failed="Write ? at its end to read null",
        ran="a",
    ),
    Row(
        "with ? at its end, what is missing is null",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: {n: 1}}}
          - {id: b, tool: SAY, with: {value: ["@a.m.deep?", "<@{a.m?}>"]}}
        """,
        result=[None, "<>"],
    ),
    Row(
        "in dialect 000 what is missing is null",
        """
        dialect: "ref_dag"
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: {n: 1}}}
          - {id: b, tool: SAY, with: {value: ["@a.m.deep"]}}
        """,
        result=[None],
    ),
    Row(
        "in dialect 003 what is missing is null",
        """
        dialect: "port_graph"
        order: ports
        steps:
          - {id: a, tool: SAY, with: {value: {n: 1}}, next: b}
          - {id: b, tool: SAY, with: {value: ["@a.m.deep"]}}
        """,
        result=[None],
    ),
    Row(
        "in dialect 004 what is missing makes a condition false",
        """
        dialect: "token_graph"
        order: ports
        steps:
          - {id: a, tool: SAY, with: {value: {n: 1}}, next: [{when: {ref: "@self.m.deep", neq: 5}, to: b}, {to: c}]}
          - {id: b, tool: SAY}
          - {id: c, tool: SAY, with: {value: otherwise}}
        output: "@c"
        """,
        ran="a c",
        result="otherwise",
    ),
    Row(
        "a step inside of a block is read by its id, from within and from behind it",
        """
        order: listed
        steps:
          - {id: d, do: [{id: x, tool: SAY, with: {value: 1}}, {id: y, tool: ADD, with: {a: "@x", b: 1}}]}
          - {id: z, tool: SAY, with: {value: ["@x", "@y", "@d"]}}
        """,
        result=[1, 2, 2],
    ),
    Row(
        "a step inside of an each is its own in each item, and nothing to those outside",
        """
        order: listed
        steps:
          - {id: m, each: {in: [1, 2]}, do: [{id: x, tool: SAY, with: {value: "@item"}}, {id: y, tool: SAY, with: {value: ["@x"]}}]}
          - {id: z, tool: SAY, with: {value: ["@m", "@x"]}}
        """,
        result=[[[1], [2]], None],
    ),
    Row(
        "{expr: …} is what the expression comes to, wherever a value may stand",
        """
        order: listed
        input: {a: {type: integer, default: 3}, xs: {type: array, default: [1, 2, 3, 4]}}
        vars: {n: {expr: "input.a * 2"}}
        steps:
          - {id: s, set: {n: {expr: "vars.n + 1"}}}
          - {id: e, each: {in: {expr: "input.xs.filter(x, x > 2)"}}, tool: SAY, with: {value: {expr: "item * 10 + index"}}}
          - {id: t, tool: SAY, with: {value: 1}, transform: {expr: "self + 1"}}
          - {id: m, emit: {body: {expr: "[vars.n, t]"}}}
          - {id: w, if: {ref: "@t", gt: {expr: "input.a - 2"}}, then: [{id: ok, tool: SAY, with: {value: yes}}]}
          - {id: z, return: {n: "@vars.n", e: "@e", ok: "@ok", deep: [{expr: "size(input.xs)"}]}}
        """,
        result={"n": 7, "e": [30, 41], "ok": "yes", "deep": [4]},
        stream=([7, 2],),
        crashes=True,
    ),
    Row(
        "an expression that fails where a value stands fails its step",
        """
        steps:
          - {id: a, tool: SAY, with: {value: {x: 1}}}
          - {id: b, tool: SAY, with: {value: {expr: "a.y + 1"}}, retry: {max: 1}}
        """,
        failed="there is no 'y'",
        ran="a",
    ),
    Row(
        "what begins with an @ is no expression but a value by the name of expr",
        """
        vars: {text: "a + 1"}
        steps:
          - {id: a, tool: ECHO, with: {more: 1, value: {expr: "@vars.text"}}}
        """,
        result={"more": 1, "value": {"expr": "a + 1"}},
    ),
    Row(
        "in dialects, {expr: …} where a value stands is data",
        """
        dialect: "nested_steps"
        steps:
          - {id: a, tool: SAY, with: {value: {expr: "1 + 1"}}}
        """,
        result={"expr": "1 + 1"},
    ),
    Row(
        "CEL has macros of two variables",
        """
        input: {xs: {type: array, default: [5, 6]}}
        steps:
          - id: a
            when: {expr: "input.xs.all(i, x, x > i) && input.xs.exists(i, x, i == 1 && x == 6)"}
            tool: SAY
            with: {value: {expr: "input.xs.transformList(i, x, i * x)"}}
        """,
        result=[0, 6],
    ),
]
