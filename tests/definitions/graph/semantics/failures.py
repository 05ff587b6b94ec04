"""Failures: what becomes of an error. It is tried again, caught where it happens, or fails what holds the step, and at last the execution."""

from tests.definitions.graph.semantics.table import Broken, Open, Refused, Row, Skip

ROWS = [
    Row(
        "a step that fails for good fails the execution, and what has not begun never does",
        """
        order: listed
        steps:
          - {id: a, tool: FAIL, with: {message: out of paper}, retry: {max: 1}}
          - {id: b, tool: SAY}
        """,
        ran="a",
        failed="Broken: out of paper",
        took=0,
    ),
    Row(
        "by default a step has three tries, a second and two apart",
        """
        steps:
          - {id: a, tool: SAY}
        """,
        answers={"a": [Broken("once"), Broken("twice"), "at last"]},
        result="at last",
        tries={"a": 3},
        crashes=True,
    ),
    Row(
        "retry says how often and when",
        """
        steps:
          - {id: a, tool: SAY, retry: {max: 4, wait: 10s, factor: 3, max_wait: 40s}}
        """,
        answers={"a": [Broken("1"), Broken("2"), Broken("3"), "at last"]},
        script=(Skip("1h"),),
        result="at last",
        tries={"a": 4},
    ),
    Row(
        "the definition's retry holds for steps that say nothing",
        """
        retry: {max: 2, wait: 5s}
        order: listed
        steps:
          - {id: a, tool: SAY}
          - {id: b, tool: SAY, retry: {max: 1}}
        """,
        answers={"a": [Broken("once"), "fine"], "b": [Broken("no more")]},
        failed="Broken: no more",
        tries={"a": 2, "b": 1},
    ),
    Row(
        "an error named fatal is not tried again",
        """
        steps:
          - {id: a, tool: SAY, retry: {max: 5, fatal: [Refused]}}
        """,
        answers={"a": [Broken("once"), Refused("never")]},
        failed="Refused: never",
        tries={"a": 2},
    ),
    Row(
        "with only, no other error is tried again",
        """
        steps:
          - {id: a, tool: SAY, retry: {max: 5, only: [Broken]}}
        """,
        answers={"a": [Broken("once"), Refused("another")]},
        failed="Refused: another",
        tries={"a": 2},
    ),
    Row(
        "a try that takes too long has failed, and is made again",
        """
        steps:
          - {id: a, tool: SAY, timeout: 5s, retry: {max: 2, wait: 1s}}
        """,
        takes={"a": "10s"},
        answers={"a": ["late", "late"]},
        failed="5 s",
        tries={"a": 2},
    ),
    Row(
        "with on_error: go_on, it goes on with null",
        """
        order: listed
        steps:
          - {id: a, tool: FAIL, retry: {max: 1}, on_error: go_on}
          - {id: b, tool: SAY, with: {value: ["@a"]}}
        """,
        ran="a b",
        result=[None],
        crashes=True,
    ),
    Row(
        "with on_error: go_on in ports order, it goes on as if it had succeeded",
        """
        order: ports
        steps:
          - {id: a, tool: FAIL, retry: {max: 1}, on_error: go_on, next: b}
          - {id: b, tool: SAY, with: {value: ["@a", "@steps.a.output.port"]}}
        """,
        result=[None, "error"],
    ),
    Row(
        "with on_error: steps, these run instead, see the error, and their last result stands for the step's",
        """
        order: listed
        steps:
          - id: a
            tool: FAIL
            with: {message: jammed}
            retry: {max: 1}
            on_error:
              - {id: told, tool: SAY, with: {value: "@{error.type}: @{error.message}"}}
              - {id: instead, tool: SAY, with: {value: ["@error.type", "@error.message", "@error.kind"]}}
          - {id: b, tool: SAY, with: {value: "@a"}}
        """,
        ran="a a/~on_error/told a/~on_error/instead b",
        result=["Broken", "jammed", "exhausted"],
        crashes=True,
    ),
    Row(
        "when the steps of on_error fail themselves, that is the failure",
        """
        steps:
          - {id: a, tool: FAIL, retry: {max: 1}, on_error: [{id: f, fail: "for good"}]}
        """,
        failed="for good",
    ),
    Row(
        "an edge for error leads on, and the error can be read",
        """
        order: ports
        steps:
          - {id: a, tool: FAIL, with: {message: jammed}, retry: {max: 1}, next: {success: b, error: c}}
          - {id: b, tool: SAY}
          - {id: c, tool: SAY, with: {value: "@a.message"}}
        output: "@c"
        """,
        ran="a c",
        result="jammed",
    ),
    Row(
        "an edge for error is dead when there is none, and what it leads to is passed by",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: {success: b, error: c}}
          - {id: b, tool: SAY, next: d}
          - {id: c, tool: SAY, next: d}
          - {id: d, tool: SAY, with: {value: ["@c"]}}
        """,
        ran="a b d",
        result=[None],
    ),
    Row(
        "a failure inside of a block fails the block, which may catch it, and all else in it is dropped",
        """
        order: listed
        steps:
          - id: d
            on_error: go_on
            parallel:
              - {id: x, sleep: 1h}
              - {id: y, do: [{id: z, tool: FAIL, retry: {max: 1}}]}
          - {id: b, tool: SAY, with: {value: caught}}
        """,
        ran="d/x d/y/z b",
        result="caught",
        took=0,
    ),
    Row(
        "a block's on_error steps may read what its steps had come to",
        """
        order: listed
        steps:
          - id: d
            do:
              - {id: x, tool: SAY, with: {value: 7}}
              - {id: y, tool: FAIL, retry: {max: 1}}
            on_error:
              - {id: save, tool: SAY, with: {value: ["@x", "@error.type"]}}
        """,
        result=[7, "Broken"],
    ),
    Row(
        "what has failed elsewhere drops all that is open",
        """
        steps:
          - {id: a, tool: FAIL, retry: {max: 1}}
          - {id: s, sleep: 1h}
          - {id: ok, approve: {title: "?"}}
        """,
        takes={"a": "5s"},
        answers={"a": [Broken("no")]},
        script=(Open("a s ok"),),
        failed="Broken: no",
        took=5,
        children=(("perdure.approval", "cancelled", None),),
    ),
    Row(
        "a value that can't be made fails the step",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: {n: 1}}}
          - {id: b, tool: SAY, with: {value: "@a.m"}}
        """,
        ran="a",
        failed="expression_failed",
    ),
    Row(
        "a result that does not fit the step's schema fails the step",
        """
        steps:
          - {id: a, tool: SAY, with: {value: 5}, schema: {type: string}}
        """,
        failed="bad_result: the result of a does not fit its schema",
    ),
    Row(
        "an output that can't be made fails the execution",
        """
        steps:
          - {id: a, tool: SAY, with: {value: {n: 1}}}
        output: "@a.m"
        """,
        failed="expression_failed",
        ran="a",
    ),
    Row(
        "behind a port error, @error is the error, in every step to which it leads on; the step itself reads as it too",
        """
        order: ports
        steps:
          - {id: a, tool: FAIL, retry: {max: 1}, next: {success: b, error: h}}
          - {id: b, tool: SAY}
          - {id: h, tool: SAY, with: {value: "@error.message"}, next: i}
          - {id: i, do: [{id: k, tool: SAY, with: {value: ["@error.type", "@a.message", "@a.kind", "@h"]}}]}
        output: "@k"
        """,
        result=["Broken", "no", "exhausted", "no"],
        crashes=True,
    ),
    Row(
        "@error is null where a step that an error may lead to was reached without one",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, next: {success: z, error: z}}
          - {id: z, tool: SAY, with: {value: ["@error"]}}
        """,
        result=[None],
    ),
    Row(
        "each way on has the error of its own step",
        """
        order: ports
        steps:
          - {id: s, tool: SAY, next: [a, b]}
          - {id: a, tool: SAY, retry: {max: 1}, next: {error: x}}
          - {id: b, tool: SAY, retry: {max: 1}, next: {error: y}}
          - {id: x, sleep: 10s, next: xx}
          - {id: xx, tool: SAY, with: {value: "@error.message"}}
          - {id: y, tool: SAY, with: {value: "@error.message"}}
        """,
        answers={"a": [Broken("first")], "b": [Broken("second")]},
        takes={"b": "1s"},
        result={"xx": "first", "y": "second"},
    ),
    Row(
        "an error that leads back into a cycle is known to its next turn, also when turns are forgotten",
        """
        order: ports
        vars: {why: none}
        steps:
          - {id: a, set: {why: "@error.message?"}, next: n}
          - {id: n, sleep: 1s, next: b}
          - {id: b, tool: SAY, retry: {max: 1}, next: {success: z, error: {to: a, endless: true}}}
          - {id: z, tool: SAY, with: {value: "@vars.why"}}
        """,
        answers={"b": [*[Broken(f"no {number}") for number in range(6)], "fine"]},
        script=(Skip("10s"),),
        result="no 5",
        crashes=True,
    ),
]
