"""Return and fail: how an execution is ended by its definition, and what its result is if nothing says it."""

from tests.definitions.graph.semantics.table import Open, Row, Skip

ROWS = [
    Row(
        "a return ends the execution with its result, while others are in flight",
        """
        steps:
          - {id: slow, tool: SAY}
          - {id: quick, tool: SAY, with: {value: enough}}
          - {id: r, return: {got: "@quick"}}
        """,
        takes={"slow": "1h", "quick": "1s"},
        script=(Open("slow quick"),),
        ran="slow quick r",
        result={"got": "enough"},
        took=1,
        crashes=True,
    ),
    Row(
        "a return whose turn has come goes before anything else is opened",
        """
        input: {email: {type: string, default: ""}}
        steps:
          - {id: validate, tool: SAY, with: {value: "@input.email"}}
          - {id: create, tool: SAY, with: {value: "@validate"}}
          - {id: invite, tool: SAY, with: {value: "@validate"}}
          - {id: exit_if_invalid, when: {ref: "@validate", empty: true}, return: {error: "Email required"}}
        """,
        ran="validate exit_if_invalid",
        result={"error": "Email required"},
    ),
    Row(
        "a return inside of blocks ends the execution all the same",
        """
        order: listed
        steps:
          - id: m
            each: {in: [1, 2, 3], concurrency: 1}
            do:
              - {id: x, tool: SAY, with: {value: "@item"}}
              - {id: r, when: {ref: "@x", eq: 2}, return: "@x"}
          - {id: after, tool: SAY}
        """,
        ran="m/~0/x m/~1/x m/~1/r",
        skipped="m/~0/r",
        result=2,
    ),
    Row(
        "a return drops open approvals, sleeps and children",
        """
        steps:
          - {id: ok, approve: {title: "Still needed?"}}
          - {id: s, sleep: 3d}
          - {id: c, call: child}
          - {id: quick, tool: SAY, with: {value: done}}
          - {id: r, return: "@quick"}
        """,
        takes={"quick": "1s"},
        calls=("name: child\nsteps:\n  - {id: wait, sleep: 9d}",),
        script=(Open("ok s c quick"),),
        result="done",
        took=1,
        children=(("perdure.approval", "cancelled", None), ("child", "cancelled", None)),
    ),
    Row(
        "return: true gives what stands in with",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: 7}}
          - {id: r, return: true, with: {n: "@a"}}
        """,
        result={"n": 7},
    ),
    Row("return: true gives true where nothing stands in with", "steps:\n  - {id: r, return: true}\n", result=True),
    Row(
        "without output, the result is that of the last step in listed order",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: first}}
          - {id: b, tool: SAY, with: {value: last}}
        """,
        result="last",
    ),
    Row(
        "without output, the result is that of the only step from which none leads on",
        """
        steps:
          - {id: a, tool: SAY, with: {value: 1}}
          - {id: b, tool: ADD, with: {a: "@a", b: 1}}
        """,
        result=2,
    ),
    Row(
        "without output and with several ends, the result is theirs by id, those that were reached",
        """
        steps:
          - {id: a, tool: SAY, with: {value: 1}}
          - {id: b, tool: ADD, with: {a: "@a", b: 1}}
          - {id: c, tool: ADD, with: {a: "@a", b: 2}}
          - {id: d, when: {ref: "@a", gt: 5}, tool: SAY}
        """,
        skipped="d",
        result={"b": 2, "c": 3},
    ),
    Row(
        "output says what the result is made of",
        """
        input: {who: {type: string}}
        steps:
          - {id: a, tool: SAY, with: {value: {n: [1, 2]}}}
        output: {text: "for @{input.who}: @{a.n[1]}", n: "@a.n"}
        """,
        {"who": "Ada"},
        result={"text": "for Ada: 2", "n": [1, 2]},
    ),
    Row(
        "fail ends the execution as failed, with its message and type",
        """
        order: listed
        input: {n: {type: integer}}
        steps:
          - {id: a, tool: SAY}
          - {id: f, fail: {message: "no @{input.n}", type: OutOfStock}}
          - {id: b, tool: SAY}
        """,
        {"n": 3},
        ran="a",
        failed="OutOfStock: no 3",
    ),
    Row(
        "what fails may be caught by what holds it, like any failure",
        """
        order: listed
        steps:
          - {id: d, on_error: go_on, do: [{id: f, fail: "no"}, {id: x, tool: SAY}]}
          - {id: b, tool: SAY, with: {value: ["@d"]}}
        """,
        ran="b",
        result=[None],
    ),
    Row(
        "the execution ends only once nothing is open any more, in whichever branch",
        """
        steps:
          - {id: a, tool: SAY, with: {value: 1}}
          - {id: s, sleep: 1h}
        output: "@a"
        """,
        script=(Skip("30m"), Open("s")),
        result=1,
        took=3600,
    ),
]
