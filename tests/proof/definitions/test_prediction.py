"""Claims about the sequential reading: each rule of how a graph runs, in a definition small enough to be followed by hand."""

from typing import Any

import pytest

from tests.proof.definitions import Decision, DefinitionPrediction, DefinitionStuck, OutsideEvents, ScheduledMessage, predict

Step = dict[str, Any]


def read(*steps: Step, order: str = "listed", script: OutsideEvents | None = None, **rest: Any) -> DefinitionPrediction:
    """What comes of these steps, tools being tried once."""
    definition = {"perdure": 1, "name": "small", "order": order, "retry": {"max": 1, "wait": 0}, "steps": list(steps), **rest}
    prediction = predict(definition, script or OutsideEvents())
    assert not prediction.doubts
    return prediction


def echo(name: str, value: Any = None, takes_s: float = 1.0, **rest: Any) -> Step:
    """A step that returns `value`."""
    return {"id": name, "tool": "ECHO", "with": {"value": name if value is None else value, "takes_s": takes_s}, **rest}


def fails(name: str, takes_s: float = 1.0, **rest: Any) -> Step:
    """A step that fails in every try."""
    return {"id": name, "tool": "ECHO", "with": {"fails": 99, "takes_s": takes_s}, **rest}


def ran(prediction: DefinitionPrediction) -> list[str]:
    """What ran, with its place, in alphabetical order; ``!`` behind what failed."""
    return sorted("/".join((*one.place, one.step)) + "!" * bool(one.failed) for one in prediction.facts.ran)


# joins and dead paths


def forked(join: Any, *durations_s: float) -> DefinitionPrediction:
    """Branches side by side, and a step behind them."""
    names = [f"b{number}" for number in range(len(durations_s))]
    branches = [echo(name, takes_s=duration_s, next="end") for name, duration_s in zip(names, durations_s, strict=True)]
    return read(echo("start", next=names), *branches, echo("end", join=join), order="ports")


@pytest.mark.parametrize(("join", "ended_s"), [("all", 32.0), ("any", 31.0), (1, 31.0), (2, 31.0), (3, 32.0)])
def test_a_join_waits_for_all_the_first_or_so_many_and_nothing_is_dropped(join: Any, ended_s: float) -> None:
    prediction = forked(join, 5.0, 10.0, 30.0)
    assert prediction.ended_s == ended_s
    assert ran(prediction) == ["b0", "b1", "b2", "end", "start"]


def test_a_join_of_more_than_can_come_never_runs() -> None:
    assert ran(forked(4, 1.0, 2.0)) == ["b0", "b1", "start"]


def test_a_join_of_each_runs_for_each() -> None:
    assert ran(forked("each", 1.0, 2.0)) == ["b0", "b1", "end", "end", "start"]


def test_a_second_token_on_one_edge_is_unsafe() -> None:
    steps = [
        echo("start", next=["a", "b"]),
        echo("a", next="each"),
        echo("b", takes_s=2.0, next="each"),
        echo("each", join="each", next="end"),
        echo("end", takes_s=9.0),
    ]
    prediction = read(*steps, order="ports")
    assert (prediction.facts.status, prediction.facts.failed, prediction.ended_s) == ("failed", "fatal", 4.0)
    assert ran(prediction) == ["a", "b", "each", "each", "start"]


@pytest.mark.parametrize("join", ["all", "any", 1])
def test_a_join_behind_an_exclusive_branch_fires(join: Any) -> None:
    branch = {"id": "branch", "test": {"ref": "@input.n", "gt": 3}, "next": {"true": "yes", "false": "no"}}
    steps = [branch, echo("yes", next="end"), echo("no", next="end"), echo("end", join=join)]
    assert ran(read(*steps, order="ports", script=OutsideEvents({"n": 5}))) == ["end", "yes"]


def test_a_step_all_of_whose_ways_are_dead_is_dead_and_reads_as_null() -> None:
    branch = {"id": "branch", "test": False, "next": {"true": "yes", "false": "no"}}
    steps = [branch, echo("yes", next="after"), echo("after"), echo("no")]
    prediction = read(*steps, order="ports", output=["@after", "@no"])
    assert (ran(prediction), prediction.facts.result) == (["no"], [None, "no"])


def test_dependants_run_behind_a_skipped_step_and_those_that_need_it_do_not() -> None:
    skipped = echo("skipped", when=False)
    assert ran(read(skipped, echo("reads", "@skipped"), echo("needs", needs=["skipped"]), order="refs")) == ["reads"]
    assert ran(read(skipped, echo("next"), order="listed")) == ["next"]
    assert ran(read({**skipped, "next": "next"}, echo("next"), order="ports")) == []


# order


def test_references_are_the_order_and_reach_into_blocks() -> None:
    steps = [echo("last", ["@inner", "@first"]), {"id": "block", "do": [echo("inner", 7, 5.0)]}, echo("first", 1, 20.0)]
    prediction = read(*steps, order="refs")
    assert prediction.facts.result == [7, 1]
    assert prediction.ended_s == 21.0


def test_rules_are_looked_at_in_their_order() -> None:
    rules = [{"when": {"ref": "@self", "gt": 5}, "to": ["a", "b"]}, {"when": {"ref": "@self", "gt": 1}, "to": "b"}, {"to": "c"}]
    for value, expected in ((9, ["a", "b"]), (3, ["b"]), (0, ["c"])):
        prediction = read(echo("first", value, next=rules), echo("a"), echo("b"), echo("c"), order="ports")
        assert ran(prediction) == [*expected, "first"]


def test_a_closed_list_is_chosen_from_by_the_result() -> None:
    for value, expected in (("a", ["a"]), (["b", "a"], ["a", "b"]), ([], ["c"])):
        steps = [echo("pick", value, next={"choose": ["a", "b"], "default": "c"}), echo("a"), echo("b"), echo("c")]
        assert ran(read(*steps, order="ports")) == [*expected, "pick"]


# cycles


def counting(**back: Any) -> list[Step]:
    """A cycle that leads back as long as the count is below 3."""
    head = {"id": "count", "tool": "ADD", "with": {"value": ["@count?", 1], "takes_s": 1}, "next": "again"}
    again = {"id": "again", "test": {"ref": "@count", "lt": 3}, "next": {"true": {"to": "count", "max": 9}, "false": "out"}}
    return [head, {**again, **back}, echo("out", "@count")]


def test_a_cycle_turns_and_its_steps_read_as_of_their_last_turn() -> None:
    prediction = read(*counting(), order="ports")
    assert ran(prediction) == ["count~0/count", "count~1/count", "count~2/count", "out"]
    assert prediction.facts.result == 3


def test_a_rule_back_is_taken_so_often_in_one_stay_and_then_the_next_is_looked_at() -> None:
    rules = [{"to": "count", "max": 5}, {"to": "out"}]
    assert read(*counting(next=rules), order="ports").facts.result == 6
    assert read(*counting(next=[{"to": "count", "max": 5, "on_max": "out"}]), order="ports").facts.result == 6


def test_a_turn_is_over_when_nothing_in_it_goes_on_but_an_exit_leaves_at_once() -> None:
    head = {"id": "head", "tool": "ADD", "with": {"value": ["@head?", 1], "takes_s": 1}, "next": ["quick", "slow"]}
    quick = {"id": "quick", "test": {"ref": "@head", "lt": 2}, "next": {"true": {"to": "head", "max": 3}, "false": "left"}}
    slow = {"id": "slow", "tool": "ECHO", "with": {"takes_s": 10}, "next": "over"}
    over = {"id": "over", "test": False, "next": {"true": {"to": "head", "max": 3}}}
    prediction = read(head, quick, slow, over, echo("left", takes_s=3.0, next="end"), echo("end", takes_s=20.0), order="ports")
    assert prediction.ended_s == 35.0
    assert ran(prediction) == ["end", "head~0/head", "head~0/slow", "head~1/head", "head~1/slow", "left"]


def test_a_way_that_does_not_lead_back_is_no_part_of_the_cycle_and_may_be_taken_once() -> None:
    aside = [{"id": "count", "tool": "ADD", "with": {"value": ["@count?", 1], "takes_s": 1}, "next": ["again", "aside"]}, *counting()[1:]]
    assert read(*aside, echo("aside", takes_s=5.0), order="ports").facts.failed == "fatal"
    assert ran(read(*aside, echo("aside", takes_s=5.0, join="each"), order="ports")).count("aside") == 3


def test_cycles_nest_and_a_stay_counts_for_itself() -> None:
    inner = [{"to": "in", "max": 1}, {"to": "back"}]
    outer = [{"to": "out", "max": 2}, {"to": "end"}]
    steps = [echo("out", next="in"), echo("in", next=inner), echo("back", next=outer), echo("end")]
    found = ran(read(*steps, order="ports"))
    assert found.count("end") == 1
    assert [name for name in found if name.endswith("/in")] == [f"out~{turn}/in~{stay}/in" for turn in range(3) for stay in range(2)]


# failure


def test_a_failure_drops_what_is_open_and_undoes_what_was_done_in_reverse() -> None:
    undo = {"tool": "UNDO"}
    branches = [echo("quick", takes_s=1.0, undo=undo), echo("slow", takes_s=3.0, undo=undo), echo("late", takes_s=9.0, undo=undo), fails("bad", 5.0, undo=undo)]
    prediction = read(echo("first", undo=undo), {"id": "both", "parallel": branches})
    assert (prediction.facts.status, prediction.facts.failed, prediction.ended_s) == ("failed", "exhausted", 6.0)
    assert [one.step for one in prediction.facts.undone] == ["slow", "quick", "first"]
    assert ran(prediction) == ["bad!", "first", "quick", "slow"]


@pytest.mark.parametrize(
    ("step", "result"),
    [
        (fails("bad", on_error="go_on"), None),
        (fails("bad", on_error=[echo("other", "@error.kind")]), "exhausted"),
        ({"id": "bad", "do": [echo("fine"), fails("worse"), echo("never")], "on_error": [echo("other", ["@fine", "@error.kind"])]}, ["fine", "exhausted"]),
        ({"id": "bad", "fail": "no", "on_error": [echo("other", "@error.message")]}, "no"),
        ({"id": "bad", "parallel": {"steps": [echo("a"), fails("b")], "on_error": "go_on"}}, {"a": "a", "b": None}),
    ],
)
def test_a_failure_is_caught(step: Step, result: Any) -> None:
    assert read(step, echo("after", "@bad")).facts.result == result


def test_an_error_edge_is_taken_and_the_step_reads_as_its_error() -> None:
    steps = [fails("bad", next={"success": "good", "error": "other"}), echo("good"), echo("other", "@bad.kind")]
    prediction = read(*steps, order="ports", output="@other")
    assert (ran(prediction), prediction.facts.result) == (["bad!", "other"], "exhausted")


def test_what_fails_while_it_is_caught_fails_what_holds_it() -> None:
    prediction = read({"id": "holds", "do": [fails("bad", on_error=[fails("worse")])], "on_error": "go_on"}, echo("after", "@holds"))
    assert (ran(prediction), prediction.facts.result) == (["after", "bad!", "worse!"], None)


def test_a_return_ends_it_before_anything_else_is_opened() -> None:
    steps = [{"id": "end", "when": {"ref": "@input.n"}, "return": "over"}, echo("other")]
    assert ran(read(*steps, order="refs", script=OutsideEvents({"n": 1}))) == []
    assert read(*steps, order="refs", script=OutsideEvents({"n": 1})).facts.result == "over"
    assert ran(read(*steps, order="refs", script=OutsideEvents({"n": 0}))) == ["other"]


def test_a_return_in_a_block_ends_the_whole() -> None:
    inner = {"id": "items", "each": {"in": [1, 2]}, "do": [echo("one", takes_s=1.0), {"id": "end", "when": {"ref": "@index"}, "return": "@item"}]}
    assert read({**inner, "each": {"in": [1, 2], "concurrency": 1}}, echo("after")).facts.result == 2


# blocks


def test_the_first_branch_that_succeeds_wins_and_the_rest_is_dropped() -> None:
    branches = [fails("bad", 1.0), echo("slow", takes_s=9.0), {"id": "won", "do": [echo("a", takes_s=2.0), echo("b", takes_s=2.0)]}]
    prediction = read({"id": "race", "race": branches})
    assert (prediction.facts.result, prediction.ended_s, ran(prediction)) == ({"winner": "won", "value": "b"}, 4.0, ["a", "b", "bad!"])
    all_fail = read({"id": "race", "race": [fails("bad"), fails("worse", 2.0)], "on_error": [echo("other", "@error.kind")]})
    assert all_fail.facts.result == "exhausted"


def test_a_branch_gives_the_result_of_its_last_step() -> None:
    step = {"id": "if", "if": {"ref": "@input.n"}, "then": [echo("a"), echo("b")], "else": []}
    assert read(step, script=OutsideEvents({"n": 1})).facts.result == "b"
    assert read(step, script=OutsideEvents({"n": 0})).facts.result is None


def test_a_timeout_of_a_block_bounds_the_whole_and_that_of_a_tool_each_try() -> None:
    late = {"id": "late", "do": [echo("a", takes_s=6.0), echo("b", takes_s=6.0)], "timeout": 10.0, "on_error": [echo("other", "@error.kind")]}
    assert (read(late).facts.result, ran(read(late)), read(late).ended_s) == ("timeout", ["a", "other"], 11.0)
    tried = echo("tried", takes_s=9.0, timeout=2.0, retry={"max": 3, "wait": 0}, on_error="go_on")
    assert (read(tried).ended_s, read(tried).facts.ran[0].tries, read(tried).facts.ran[0].failed) == (6.0, 3, "timeout")


# each and repeat


def items(**each: Any) -> DefinitionPrediction:
    """A step for each of five, of which the second and the fourth fail, each taking longer than the one before."""
    given = {"value": "@item", "takes_s": 1, "nth": "@index", "fails": [1, 3]}
    return read({"id": "one", "tool": "ECHO", "with": given, "each": {"in": [5, 6, 7, 8, 9], **each}})


def test_the_first_item_that_fails_fails_the_step_and_the_others_are_dropped() -> None:
    prediction = items()
    assert (prediction.facts.status, ran(prediction)) == ("failed", ["one[0]/one", "one[1]/one!"])


@pytest.mark.parametrize(("how", "result"), [("skip", [5, 7, 9]), ("null", [5, None, 7, None, 9])])
def test_items_that_fail_are_left_out_or_null(how: str, result: Any) -> None:
    assert items(on_error=how).facts.result == result


def test_enough_items_are_waited_for() -> None:
    prediction = items(on_error="skip", enough=2)
    assert (prediction.facts.result, ran(prediction)) == ([5, 7], ["one[0]/one", "one[1]/one!", "one[2]/one"])


def test_so_many_items_run_at_a_time() -> None:
    given = {"id": "one", "tool": "ECHO", "with": {"value": "@item", "takes_s": "@item"}}
    for concurrency, ended_s in ((1, 10.0), (2, 6.0), (0, 4.0)):
        assert read({**given, "each": {"in": [1, 2, 3, 4], "concurrency": concurrency}}).ended_s == ended_s


def test_batches_are_lists_and_no_items_are_no_work() -> None:
    step = echo("one", "@item")
    assert read({**step, "each": {"in": [1, 2, 3], "batch": 2, "concurrency": 1}}).facts.result == [[1, 2], [3]]
    assert read({**step, "each": {"in": []}}, echo("after", "@one")).facts.result == []


def test_turns_end_by_their_condition_and_only_then_by_their_bound() -> None:
    step = echo("turn", "@index")
    assert read({**step, "repeat": {"until": {"ref": "@self", "gte": 2}, "max": 3}}).facts.result == 2
    assert read({**step, "repeat": {"while": {"ref": "@index", "lt": 2}, "max": 3}}).facts.result == 2
    assert read({**step, "repeat": {"until": False, "max": 2}}).facts.status == "failed"
    prediction = read({**step, "repeat": {"until": False, "max": 2, "on_max": "go_on"}}, echo("after", "@turn"))
    assert (prediction.facts.result, ran(prediction)) == (1, ["after", "turn~0/turn", "turn~1/turn"])


def test_items_are_around_turns() -> None:
    step = echo("one", "@item", repeat={"until": {"ref": "@index", "gte": 1}, "max": 5}, each={"in": [7], "index": "place"})
    assert ran(read(step)) == ["one[0]/one~0/one", "one[0]/one~1/one"]


# people, messages, variables


def asked(ports: dict[str, str], decision: Decision | None = None, **asks: Any) -> DefinitionPrediction:
    """An approval with these ports."""
    step = {"id": "ask", "approve": {"title": "Go?", **asks}, "next": ports}
    return read(step, *(echo(name) for name in ports.values()), order="ports", script=OutsideEvents(decisions={"Go?": decision} if decision else {}))


def test_an_approval_leads_where_it_was_decided() -> None:
    assert ran(asked({"approved": "yes", "rejected": "no"}, Decision(5.0, True))) == ["ask", "yes"]
    assert ran(asked({"approved": "yes", "rejected": "no"}, Decision(5.0, False))) == ["ask", "no"]
    assert ran(asked({"approved": "yes", "timeout": "late"}, Decision(5.0, True), timeout=3.0)) == ["ask!", "late"]
    assert asked({"approved": "yes"}, Decision(5.0, False)).facts.status == "cancelled"
    assert asked({"approved": "yes"}, timeout=3.0).facts.failed == "timeout"
    assert ran(asked({"approved": "yes"}, timeout=3.0, on_timeout="approve")) == ["ask", "yes"]


def test_an_approval_that_nobody_decides_is_stuck() -> None:
    with pytest.raises(DefinitionStuck):
        asked({"approved": "yes"})


def test_messages_come_from_outside_and_from_other_branches() -> None:
    hears, says = {"id": "hears", "listen": "word"}, {"id": "says", "emit": {"name": "word", "body": 7, "to": {"workflow": "small", "id": "@execution.id"}}}
    assert read({"id": "both", "parallel": [hears, {"id": "later", "do": [echo("first"), says]}]}).facts.result["hears"] == 7
    assert read(
        {"id": "hears", "listen": {"names": ["word"], "limit": 2}},
        script=OutsideEvents(messages=[ScheduledMessage(3.0, "word", 1), ScheduledMessage(9.0, "word", 2)]),
    ).facts.result == [1, 2]
    assert (
        read({**hears, "listen": {"names": ["word"], "timeout": 5}}, script=OutsideEvents(messages=[ScheduledMessage(9.0, "word", 1)])).facts.failed
        == "timeout"
    )


def test_a_variable_is_what_was_last_set() -> None:
    assert read(echo("a", "@vars.x"), {"id": "set", "set": {"x": ["@vars.x", 1]}}, echo("b", ["@a", "@vars.x"]), vars={"x": 0}).facts.result == [0, [0, 1]]


def test_a_reference_into_nothing_fails_unless_it_may_miss() -> None:
    assert read(echo("a", "@input.none")).facts.failed == "fatal"
    assert read(echo("a", ["@input.none?"])).facts.result == [None]
    assert read(echo("a", "n is @{input.n}, @@home"), script=OutsideEvents({"n": 3})).facts.result == "n is 3, @home"


@pytest.mark.parametrize(("verb", "bad"), [("race", echo("a", takes_s=5.0)), ("parallel", fails("a", 5.0))])
def test_what_ends_by_a_hair_is_doubted(verb: str, bad: Step) -> None:
    for other_s, doubted in ((5.01, True), (6.0, False)):
        definition = {"perdure": 1, "name": "small", "retry": {"max": 1}, "steps": [{"id": "block", verb: [bad, echo("b", takes_s=other_s)]}]}
        assert bool(predict(definition, OutsideEvents()).doubts) == doubted
