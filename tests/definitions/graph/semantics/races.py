"""Race: the first of its steps that succeeds wins, and the others are dropped."""

from tests.definitions.graph.semantics.table import Broken, Open, Row, Sent, Skip, Voted

DEFERRED = """
steps:
  - id: r
    race:
      - {id: paid, listen: paid}
      - {id: ok, approve: {title: "Wave it through?"}}
      - {id: late, sleep: 3d}
output: "@r"
"""

LOSER = """
order: listed
steps:
  - id: r
    race:
      - {id: loses, do: [{id: l, listen: m}, AFTER]}
      - {id: late, sleep: 10s}
  - {id: left, listen: {names: m, gather: 1s}}
"""

ROWS = [
    Row(
        "the first to succeed wins, and the others are dropped",
        """
        steps:
          - id: r
            race:
              - {id: slow, tool: SAY, with: {value: slow}}
              - {id: quick, tool: SAY, with: {value: quick}}
        """,
        takes={"slow": "10s", "quick": "1s"},
        ran="r/slow r/quick",
        result={"winner": "quick", "value": "quick"},
        took=1,
        crashes=True,
    ),
    Row("of a message, a person and time, the message came first", DEFERRED, script=(Sent("paid", 12),), result={"winner": "paid", "value": 12}),
    Row(
        "of a message, a person and time, the person came first, and the message is still there for the next who listens",
        DEFERRED.replace("output:", "  - {id: l, needs: r, listen: paid}\noutput:").replace('"@r"', '["@r.winner", "@l"]'),
        script=(Voted("r/ok"), Open("l"), Sent("paid", 12)),
        result=["ok", 12],
    ),
    Row(
        "of a message, a person and time, time came first, and the approval is withdrawn",
        DEFERRED,
        script=(Skip("4d"),),
        result={"winner": "late", "value": None},
        took=3 * 86400,
        children=(("perdure.approval", "cancelled", None),),
    ),
    Row(
        "a branch that fails is out, and the others go on",
        """
        steps:
          - id: r
            race:
              - {id: bad, tool: FAIL, retry: {max: 1}}
              - {id: good, tool: SAY, with: {value: 1}}
        """,
        takes={"good": "5s"},
        result={"winner": "good", "value": 1},
        took=5,
    ),
    Row(
        "when all branches have failed, the race fails with the last error",
        """
        steps:
          - id: r
            race:
              - {id: a, tool: SAY, retry: {max: 1}}
              - {id: b, tool: SAY, retry: {max: 1}}
        """,
        answers={"a": [Broken("first")], "b": [Broken("second")]},
        takes={"a": "1s", "b": "2s"},
        failed="Broken: second",
        took=2,
    ),
    Row(
        "a skipped branch does not win",
        """
        steps:
          - id: r
            race:
              - {id: a, when: {expr: "false"}, tool: SAY}
              - {id: b, tool: SAY, with: {value: here}}
        """,
        skipped="r/a",
        result={"winner": "b", "value": "here"},
    ),
    Row(
        "if every branch is skipped, there is no winner",
        """
        steps:
          - {id: r, race: [{id: a, when: {expr: "false"}, tool: SAY}]}
        """,
        skipped="r/a",
        result={"winner": None, "value": None},
    ),
    Row(
        "a branch of several steps is a block, and runs to its own end before it wins",
        """
        order: listed
        steps:
          - id: r
            race:
              - {id: long, do: [{id: x, sleep: 1m}, {id: y, sleep: 1m}]}
              - {id: short, do: [{id: v, sleep: 50s}, {id: w, tool: SAY, with: {value: won}}]}
        """,
        ran="r/long/x r/short/v r/short/w",
        result={"winner": "short", "value": "won"},
        took=50,
    ),
    Row(
        "losers inside of losers are dropped as well, their children cancelled",
        """
        steps:
          - id: r
            race:
              - {id: far, parallel: [{id: x, sleep: 1h}, {id: c, call: child}, {id: ok, approve: {title: "?"}}]}
              - {id: near, sleep: 1s}
        output: "@r.winner"
        """,
        calls=("name: child\nsteps:\n  - {id: wait, sleep: 9d}",),
        script=(Open("r/far/x r/far/c r/far/ok r/near"),),
        result="near",
        children=(("child", "cancelled", None), ("perdure.approval", "cancelled", None)),
        crashes=True,
    ),
    Row(
        "a person who says no cancels the execution, in a race as anywhere",
        """
        steps:
          - id: r
            race:
              - {id: ok, approve: {title: "?"}}
              - {id: s, sleep: 1h}
        """,
        script=(Voted("r/ok", False, comment="not now"),),
        cancelled="rejected: ok was rejected by ada: not now",
    ),
    Row(
        "in dialects 003 and 004, the branch of a person who says no is out",
        """
        dialect: "port_graph"
        order: ports
        steps:
          - id: r
            race:
              - {id: ok, approve: {title: "?"}}
              - {id: s, sleep: 1h}
        """,
        script=(Voted("r/ok", False), Open("r/s")),
        result={"winner": "s", "value": None},
    ),
    Row(
        "if some branches fail and the others are skipped, the race fails, whichever came first",
        """
        steps:
          - id: r
            race:
              - {id: bad, fail: "no"}
              - {id: gone, when: {expr: "false"}, tool: SAY}
        """,
        failed="no",
        skipped="r/gone",
    ),
    Row(
        "a race in an each is each item's own",
        """
        steps:
          - id: m
            each: {in: [1, 2]}
            race:
              - {id: a, tool: SAY, with: {value: "@item"}}
              - {id: b, sleep: 1h}
        output: ["@m[0].value", "@m[1].value"]
        """,
        result=[1, 2],
    ),
    Row(
        "undo undoes what the winner did, and not what a loser had begun",
        """
        order: listed
        steps:
          - id: r
            race:
              - {id: a, tool: RESERVE, with: {room: "1"}}
              - {id: b, tool: RESERVE, with: {room: "2"}}
          - {id: f, fail: "no"}
        """,
        takes={"r/a": "10s", "r/b": "1s"},
        answers={"r/a": ["room 1"], "r/b": ["room 2"]},
        failed="no",
        undone="r/b",
    ),
    Row(
        "the message of a loser that has only waited and set variables since goes back to its place, before what came later",
        LOSER.replace("AFTER", "{id: v, set: {x: 1}}, {id: w, sleep: 1h}"),
        script=(Sent("m", 1), Sent("m", 2)),
        result=[1, 2],
        crashes=True,
    ),
    Row(
        "the message of a loser that has settled a step since is used",
        LOSER.replace("AFTER", "{id: t, tool: SAY}, {id: w, sleep: 1h}"),
        script=(Sent("m", 1), Sent("m", 2)),
        result=[2],
        crashes=True,
    ),
    Row(
        "the message of a loser whose step has not settled goes back",
        LOSER.replace("AFTER", "{id: t, tool: SAY}"),
        takes={"r/loses/t": "1h"},
        script=(Sent("m", 1), Sent("m", 2)),
        result=[1, 2],
    ),
    Row(
        "the message of a loser that has sent one since is used",
        LOSER.replace("AFTER", "{id: t, emit: {name: hello, to: {workflow: other, id: x}}}, {id: w, sleep: 1h}"),
        script=(Sent("m", 1), Sent("m", 2)),
        result=[2],
    ),
    Row(
        "the message of a loser whose child has ended since is used",
        LOSER.replace("AFTER", "{id: t, call: child}, {id: w, sleep: 1h}"),
        calls=("name: child\nsteps:\n  - {id: s, sleep: 1s}",),
        script=(Sent("m", 1), Sent("m", 2)),
        result=[2],
    ),
    Row(
        "of a loop without end that loses, the messages of earlier turns are used, and that of the present one goes back",
        """
        order: listed
        steps:
          - id: r
            race:
              - {id: loses, repeat: {while: {expr: "true"}, endless: true}, do: [{id: l, listen: m}, {id: w, sleep: 4s}]}
              - {id: late, sleep: 10s}
          - {id: left, listen: {names: m, gather: 1s}}
        """,
        script=(Sent("m", 1), Sent("m", 2), Sent("m", 3), Sent("m", 4)),
        result=[3, 4],
        crashes=True,
    ),
    Row(
        "the message of a branch that failed goes back once another has won",
        LOSER.replace("AFTER", "{id: no, fail: bad}"),
        script=(Sent("m", 1), Sent("m", 2)),
        result=[1, 2],
    ),
    Row(
        "the message of the winner is used, though it is kept nowhere",
        """
        order: listed
        steps:
          - id: r
            race:
              - {id: wins, do: [{id: l, listen: m}, {id: w, sleep: 1s}]}
              - {id: late, sleep: 10s}
          - {id: a, listen: {names: m, timeout: 1s}}
        output: "@a"
        """,
        script=(Sent("m", 1), Sent("m", 2)),
        result=2,
    ),
    Row(
        "what a block within a loser has received goes back as well, and what a branch beside it did does not use it",
        LOSER.replace("AFTER", "{id: p, parallel: [{id: q, do: [{id: l2, listen: m}]}, {id: t, sleep: 1h}]}"),
        script=(Sent("m", 1), Sent("m", 2)),
        result=[1, 2],
    ),
    Row(
        "the messages of a block whose time is over go back",
        """
        order: listed
        steps:
          - {id: r, timeout: 10s, do: [{id: l, listen: m}, {id: w, sleep: 1h}], on_error: [{id: late, set: {}}]}
          - {id: left, listen: {names: m, gather: 1s}}
        """,
        script=(Sent("m", 1), Sent("m", 2)),
        result=[1, 2],
    ),
    Row(
        "the messages of branches and items that are cancelled since another has failed go back",
        """
        order: listed
        steps:
          - id: p
            parallel: [{id: q, do: [{id: l, listen: m}, {id: w, sleep: 1h}]}, {id: f, do: [{id: s, sleep: 1s}, {id: no, fail: bad}]}]
            on_error: [{id: one, set: {}}]
          - id: e
            each: {in: ["1h", "1s"]}
            do: [{id: l2, listen: m}, {id: w2, sleep: "@item"}, {id: no2, fail: bad}]
            on_error: [{id: two, set: {}}]
          - {id: left, listen: {names: m, gather: 1s}}
        """,
        script=(Sent("m", 1), Sent("m", 2)),
        result=[1],
    ),
]
