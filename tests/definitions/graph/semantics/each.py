"""Each: a step once for each of a list. The results stand in the order of the list, whatever came first."""

from tests.definitions.graph.semantics.table import ANYTHING, Broken, Open, Row, Sent, Skip, Voted


def mapped(each: str, tool: str = "SAY", more: str = "") -> str:
    """One step, done for each of a list."""
    return f"""
        input: {{of: {{}}}}
        steps:
          - {{id: m, each: {{in: "@input.of", {each}}}, tool: {tool}, with: {{value: "@item"}}{more}}}
    """


NO_RETRY = ", retry: {max: 1}"
NO_GRACE = ", grace: 0s"

ROWS = [
    Row(
        "all items are done at once, and the results stand in their order",
        mapped("index: index"),
        {"of": ["a", "b", "c"]},
        takes={"m/~0": "3s", "m/~1": "1s", "m/~2": "2s"},
        answers={"m/~0": ["A"], "m/~1": ["B"], "m/~2": ["C"]},
        ran="m/~0 m/~1 m/~2",
        result=["A", "B", "C"],
        took=3,
        at_once=3,
        crashes=True,
    ),
    Row(
        "with concurrency, so many at a time: the next begins as soon as one ends",
        mapped("concurrency: 2"),
        {"of": [1, 2, 3, 4]},
        takes={"m/~0": "10s", "m/~1": "1s", "m/~2": "1s", "m/~3": "1s"},
        script=(Open("m/~0 m/~1"), Skip("1.5s"), Open("m/~0 m/~2"), Skip("1s"), Open("m/~0 m/~3")),
        at_once=2,
        took=10,
    ),
    Row(
        "past ten items their order is still that of numbers",
        mapped("concurrency: 5"),
        {"of": list(range(23))},
        result=list(range(23)),
        ran=" ".join(f"m/~{number}" for number in range(23)),
        at_once=5,
    ),
    Row(
        "an empty list is [] at once",
        mapped("concurrency: 2"),
        {"of": []},
        ran="",
        result=[],
        took=0,
    ),
    Row(
        "what is no list is an error that shows it",
        mapped("concurrency: 2"),
        {"of": 5},
        failed="each needs a list, found 5",
        ran="",
    ),
    Row(
        "null is no list either",
        mapped("concurrency: 2"),
        {"of": None},
        failed="each needs a list, found None",
    ),
    Row(
        "a mapping is no list",
        mapped("concurrency: 2"),
        {"of": {"a": 1}},
        failed="each needs a list, found",
    ),
    Row(
        "in dialect 000 null is an empty list",
        """
        dialect: "ref_dag"
        input: {of: {}}
        steps:
          - {id: m, each: {in: "@input.of"}, tool: SAY}
          - {id: after, tool: SAY, with: {value: "@m"}}
        output: "@after"
        """,
        {"of": None},
        ran="after",
        result=[],
    ),
    Row(
        "in dialect 003 null is an empty list, and the walk goes on from it",
        """
        dialect: "port_graph"
        order: ports
        input: {of: {}}
        steps:
          - {id: m, each: {in: "@input.of"}, tool: SAY, next: after}
          - {id: after, tool: SAY, with: {value: "@m"}}
        """,
        {"of": None},
        ran="after",
        result=[],
    ),
    Row(
        "the item, its number and the whole loop can be read, under names of one's own too",
        """
        steps:
          - {id: m, each: {in: [a, b]}, tool: ECHO, with: {item: "@item", index: "@index", total: "@loop.total", same: "@loop.item"}}
          - {id: n, each: {in: "@m", as: made, index: place}, tool: ECHO, with: {item: "@made.item", index: "@place", again: "@loop.index"}}
        """,
        result=[{"item": "a", "index": 0, "again": 0}, {"item": "b", "index": 1, "again": 1}],
    ),
    Row(
        "in batches, the item is a list of so many, the last one of what is left",
        """
        input: {of: {type: array}}
        steps:
          - {id: m, each: {in: "@input.of", batch: 2}, tool: ECHO, with: {items: "@loop.batch.items", at: "@loop.batch.startIndex", n: "@loop.batch.size"}}
        """,
        {"of": [1, 2, 3, 4, 5]},
        result=[{"items": [1, 2], "at": 0, "n": 2}, {"items": [3, 4], "at": 2, "n": 2}, {"items": [5], "at": 4, "n": 1}],
    ),
    Row(
        "the first item that fails, fails the step, and the others are dropped",
        mapped("concurrency: 0", more=NO_RETRY + NO_GRACE),
        {"of": [1, 2, 3]},
        answers={"m/~1": [Broken("second")]},
        takes={"m/~0": "10s", "m/~1": "1s", "m/~2": "10s"},
        failed="Broken: second",
        took=1,
    ),
    Row(
        "if the execution fails with the step, what is dropped and in flight has its grace",
        mapped("concurrency: 0", more=NO_RETRY),
        {"of": [1, 2, 3]},
        answers={"m/~1": [Broken("second")]},
        takes={"m/~0": "10s", "m/~1": "1s", "m/~2": "60s"},
        failed="Broken: second",
        took=31,
    ),
    Row(
        "an item that has failed fails the step even if none has begun after it",
        mapped("concurrency: 1", more=NO_RETRY),
        {"of": [1, 2, 3]},
        answers={"m/~1": [Broken("second")]},
        failed="Broken: second",
        ran="m/~0 m/~1",
    ),
    Row(
        "with on_error: skip, failed items are left out",
        mapped("on_error: skip", more=NO_RETRY),
        {"of": [1, 2, 3]},
        answers={"m/~1": [Broken("second")]},
        result=[1, 3],
    ),
    Row(
        "with on_error: null, failed items are null in their place",
        mapped('on_error: "null"', more=NO_RETRY),
        {"of": [1, 2, 3]},
        answers={"m/~1": [Broken("second")]},
        result=[1, None, 3],
    ),
    Row(
        "if all items fail and are skipped, the list is empty and the step succeeds",
        mapped("on_error: skip", tool="FAIL", more=NO_RETRY).replace("value", "message"),
        {"of": ["a", "b"]},
        result=[],
    ),
    Row(
        "items are tried again each for itself",
        mapped("concurrency: 1"),
        {"of": [1, 2]},
        answers={"m/~0": [Broken("once"), "one"], "m/~1": [Broken("once"), Broken("twice"), "two"]},
        result=["one", "two"],
        tries={"m/~0": 2, "m/~1": 3},
    ),
    Row(
        "with enough, so many successes are waited for, and the rest is dropped",
        mapped("enough: 2"),
        {"of": [1, 2, 3, 4]},
        takes={"m/~0": "9s", "m/~1": "1s", "m/~2": "9s", "m/~3": "2s"},
        answers={"m/~1": ["b"], "m/~3": ["d"]},
        result=["b", "d"],
        took=2,
        crashes=True,
    ),
    Row(
        "with enough and concurrency, no more are begun than it takes",
        mapped("enough: 2, concurrency: 1"),
        {"of": [1, 2, 3, 4]},
        ran="m/~0 m/~1",
        result=[1, 2],
    ),
    Row(
        "failures count as nothing towards enough, as long as it can be reached",
        mapped("enough: 2", more=NO_RETRY),
        {"of": [1, 2, 3]},
        answers={"m/~0": [Broken("first")]},
        result=[2, 3],
    ),
    Row(
        "when enough can't be reached any more, the step fails at once",
        mapped("enough: 2", more=NO_RETRY + NO_GRACE),
        {"of": [1, 2, 3]},
        answers={"m/~0": [Broken("first")], "m/~1": [Broken("second")]},
        takes={"m/~2": "10s"},
        failed="too_few_succeeded: 2 of 3 items failed, so 2 of them can no longer succeed",
        took=0,
    ),
    Row(
        "enough of fewer items than that fails, before any is begun",
        mapped("enough: 3"),
        {"of": [1]},
        failed="too_few_succeeded: each has 1 items, fewer than the 3 that have to succeed",
        ran="",
    ),
    Row(
        "an each of more items than max fails before any is begun",
        mapped("max: 2"),
        {"of": [1, 2, 3]},
        failed="exceeded_max_fanout: each over 3 items, and at most 2 are allowed",
        ran="",
    ),
    Row(
        "with when, the step as a whole is skipped or not; items are not asked",
        """
        input: {go: {type: boolean}}
        steps:
          - {id: m, when: {ref: "@input.go"}, each: {in: [1, 2]}, tool: SAY}
        """,
        {"go": False},
        skipped="m",
        ran="",
        result=None,
    ),
    Row(
        "a block may be done for each, and its steps read their own item and each other's results within it",
        """
        steps:
          - id: m
            each: {in: [10, 20], as: n}
            do:
              - {id: twice, tool: ADD, with: {a: "@n", b: "@n"}}
              - {id: more, tool: ADD, with: {a: "@twice", b: 1}}
        """,
        ran="m/~0/twice m/~1/twice m/~0/more m/~1/more",
        result=[21, 41],
        crashes=True,
    ),
    Row(
        "eaches nest, and the names around stay readable",
        """
        steps:
          - id: m
            each: {in: [[1, 2], [3]], as: row, index: r}
            do:
              - {id: cell, each: {in: "@row", as: n, index: c}, tool: SAY, with: {value: ["@r", "@c", "@n"]}}
        """,
        ran="m/~0/cell/~0 m/~0/cell/~1 m/~1/cell/~0",
        result=[[[0, 0, 1], [0, 1, 2]], [[1, 0, 3]]],
    ),
    Row(
        "each and repeat together: every item is repeated for itself",
        """
        steps:
          - {id: m, each: {in: [a, b]}, repeat: {until: {ref: "@self", eq: good}, max: 3}, tool: SAY}
        """,
        answers={"m/~0/~0": ["bad"], "m/~0/~1": ["good"], "m/~1/~0": ["good"]},
        ran="m/~0/~0 m/~1/~0 m/~0/~1",
        result=["good", "good"],
    ),
    Row(
        "an approval for each item, decided in any order",
        """
        steps:
          - {id: ok, each: {in: [ann, bob]}, approve: {title: "@{item}?"}}
        output: ["@ok[0].by", "@ok[1].by"]
        """,
        script=(Open("ok/~0 ok/~1"), Voted("ok/~1", by="bob"), Voted("ok/~0", by="ann")),
        result=["ann", "bob"],
    ),
    Row(
        "an item that somebody rejects is a failed one: it is left out, if failed ones are",
        """
        steps:
          - {id: ok, each: {in: [ann, bob], on_error: skip}, approve: {title: "@{item}?"}}
        output: "@ok[0].by"
        """,
        script=(Voted("ok/~0", False, by="ann"), Voted("ok/~1", by="bob")),
        result="bob",
    ),
    Row(
        "an item that somebody rejects settles the step as rejected, if failed ones fail it",
        """
        order: ports
        steps:
          - {id: ok, each: {in: [ann, bob]}, approve: {title: "@{item}?"}}
        """,
        script=(Voted("ok/~1", False, by="bob"),),
        cancelled="rejected: ok was rejected by bob",
        children=(("perdure.approval", "cancelled", None), ("perdure.approval", "completed", ANYTHING)),
    ),
    Row(
        "of three people two are enough, and who says no is no success",
        """
        steps:
          - {id: ok, each: {in: [ann, bob, cy], enough: 2}, approve: {title: "@{item}?"}}
        output: ["@ok[0].by", "@ok[1].by"]
        """,
        script=(Voted("ok/~0", False, by="ann"), Voted("ok/~2", by="cy"), Voted("ok/~1", by="bob")),
        result=["bob", "cy"],
    ),
    Row(
        "an item whose time is over is a failed one",
        """
        steps:
          - {id: l, each: {in: [x, y], on_error: "null"}, listen: {names: "@item", timeout: 1m}}
        """,
        script=(Sent("y", 7),),
        result=[None, 7],
        took=60,
    ),
    Row(
        "ten thousand items, a hundred at a time",
        mapped("concurrency: 100"),
        {"of": list(range(10_000))},
        result=list(range(10_000)),
        at_once=100,
        slow=True,
    ),
]
