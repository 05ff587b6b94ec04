"""Listening, telling, waiting for people and for time."""

from tests.definitions.graph.semantics.table import Open, Row, Sent, Skip, Voted

LISTENER = "name: other\nsteps:\n  - {id: l, listen: {names: hello, timeout: 1d}}"

ROWS = [
    Row(
        "listen waits for a message, whose body is its result",
        """
        steps:
          - {id: l, listen: paid}
        """,
        script=(Open("l"), Sent("paid", {"amount": 5})),
        result={"amount": 5},
        crashes=True,
    ),
    Row(
        "a message that came before is kept, and each is taken once, in the order in which they came",
        """
        order: listed
        steps:
          - {id: s, sleep: 1h}
          - {id: a, listen: m}
          - {id: b, listen: m}
          - {id: c, tool: SAY, with: {value: ["@a", "@b"]}}
        """,
        script=(Sent("m", 1), Sent("m", 2), Sent("m", 3)),
        result=[1, 2],
    ),
    Row(
        "listen takes any of several names",
        """
        steps:
          - {id: l, listen: [yes, no]}
        """,
        script=(Sent("no", "never"),),
        result="never",
    ),
    Row(
        "with a limit, so many messages are taken of those that are there; one is waited for",
        """
        order: listed
        steps:
          - {id: s, sleep: 1m}
          - {id: a, listen: {names: m, limit: 2}}
          - {id: b, listen: {names: m, limit: 2}}
        output: ["@a", "@b"]
        """,
        script=(Sent("m", 1), Sent("m", 2), Sent("m", 3)),
        result=[[1, 2], [3]],
    ),
    Row(
        "with gather, further messages are taken in so long after the first",
        """
        steps:
          - {id: l, listen: {names: m, gather: 10s}}
        """,
        script=(Skip("1h"), Sent("m", 1), Skip("5s"), Sent("m", 2), Skip("4s"), Sent("m", 3), Open("")),
        result=[1, 2, 3],
        took=3610,
        crashes=True,
    ),
    Row(
        "with gather and a limit, it ends when there are so many",
        """
        steps:
          - {id: l, listen: {names: m, limit: 2, gather: 10s}}
        """,
        script=(Sent("m", 1), Skip("5s"), Sent("m", 2)),
        result=[1, 2],
        took=5,
    ),
    Row(
        "with gather, a single message is a list of one",
        """
        steps:
          - {id: l, listen: {names: m, gather: 10s}}
        """,
        script=(Sent("m", 1),),
        result=[1],
        took=10,
    ),
    Row(
        "a timeout is an error, unless the port leads on",
        """
        steps:
          - {id: l, listen: {names: m, timeout: 1h}}
        """,
        failed="timeout: l received no message in time",
        took=3600,
    ),
    Row(
        "the port timeout leads on",
        """
        order: ports
        steps:
          - {id: l, listen: {names: m, timeout: 1h}, next: {success: a, timeout: b}}
          - {id: a, tool: SAY}
          - {id: b, tool: SAY, with: {value: ["@l"]}}
        output: "@b"
        """,
        ran="l b",
        result=[None],
        took=3600,
        crashes=True,
    ),
    Row(
        "emit tells another execution",
        """
        order: listed
        steps:
          - {id: c, call: other, wait: false}
          - {id: e, emit: {name: hello, body: {n: 1}, to: {workflow: other, id: "@c.id"}}}
        """,
        calls=(LISTENER,),
        ran="c e",
        children=(("other", "completed", {"n": 1}),),
        crashes=True,
    ),
    Row(
        "emit to nobody is an item of the execution's own stream",
        """
        order: listed
        steps:
          - {id: a, emit: {body: "@execution.id"}}
          - {id: b, emit: {body: 2}}
        """,
        stream=("1", 2),
    ),
    Row(
        "an approval that was granted says by whom, and what was filled in",
        """
        steps:
          - {id: ok, approve: {title: "Release?", form: {channel: {enum: [beta, stable]}}}}
        output: ["@ok.approved", "@ok.form.channel", "@ok.by", "@ok.comment", "@ok.expired", "@ok.means"]
        """,
        script=(Voted("ok", form={"channel": "beta"}, comment="fine"),),
        result=[True, "beta", "ada", "fine", False, "message"],
        crashes=True,
    ),
    Row(
        "a form that does not fit is requested again",
        """
        steps:
          - {id: ok, approve: {title: "Release?", form: {channel: {enum: [beta, stable]}}}}
        output: "@ok.form.channel"
        """,
        script=(Voted("ok", form={"channel": "gamma"}), Voted("ok/again#2", form={"channel": "beta"})),
        result="beta",
    ),
    Row(
        "rejected, and nothing leads on from it: the execution is cancelled, and says by whom and why",
        """
        order: listed
        steps:
          - {id: ok, approve: {title: "?"}}
          - {id: b, tool: SAY}
        """,
        script=(Voted("ok", False, comment="too soon"),),
        ran="ok",
        cancelled="rejected: ok was rejected by ada: too soon",
    ),
    Row(
        "rejected leads on where an edge says so",
        """
        order: ports
        steps:
          - {id: ok, approve: {title: "?"}, next: {approved: a, rejected: b}}
          - {id: a, tool: SAY}
          - {id: b, tool: SAY, with: {value: "@ok.comment"}}
        output: "@b"
        """,
        script=(Voted("ok", False, comment="too soon"),),
        ran="ok b",
        result="too soon",
    ),
    Row(
        "in dialect 003 an unrouted rejection ends its way only",
        """
        dialect: "port_graph"
        order: ports
        steps:
          - {id: ok, approve: {title: "?"}, next: a}
          - {id: a, tool: SAY}
        output: over
        """,
        script=(Voted("ok", False),),
        ran="ok",
        result="over",
    ),
    Row(
        "in dialect 004 an unrouted rejection ends its way only",
        """
        dialect: "token_graph"
        order: ports
        steps:
          - {id: ok, approve: {title: "?"}, next: a}
          - {id: a, tool: SAY}
        output: over
        """,
        script=(Voted("ok", False),),
        ran="ok",
        result="over",
    ),
    Row(
        "an approval for which the time is over is an error",
        """
        steps:
          - {id: ok, approve: {title: "?", timeout: 2d}}
        """,
        failed="timeout: ok received no message in time",
        took=172_800,
    ),
    Row(
        "an approval for which the time is over leads on by the port timeout",
        """
        order: ports
        steps:
          - {id: ok, approve: {title: "?", timeout: 2d}, next: {approved: a, timeout: b, rejected: []}}
          - {id: a, tool: SAY}
          - {id: b, tool: SAY, with: {value: "@ok.expired"}}
        output: "@b"
        """,
        ran="ok b",
        result=True,
    ),
    Row(
        "with on_timeout: approve, time approves",
        """
        steps:
          - {id: ok, approve: {title: "?", timeout: 2d, on_timeout: approve}}
        output: ["@ok.approved", "@ok.expired", "@ok.by"]
        """,
        result=[True, True, ""],
    ),
    Row(
        "with on_timeout: reject, time rejects",
        """
        steps:
          - {id: ok, approve: {title: "?", timeout: 2d, on_timeout: reject}}
        """,
        cancelled="ok was rejected",
    ),
    Row(
        "with a quorum, so many have to approve",
        """
        steps:
          - {id: ok, approve: {title: "?", quorum: 2}}
        output: "@ok.by"
        """,
        script=(Voted("ok", by="ada"), Open("ok"), Voted("ok", by="bob")),
        result="bob",
    ),
    Row(
        "a block's timeout is for the whole of it, and what is in it is dropped",
        """
        steps:
          - id: d
            timeout: 1h
            parallel:
              - {id: s, sleep: 1d}
              - {id: ok, approve: {title: "?"}}
        """,
        failed="timeout: d did not end within 3600 s",
        took=3600,
        children=(("perdure.approval", "cancelled", None),),
    ),
    Row(
        "a block's timeout leads on by its port",
        """
        order: ports
        steps:
          - {id: d, timeout: 1h, do: [{id: s, sleep: 1d}], next: {success: a, timeout: b}}
          - {id: a, tool: SAY}
          - {id: b, tool: SAY, with: {value: late}}
        output: "@b"
        """,
        ran="d/s b",
        result="late",
        took=3600,
        crashes=True,
    ),
    Row(
        "a block that ends in time has no timeout",
        """
        order: listed
        steps:
          - {id: d, timeout: 1h, do: [{id: s, sleep: 30m}]}
          - {id: t, sleep: 1h}
        """,
        took=5400,
    ),
    Row(
        "sleep until a time",
        """
        steps:
          - {id: s, sleep: {until: "@input.at"}}
        input: {at: {}}
        """,
        {"at": 1_000_000_060},
        took=60,
    ),
    Row(
        "a task goes to a queue by its type, with its input, and any worker may do it",
        """
        steps:
          - {id: t, task: {type: render, queue: gpu}, with: {page: 3}}
        """,
        answers={"t": ["done"]},
        result="done",
        targets={"t": "render on gpu"},
    ),
    Row(
        "a task without a queue goes to that of its type",
        """
        steps:
          - {id: t, task: render}
        """,
        answers={"t": ["done"]},
        result="done",
        targets={"t": "render on render"},
    ),
    Row(
        "on_rejected: go_on goes on with the decision, which says that it was not approved",
        """
        order: listed
        steps:
          - {id: ok, approve: {title: "?"}, on_rejected: go_on}
          - {id: told, if: {ref: "@ok.approved"}, then: [{id: yes, tool: SAY}], else: [{id: no, tool: SAY, with: {value: "@ok.comment"}}]}
        """,
        script=(Voted("ok", False, comment="too soon"),),
        result="too soon",
        crashes=True,
    ),
    Row(
        "on_rejected: fail makes a rejection a failure, which on_error handles",
        """
        steps:
          - {id: ok, approve: {title: "?"}, on_rejected: fail, on_error: [{id: h, tool: SAY, with: {value: ["@error.type", "@error.message"]}}]}
        """,
        script=(Voted("ok", False, comment="too soon"),),
        result=["rejected", "ok was rejected by ada: too soon"],
        crashes=True,
    ),
    Row(
        "on_rejected: fail fails what holds the step, and what was done is undone",
        """
        order: listed
        steps:
          - {id: r, tool: RESERVE}
          - {id: d, do: [{id: ok, approve: {title: "?"}, on_rejected: fail}]}
        """,
        script=(Voted("d/ok", False),),
        undone="r",
        failed="rejected: ok was rejected by ada",
    ),
    Row(
        "with each, on_rejected: go_on has the decision on every item",
        """
        steps:
          - {id: ok, each: {in: [ann, bob]}, approve: {title: "@{item}?"}, on_rejected: go_on}
        output: ["@ok[0].approved", "@ok[1].approved"]
        """,
        script=(Voted("ok/~0", False, by="ann"), Voted("ok/~1", by="bob")),
        result=[False, True],
    ),
    Row(
        "an approval that is rejected and goes on does not win a race",
        """
        steps:
          - {id: r, race: [{id: ok, approve: {title: "?"}, on_rejected: go_on}, {id: s, sleep: 5s}]}
        output: "@r.winner"
        """,
        script=(Voted("r/ok", False), Skip("10s")),
        result="s",
    ),
]
