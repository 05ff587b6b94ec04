"""Undo: what was done is undone, last first, when an execution fails or is cancelled. Then who is to be told of it is called."""

from tests.definitions.graph.semantics.table import Broken, Cancelled, Retried, Row, Sent, Skip, Undone, Voted

ROWS = [
    Row(
        "what was done last is undone first, each with its own result",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, with: {value: 1}, undo: {tool: SAY, with: {value: "@self"}}}
          - {id: b, tool: SAY, with: {value: 2}, undo: SAY}
          - {id: c, tool: SAY, with: {value: 3}}
          - {id: f, fail: "no"}
        """,
        ran="a b c",
        undone="b a",
        failed="no",
        crashes=True,
    ),
    Row(
        "what has not succeeded is not undone",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: b, tool: FAIL, undo: SAY, retry: {max: 1}}
        """,
        undone="a",
        failed="Broken",
    ),
    Row(
        "a tool's own undo is used where the definition names none",
        """
        order: listed
        steps:
          - {id: a, tool: RESERVE, with: {room: "7"}}
          - {id: f, fail: "no"}
        """,
        undone="a",
        failed="no",
    ),
    Row(
        "what the definition names goes before the tool's own undo",
        """
        order: listed
        steps:
          - {id: a, tool: RESERVE, with: {room: "7"}, undo: {tool: SAY, with: {value: "@self"}}}
          - {id: f, fail: "no"}
        """,
        undone="a",
        failed="no",
    ),
    Row(
        "each item is undone for itself",
        """
        order: listed
        steps:
          - {id: m, each: {in: [a, b, c], concurrency: 1}, tool: SAY, with: {value: "@item"}, undo: {tool: SAY, with: {value: "@self"}}}
          - {id: f, fail: "no"}
        """,
        undone="m/~2 m/~1 m/~0",
        failed="no",
    ),
    Row(
        "nested steps are undone in the order in which they ended, whatever holds them",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - id: p
            parallel:
              - {id: x, tool: SAY, undo: SAY}
              - {id: y, do: [{id: z, tool: SAY, undo: SAY}]}
          - {id: f, fail: "no"}
        """,
        takes={"x": "5s", "z": "1s"},
        undone="p/x p/y/z a",
        failed="no",
    ),
    Row(
        "the undo of a step in a cycle or repetition is that of every turn",
        """
        order: listed
        steps:
          - {id: r, tool: SAY, undo: SAY, repeat: {while: {ref: "@index", lt: 2}, max: 5}}
          - {id: f, fail: "no"}
        """,
        undone="r/~2 r/~1 r/~0",
        failed="no",
    ),
    Row(
        "the undo of a workflow that was called is its own",
        """
        order: listed
        steps:
          - {id: c, call: trip, undo: true}
          - {id: f, fail: "no"}
        """,
        calls=("name: trip\nsteps:\n  - {id: t, tool: SAY, undo: SAY}",),
        undone="c",
        failed="no",
    ),
    Row(
        "a step in flight when another fails has a grace, and what it does in that time is undone",
        """
        steps:
          - {id: x, tool: SAY, undo: SAY}
          - {id: y, tool: FAIL, retry: {max: 1}}
        """,
        takes={"x": "5s"},
        undone="x",
        failed="Broken",
        took=10.0,
        if_killed="what was in its grace when its process was killed has no outcome, so it is not undone",
    ),
    Row(
        "a step that is in flight beyond its grace is abandoned, and undone only where it is in doubt",
        """
        order: listed
        steps:
          - id: p
            parallel:
              - {id: x, tool: SAY, undo: SAY}
              - {id: z, tool: SAY, undo: {tool: SAY, with: {value: "@self"}, in_doubt: true}}
              - {id: y, tool: FAIL, retry: {max: 1}}
        """,
        takes={"x": "50s", "z": "50s"},
        undone="p/z",
        failed="Broken",
        took=80.0,
        crashes=True,
    ),
    Row(
        "the grace is the step's own, else that of the limits",
        """
        limits: {grace: 20s}
        steps:
          - {id: x, tool: SAY, grace: 40s, undo: SAY}
          - {id: z, tool: SAY, undo: SAY}
          - {id: y, tool: FAIL, retry: {max: 1}}
        """,
        takes={"x": "30s", "z": "30s"},
        undone="x",
        failed="Broken",
        took=60.0,
        if_killed="what was in its grace when its process was killed has no outcome, so it is not undone",
    ),
    Row(
        "a step that is in flight when the execution is cancelled has its grace",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: x, tool: SAY, undo: SAY}
        """,
        takes={"x": "20s"},
        script=(Skip("1s"), Cancelled("no longer wanted")),
        undone="x a",
        cancelled="no longer wanted",
        took=40.0,
        if_killed="what was in its grace when its process was killed has no outcome, so it is not undone",
    ),
    Row(
        "a deadline gives a step in flight its grace",
        """
        limits: {deadline: 10s}
        steps:
          - {id: x, tool: SAY, undo: SAY}
        """,
        takes={"x": "15s"},
        undone="x",
        failed="the execution did not end within 10 s of its start",
        took=30.0,
        if_killed="what was in its grace when its process was killed has no outcome, so it is not undone",
    ),
    Row(
        "a return waits for nothing that is in flight",
        """
        order: listed
        steps:
          - id: r
            race:
              - {id: x, tool: SAY, undo: SAY}
              - {id: y, tool: SAY, with: {value: 2}}
        """,
        takes={"x": "50s"},
        took=0.0,
    ),
    Row(
        "a step that fails is undone where it is in doubt",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: b, tool: FAIL, undo: {tool: SAY, with: {value: "@self"}, in_doubt: true}, retry: {max: 1}}
        """,
        undone="b a",
        failed="Broken",
    ),
    Row(
        "an undo that has failed for good stops no other, if it says so",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: b, tool: SAY, undo: {tool: FAIL, with: {message: "broken"}, retry: {max: 1}, on_error: continue}}
          - {id: c, tool: SAY, undo: SAY}
          - {id: f, fail: "no"}
        """,
        undone="c b a",
        failed="no",
    ),
    Row(
        "a called workflow without undo: true is left as it is",
        """
        order: listed
        steps:
          - {id: c, call: trip}
          - {id: f, fail: "no"}
        """,
        calls=("name: trip\nsteps:\n  - {id: t, tool: SAY, undo: SAY}",),
        undone="",
        failed="no",
        children=(("trip", "completed", None),),
    ),
    Row(
        "a cancelled execution is undone as well",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: s, sleep: 1d}
        """,
        script=(Cancelled("no longer wanted"),),
        ran="a s",
        undone="a",
        cancelled="no longer wanted",
        crashes=True,
    ),
    Row(
        "so is one that a person has rejected",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: ok, approve: {title: "?"}}
        """,
        script=(Voted("ok", False),),
        undone="a",
        cancelled="ok was rejected by ada",
    ),
    Row(
        "a completed execution can be undone afterwards",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: b, tool: SAY, undo: SAY}
        """,
        script=(Undone(),),
        undone="b a",
    ),
    Row(
        "on_failure: {undo: false} leaves all as it is",
        """
        order: listed
        on_failure: {undo: false}
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: f, fail: "no"}
        """,
        undone="",
        failed="no",
    ),
    Row(
        "on_failure calls a tool with the error, once all is undone",
        """
        order: listed
        on_failure: {call: ECHO}
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: f, fail: {message: "no paper", type: Jam}}
        """,
        undone="a",
        failed="Jam: no paper",
        told={"error": {"type": "Jam", "message": "no paper"}},
        crashes=True,
    ),
    Row(
        "on_failure calls a workflow likewise",
        """
        order: listed
        on_failure: {call: alarm}
        steps:
          - {id: f, fail: "no"}
        """,
        calls=('name: alarm\ninput: {error: {}, execution: {}}\nsteps:\n  - {id: t, tool: SAY, with: {value: "@input.error.message"}}',),
        failed="no",
        children=(("alarm", "completed", "no"),),
    ),
    Row(
        "who is told of a failure has until the grace after the deadline is over",
        """
        order: listed
        limits: {deadline: 60s, grace: 5s}
        on_failure: {call: alarm}
        steps:
          - {id: f, fail: "no"}
        """,
        calls=("name: alarm\ninput: {error: {}, execution: {}}\nsteps:\n  - {id: s, sleep: 1d}",),
        failed="deadline_exceeded: the execution did not end",
        children=(("alarm", "cancelled", None),),
        took=65.0,
    ),
    Row(
        "on_failure is not called when all goes well",
        """
        on_failure: {call: FAIL}
        steps:
          - {id: a, tool: SAY, with: {value: 1}}
        """,
        result=1,
    ),
    Row(
        "who is told may fail, and the execution has failed as it has",
        """
        on_failure: {call: FAIL}
        steps:
          - {id: f, fail: "no"}
        """,
        failed="failed: no",
    ),
    Row(
        "an undo that fails is tried again, and the rest is undone all the same",
        """
        order: listed
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: b, tool: SAY, undo: SAY}
          - {id: f, fail: "no"}
        """,
        answers={"~undo/b": [Broken("busy"), "done"]},
        undone="b a",
        failed="no",
    ),
    Row(
        "a failure that was caught undoes nothing",
        """
        order: listed
        steps:
          - {id: d, on_error: go_on, do: [{id: a, tool: SAY, undo: SAY}, {id: f, fail: "no"}]}
          - {id: b, tool: SAY, with: {value: on}}
        """,
        undone="",
        result="on",
    ),
    Row(
        "what is open when an execution fails is dropped before anything is undone",
        """
        steps:
          - {id: a, tool: SAY, undo: SAY}
          - {id: s, sleep: 1d}
          - {id: f, needs: a, fail: "no"}
        """,
        undone="a",
        failed="no",
        took=0,
    ),
    Row(
        "the undo of a block that has completed runs instead of those of its steps",
        """
        order: listed
        steps:
          - id: trip
            undo: {tool: SAY, with: {value: "@self"}}
            do: [{id: a, tool: SAY, undo: SAY}, {id: b, tool: SAY, with: {value: 7}, undo: SAY}]
          - {id: c, tool: SAY, undo: SAY}
          - {id: f, fail: "no"}
        """,
        ran="trip/a trip/b c",
        undone="c trip",
        targets={"~undo/trip": "SAY"},
        failed="no",
        crashes=True,
    ),
    Row(
        "a block that has not completed is undone by its steps' own",
        """
        order: listed
        steps:
          - id: trip
            undo: SAY
            do: [{id: a, tool: SAY, undo: SAY}, {id: inner, undo: SAY, do: [{id: x, tool: SAY, undo: SAY}]}, {id: f, fail: "no"}]
        """,
        undone="trip/inner trip/a",
        failed="no",
        crashes=True,
    ),
    Row(
        "each passage of a block through a list is undone as a whole, with its item and its steps' results",
        """
        order: listed
        steps:
          - id: m
            each: {in: [a, b], concurrency: 1}
            undo: {tool: ECHO, with: {it: "@item", nth: "@index", got: "@x", all: "@self"}}
            do: [{id: x, tool: SAY, with: {value: "@item"}, undo: SAY}]
          - {id: f, fail: "no"}
        """,
        undone="m/~1 m/~0",
        failed="no",
        crashes=True,
    ),
    Row(
        "the undo of a step in a list reads its item and the steps beside it",
        """
        order: listed
        steps:
          - id: m
            each: {in: [a, b], as: letter, concurrency: 1}
            do: [{id: x, tool: SAY, with: {value: "@letter"}}, {id: y, tool: SAY, undo: {tool: ECHO, with: {it: "@letter", got: "@x"}}}]
          - {id: f, fail: "no"}
        """,
        undone="m/~1/y m/~0/y",
        failed="no",
        crashes=True,
    ),
    Row(
        "every turn of a block is undone as a whole",
        """
        order: listed
        steps:
          - id: r
            repeat: {while: {ref: "@index", lt: 1}, max: 5}
            undo: {tool: ECHO, with: {turn: "@index"}}
            do: [{id: x, tool: SAY, undo: SAY}]
          - {id: f, fail: "no"}
        """,
        undone="r/~1 r/~0",
        failed="no",
    ),
    Row(
        "whatever a step does, what undoes it runs once it has succeeded",
        """
        order: listed
        vars: {x: 1}
        steps:
          - {id: s, set: {x: 2}, undo: ECHO}
          - {id: t, test: {ref: "@vars.x", eq: 2}, undo: SAY}
          - {id: e, emit: {body: 1}, undo: SAY}
          - {id: z, sleep: 1s, undo: SAY}
          - {id: i, if: true, then: [{id: a, tool: SAY, undo: SAY}], undo: SAY}
          - {id: p, parallel: [{id: b, tool: SAY, undo: SAY}], undo: ECHO}
          - {id: w, race: [{id: c, tool: SAY, undo: SAY}], undo: ECHO}
          - {id: ok, approve: {title: "?"}, undo: {tool: ECHO, with: {by: "@self.by"}}}
          - {id: l, listen: {names: go}, undo: SAY}
          - {id: n, listen: {names: never, timeout: 1s}, undo: SAY, on_error: go_on}
          - {id: f, fail: "no"}
        """,
        script=(Skip("2s"), Voted("ok"), Sent("go", 5)),
        undone="l ok w p i z e t s",
        failed="no",
        crashes=True,
    ),
    Row(
        "a workflow that was called is undone by the tool that is named for it, which is given its result",
        """
        order: listed
        steps:
          - {id: c, call: trip, undo: {tool: ECHO, with: {was: "@self"}}}
          - {id: d, call: trip, wait: false, undo: ECHO}
          - {id: f, fail: "no"}
        """,
        calls=("name: trip\nsteps:\n  - {id: t, tool: SAY, with: {value: 3}, undo: SAY}",),
        undone="d c",
        targets={"~undo/c": "ECHO"},
        failed="no",
        crashes=True,
    ),
    Row(
        "what is done again after an undo is all of the block",
        """
        order: listed
        steps:
          - {id: trip, undo: ECHO, do: [{id: a, tool: SAY, transform: {n: "@self"}, undo: SAY}]}
          - {id: f, tool: SAY, retry: {max: 1}}
        """,
        script=(Retried(),),
        answers={"f": [Broken("no"), "done"]},
        ran="trip/a f trip/a f",
        undone="trip",
        result="done",
    ),
]
