"""The control-flow patterns of workflows, 43 in all: each by its number and name, how it stands here, and a definition that does it.

The numbers and names are those of the Workflow Patterns Initiative (Russell, ter Hofstede, van der Aalst, Mulyar: Workflow Control-Flow Patterns, 2006).
"""

from typing import NamedTuple

from tests.definitions.graph.semantics.table import ANYTHING, Cancelled, Open, Row, Sent, Skip, Voted


class Pattern(NamedTuple):
    """One pattern. A `row` proves that it can be had; without any, `docs/reference/patterns.md` says why it can't."""

    number: int
    name: str
    row: Row | None = None


DISCRIMINATED = """
order: ports
steps:
  - {{id: a, tool: SAY, next: [b, c, d]}}
  - {{id: b, tool: SAY, next: e}}
  - {{id: c, tool: SAY, next: e}}
  - {{id: d, tool: SAY, next: e}}
  - {{id: e, tool: SAY, {join}}}
"""

PATTERNS = (
    Pattern(
        1,
        "Sequence",
        Row(
            "one step after the other",
            """
            order: listed
            steps:
              - {id: a, tool: SAY, with: {value: 1}}
              - {id: b, tool: ADD, with: {a: "@a", b: 1}}
              - {id: c, tool: ADD, with: {a: "@b", b: 1}}
            """,
            ran="a b c",
            at_once=1,
            result=3,
        ),
    ),
    Pattern(
        2,
        "Parallel Split",
        Row(
            "one step leads to several, which run at once",
            """
            order: ports
            steps:
              - {id: a, tool: SAY, next: [b, c]}
              - {id: b, tool: SAY}
              - {id: c, tool: SAY}
            """,
            takes={"b": "5s", "c": "5s"},
            script=(Open("b c"),),
            took=5,
        ),
    ),
    Pattern(
        3,
        "Synchronization",
        Row(
            "a step waits for all that lead to it",
            DISCRIMINATED.format(join="join: all"),
            takes={"b": "1s", "c": "9s", "d": "4s"},
            script=(Skip("5s"), Open("c")),
            ran="a b c d e",
            took=9,
        ),
    ),
    Pattern(
        4,
        "Exclusive Choice",
        Row(
            "the first rule that holds is taken, and no other",
            """
            order: ports
            steps:
              - {id: a, tool: SAY, with: {value: 7}, next: [{when: {ref: "@self", gt: 5}, to: b}, {when: {ref: "@self", gt: 3}, to: c}, {to: d}]}
              - {id: b, tool: SAY}
              - {id: c, tool: SAY}
              - {id: d, tool: SAY}
            """,
            ran="a b",
        ),
    ),
    Pattern(
        5,
        "Simple Merge",
        Row(
            "ways of which only one is taken come together without waiting",
            """
            order: ports
            steps:
              - {id: a, test: {expr: "false"}, next: {"true": b, "false": c}}
              - {id: b, tool: SAY, next: d}
              - {id: c, tool: SAY, next: d}
              - {id: d, tool: SAY, with: {value: merged}}
            """,
            ran="a c d",
            result="merged",
        ),
    ),
    Pattern(
        6,
        "Multi-Choice",
        Row(
            "of several ways any number is taken, each by its own condition",
            """
            input: {n: {type: integer}}
            steps:
              - {id: small, when: {ref: "@input.n", lt: 10}, tool: SAY}
              - {id: odd, when: {ref: "@input.n", in: [1, 3, 5, 7, 9]}, tool: SAY}
              - {id: big, when: {ref: "@input.n", gte: 10}, tool: SAY}
            """,
            {"n": 7},
            ran="small odd",
            skipped="big",
        ),
    ),
    Pattern(
        7,
        "Structured Synchronizing Merge",
        Row(
            "the join behind a multi-choice waits for just what was chosen",
            """
            order: ports
            steps:
              - {id: a, tool: SAY, with: {value: 2}, next: [{when: {ref: "@self", eq: 2}, to: [b, c]}, {to: [b, c, d]}]}
              - {id: b, tool: SAY, next: e}
              - {id: c, tool: SAY, next: e}
              - {id: d, tool: SAY, next: e}
              - {id: e, tool: SAY, with: {value: merged}}
            """,
            takes={"b": "1s"},
            answers={"b": ["b"]},
            ran="a b c e",
            result="merged",
            took=1,
        ),
    ),
    Pattern(
        8,
        "Multi-Merge",
        Row("every token runs the step again", DISCRIMINATED.format(join="join: each"), takes={"b": "1s", "c": "2s", "d": "3s"}, ran="a b c d e e#2 e#3"),
    ),
    Pattern(
        9,
        "Structured Discriminator",
        Row(
            "the first token goes on, the others are taken in and change nothing",
            DISCRIMINATED.format(join="join: any"),
            takes={"b": "3s", "c": "1s", "d": "2s"},
            script=(Skip("1.5s"), Open("b d")),
            ran="a b c d e",
            took=3,
        ),
    ),
    Pattern(
        10,
        "Arbitrary Cycles",
        Row(
            "a way leads back to any earlier step, so often at most",
            """
            order: ports
            steps:
              - {id: a, tool: SAY, next: b}
              - {id: b, tool: SAY, next: [{when: {ref: "@self", eq: again}, to: a, max: 5}, {when: {ref: "@self", eq: here}, to: b, max: 5}, {to: c}]}
              - {id: c, tool: SAY}
            """,
            answers={"b": ["again", "here", "done"]},
            ran="a/~0/a a/~0/b/~0/b a/~1/a a/~1/b/~0/b a/~1/b/~1/b c",
        ),
    ),
    Pattern(
        11,
        "Implicit Termination",
        Row(
            "it ends when nothing goes on any more, people and time included",
            """
            steps:
              - {id: a, tool: SAY}
              - {id: s, sleep: 1h}
              - {id: ok, approve: {title: "?"}}
            output: over
            """,
            script=(Skip("2h"), Open("ok"), Voted("ok")),
            result="over",
            took=7200,
        ),
    ),
    Pattern(
        12,
        "Multiple Instances without Synchronization",
        Row(
            "many are started, and none is waited for",
            """
            steps:
              - {id: m, each: {in: [1, 2, 3]}, call: slow, wait: false}
            output: started
            """,
            calls=("name: slow\nsteps:\n  - {id: s, sleep: 1d}",),
            result="started",
            took=0,
            children=(("slow", "waiting", None), ("slow", "waiting", None), ("slow", "waiting", None)),
        ),
    ),
    Pattern(
        13,
        "Multiple Instances with a priori Design-Time Knowledge",
        Row(
            "so many as the definition says, all waited for",
            """
            steps:
              - {id: m, each: {in: [x, y, z]}, tool: SAY, with: {value: "@item"}}
            """,
            at_once=3,
            result=["x", "y", "z"],
        ),
    ),
    Pattern(
        14,
        "Multiple Instances with a priori Run-Time Knowledge",
        Row(
            "so many as a list has that is known when the step begins; the results are in its order",
            """
            order: listed
            steps:
              - {id: found, tool: SAY}
              - {id: m, each: {in: "@found", concurrency: 2}, tool: SAY}
            """,
            answers={"found": [[1, 2, 3, 4]], "m/~0": ["a"], "m/~1": ["b"], "m/~2": ["c"], "m/~3": ["d"]},
            takes={"m/~0": "5s"},
            at_once=2,
            result=["a", "b", "c", "d"],
        ),
    ),
    Pattern(15, "Multiple Instances without a priori Run-Time Knowledge"),
    Pattern(
        16,
        "Deferred Choice",
        Row(
            "a message, a person and time stand side by side; what comes first decides, and the others are withdrawn",
            """
            steps:
              - id: r
                race:
                  - {id: paid, listen: paid}
                  - {id: waived, approve: {title: "Waive it?"}}
                  - {id: late, sleep: 3d}
            output: "@r.winner"
            """,
            script=(Open("r/paid r/waived r/late"), Skip("1d"), Sent("paid", 5)),
            result="paid",
            children=(("perdure.approval", "cancelled", None),),
        ),
    ),
    Pattern(
        17,
        "Interleaved Parallel Routing",
        Row(
            "in the order in which they are written, never two at once",
            """
            steps:
              - {id: p, parallel: {concurrency: 1, steps: [{id: a, sleep: 1m}, {id: b, sleep: 1m}, {id: c, sleep: 1m}]}}
            """,
            at_once=1,
            took=180,
        ),
    ),
    Pattern(
        18,
        "Milestone",
        Row(
            "a step is done only if another branch stands where it has to at that moment",
            """
            order: listed
            vars: {open: false}
            steps:
              - id: p
                parallel:
                  - {id: sale, do: [{id: s, sleep: 1h}, {id: begins, set: {open: true}}, {id: t, sleep: 1h}, {id: ends, set: {open: false}}]}
                  - {id: soon, do: [{id: u, sleep: 90m}, {id: in_time, when: {ref: "@vars.open"}, tool: SAY}]}
                  - {id: later, do: [{id: v, sleep: 3h}, {id: too_late, when: {ref: "@vars.open"}, tool: SAY}]}
            """,
            ran="p/sale/s p/soon/u p/later/v p/sale/begins p/sale/t p/soon/in_time p/sale/ends",
            skipped="p/later/too_late",
        ),
    ),
    Pattern(
        19,
        "Cancel Task",
        Row(
            "a step that runs is dropped, and what it says afterwards changes nothing",
            """
            steps:
              - id: r
                race:
                  - {id: work, tool: SAY}
                  - {id: stop, listen: stop}
              - {id: after, needs: r, sleep: 1m}
            output: "@r.winner"
            """,
            takes={"work": "30s"},
            script=(Skip("10s"), Sent("stop"), Skip("30s"), Open("after")),
            result="stop",
            took=70,
        ),
    ),
    Pattern(
        20,
        "Cancel Case",
        Row(
            "the execution is cancelled: nothing begins any more, timers and approvals are closed",
            """
            order: listed
            steps:
              - id: p
                parallel:
                  - {id: s, sleep: 1d}
                  - {id: ok, approve: {title: "?"}}
              - {id: after, tool: SAY}
            """,
            script=(Open("p/s p/ok"), Cancelled("no longer wanted"), Skip("2d"), Open("")),
            ran="p/s p/ok",
            cancelled="no longer wanted",
            children=(("perdure.approval", "cancelled", None),),
        ),
    ),
    Pattern(
        21,
        "Structured Loop",
        Row(
            "again until it holds, and for each of a list; the state is durable",
            """
            order: listed
            steps:
              - {id: poll, tool: ADD, with: {a: "@state", b: 1}, repeat: {until: {ref: "@self", gte: 3}, max: 9, state: 0, delay: 1d}}
              - {id: m, each: {in: [1, 2], concurrency: 1}, tool: ADD, with: {a: "@item", b: "@poll"}}
            """,
            result=[4, 5],
            took=2 * 86_400,
        ),
    ),
    Pattern(
        22,
        "Recursion",
        Row(
            "a definition calls itself",
            """
            name: down
            input: {n: {type: integer}}
            order: listed
            steps:
              - {id: end, when: {ref: "@input.n", eq: 0}, return: [0]}
              - {id: less, tool: ADD, with: {a: "@input.n", b: -1}}
              - {id: rest, call: down, with: {n: "@less"}}
              - {id: all, tool: ADD, with: {a: ["@input.n"], b: "@rest"}}
            """,
            {"n": 3},
            skipped="end",
            result=[3, 2, 1, 0],
        ),
    ),
    Pattern(23, "Transient Trigger"),
    Pattern(
        24,
        "Persistent Trigger",
        Row(
            "a message that came before anybody listened is kept, and taken once, first in first out",
            """
            order: listed
            steps:
              - {id: s, sleep: 1h}
              - {id: a, listen: m}
              - {id: b, listen: m}
            output: ["@a", "@b"]
            """,
            script=(Sent("m", 1), Sent("m", 2)),
            result=[1, 2],
        ),
    ),
    Pattern(
        25,
        "Cancel Region",
        Row(
            "a block is given up with all that goes on in it, and the rest goes on",
            """
            order: listed
            steps:
              - id: r
                race:
                  - id: region
                    parallel:
                      - {id: x, sleep: 1d}
                      - {id: y, do: [{id: ok, approve: {title: "?"}}, {id: never, tool: SAY}]}
                  - {id: stop, listen: stop}
              - {id: after, tool: SAY, with: {value: on}}
            """,
            script=(Open("r/region/x r/region/y/ok r/stop"), Sent("stop")),
            ran="r/stop r/region/x r/region/y/ok after",
            result="on",
            children=(("perdure.approval", "cancelled", None),),
        ),
    ),
    Pattern(
        26,
        "Cancel Multiple Instance Activity",
        Row(
            "all items of an each are given up together",
            """
            steps:
              - id: r
                race:
                  - {id: m, each: {in: [1, 2, 3]}, sleep: 1d}
                  - {id: stop, listen: stop}
            output: "@r.winner"
            """,
            script=(Open("r/m/~0 r/m/~1 r/m/~2 r/stop"), Sent("stop"), Open("")),
            result="stop",
            took=0,
        ),
    ),
    Pattern(27, "Complete Multiple Instance Activity"),
    Pattern(28, "Blocking Discriminator"),
    Pattern(
        29,
        "Cancelling Discriminator",
        Row(
            "the first to succeed wins, and the others are cancelled",
            """
            steps:
              - id: r
                race:
                  - {id: a, tool: SAY}
                  - {id: b, sleep: 1d}
                  - {id: c, call: slow}
            output: "@r.winner"
            """,
            calls=("name: slow\nsteps:\n  - {id: s, sleep: 1d}",),
            takes={"a": "5s"},
            result="a",
            took=5,
            children=(("slow", "cancelled", None),),
        ),
    ),
    Pattern(
        30,
        "Structured Partial Join",
        Row(
            "so many of the tokens go on, the others are taken in",
            DISCRIMINATED.format(join="join: 2"),
            takes={"b": "3s", "c": "1s", "d": "2s"},
            script=(Skip("2.5s"), Open("b")),
            ran="a b c d e",
        ),
    ),
    Pattern(31, "Blocking Partial Join"),
    Pattern(
        32,
        "Cancelling Partial Join",
        Row(
            "so many successes are enough, and the rest is cancelled",
            """
            steps:
              - id: m
                each: {in: [legal, tax, risk], enough: 2}
                approve: {title: "Does @{item} agree?"}
            output: ["@m[0].by", "@m[1].by"]
            """,
            script=(Voted("m/~2", by="rae"), Voted("m/~0", by="lee")),
            result=["lee", "rae"],
            children=(("perdure.approval", "completed", ANYTHING), ("perdure.approval", "cancelled", None), ("perdure.approval", "completed", ANYTHING)),
        ),
    ),
    Pattern(
        33,
        "Generalised AND-Join",
        Row(
            "a join inside of a loop: tokens of two turns never meet",
            """
            order: ports
            steps:
              - {id: a, tool: SAY, next: [b, c]}
              - {id: b, tool: SAY, next: d}
              - {id: c, tool: SAY, next: d}
              - {id: d, tool: ECHO, with: {b: "@b", c: "@c"}, next: [{when: {ref: "@a", lt: 2}, to: a, max: 3}, {to: e}]}
              - {id: e, tool: SAY, with: {value: "@d"}}
            """,
            answers={"a": [1, 2], "b": ["b1", "b2"], "c": ["c1", "c2"]},
            takes={"b": "9s"},
            result={"b": "b2", "c": "c2"},
            took=18,
        ),
    ),
    Pattern(
        34,
        "Static Partial Join for Multiple Instances",
        Row(
            "it goes on although some items fail",
            """
            steps:
              - {id: m, each: {in: [1, 2, 3], on_error: skip}, tool: SAY, retry: {max: 1}, with: {value: "@item"}}
            """,
            answers={"m/~1": [ValueError("no")]},
            result=[1, 3],
        ),
    ),
    Pattern(
        35,
        "Static Cancelling Partial Join for Multiple Instances",
        Row(
            "so many items are enough, and the rest is cancelled",
            """
            steps:
              - {id: m, each: {in: [3, 1, 2], enough: 2}, sleep: "@{item}h"}
            """,
            took=7200,
            result=[None, None],
        ),
    ),
    Pattern(36, "Dynamic Partial Join for Multiple Instances"),
    Pattern(
        37,
        "Local Synchronizing Merge",
        Row(
            "what was never reached holds no join up, however long the way there",
            """
            order: ports
            steps:
              - {id: a, tool: SAY, next: [b, t]}
              - {id: b, tool: SAY, next: z}
              - {id: t, test: {expr: "false"}, next: {"true": x, "false": []}}
              - {id: x, tool: SAY, next: y}
              - {id: y, tool: SAY, next: z}
              - {id: z, tool: SAY, with: {value: ["@y"]}}
            """,
            ran="a t b z",
            result=[None],
        ),
    ),
    Pattern(38, "General Synchronizing Merge"),
    Pattern(39, "Critical Section"),
    Pattern(
        40,
        "Interleaved Routing",
        Row(
            "one at a time, each as soon as there is a place",
            """
            steps:
              - {id: m, each: {in: [1, 2, 3], concurrency: 1}, sleep: 1m}
            """,
            at_once=1,
            took=180,
        ),
    ),
    Pattern(41, "Thread Merge", Row("so many tokens are one", DISCRIMINATED.format(join="join: 3"), ran="a b c d e")),
    Pattern(
        42,
        "Thread Split",
        Row(
            "so many tokens go on over one edge, each by itself",
            """
            order: ports
            steps:
              - {id: a, tool: SAY, next: [b, c, d]}
              - {id: b, set: {}, next: e}
              - {id: c, set: {}, next: e}
              - {id: d, set: {}, next: e}
              - {id: e, tool: SAY, join: each, next: f}
              - {id: f, tool: SAY, join: each}
            """,
            ran="a b c d e e#2 e#3 f f#2 f#3",
        ),
    ),
    Pattern(
        43,
        "Explicit Termination",
        Row(
            "a return ends the execution while others are in flight, and what they say afterwards changes nothing",
            """
            steps:
              - {id: slow, tool: SAY}
              - {id: s, sleep: 1d}
              - {id: quick, tool: SAY}
              - {id: r, needs: quick, return: early}
            """,
            takes={"slow": "1m", "quick": "1s"},
            script=(Open("slow s quick"), Skip("2m"), Open("")),
            result="early",
            took=1,
        ),
    ),
)
