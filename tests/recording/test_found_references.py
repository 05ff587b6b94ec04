"""References are found by value and name, and what merely looks alike is not."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from perdure.definitions.expr.references import ValuePath
from perdure.recording import found_references as found_references_module
from perdure.recording.accepted_references import accepted
from perdure.recording.found_references import found_references
from perdure.recording.literal_calls import LiteralCall
from perdure.recording.reference_candidates import CandidateSearch
from tests.recording.recorded_examples import call, found_in, only

USER = call("get_user_1", {"id": 4182, "email": "ada@acme.example", "name": "Ada Lovelace", "active": True}, login="ada.l")
ORDERS = call(
    "list_orders_1",
    {
        "orders": [
            {"id": "ord_7Kx2", "number": 10417, "total": 59.9, "status": "open", "placed_at": "2026-03-05T10:15:00Z", "lines": 2},
            {"id": "ord_9Qw4", "number": 10422, "total": 120.0, "status": "open", "placed_at": "2026-03-09T08:00:00Z", "lines": 3},
        ]
    },
    region="emea",
)


# Sorts of match.


def test_a_value_is_found_where_it_came_from() -> None:
    assert found_in(USER, call("list_invoices_1", user_id=4182)) == {"list_invoices_1/user_id": "@get_user_1.id"}


def test_a_value_inside_a_structure_of_the_arguments_is_found() -> None:
    assert found_in(USER, call("send_1", to=[{"address": "ada@acme.example"}])) == {"send_1/to/0/address": "@get_user_1.email"}


def test_a_structure_that_is_passed_on_is_one_reference() -> None:
    profile = call("get_profile_1", {"address": {"street": "81 Mill Road", "city": "Leeds", "zip": "14108"}})
    sent = call("ship_1", address={"zip": "14108", "city": "Leeds", "street": "81 Mill Road"})
    assert found_in(profile, sent) == {"ship_1/address": "@get_profile_1.address"}


def test_values_in_a_text_are_found_with_their_places() -> None:
    text = call("send_1", text="Order ord_9Qw4 (#10422) for Ada Lovelace <ada@acme.example>")
    assert found_in(USER, ORDERS, text) == {
        "send_1/text[ord_9Qw4]": "@list_orders_1.orders[1].id",
        "send_1/text[10422]": "@list_orders_1.orders[1].number",
        "send_1/text[Ada Lovelace]": "@get_user_1.name",
        "send_1/text[ada@acme.example]": "@get_user_1.email",
    }


def test_the_longest_part_of_a_text_is_taken() -> None:
    page = call("get_page_1", {"url": "https://site.example/notes/88412", "id": 88412})
    assert found_in(page, call("fetch_1", command="open https://site.example/notes/88412 now")) == {
        "fetch_1/command[https://site.example/notes/88412]": "@get_page_1.url"
    }


def test_an_id_in_a_path_is_found_by_the_word_before_it() -> None:
    assert found_in(USER, call("http_get_1", path="/users/4182/invoices")) == {"http_get_1/path[4182]": "@get_user_1.id"}


@pytest.mark.parametrize(
    ("given", "there", "expression"),
    [
        ("4182", 4182, "string(get_user_1.id)"),
        (4182, "4182", "int(get_user_1.id)"),
        (41.82, "41.82", "double(get_user_1.id)"),
        (4182, 4182.0, "int(get_user_1.id)"),
        (4182.0, 4182, "double(get_user_1.id)"),
    ],
)
def test_a_number_in_another_spelling_is_converted(given: Any, there: Any, expression: str) -> None:
    found = only(call("get_user_1", {"id": there}), call("list_invoices_1", user_id=given))
    assert (found.reference, found.spelling, found.expression, found.is_same) == ("@get_user_1.id", "number", expression, True)


@pytest.mark.parametrize(("given", "there"), [(5995, 59.95), (59.95, 5995), ("59.95", 5995)])
def test_an_amount_of_money_is_found_in_cents(given: Any, there: Any) -> None:
    order = call("get_order_1", {"id": "ord_7Kx2", "total": there})
    assert found_in(order, call("refund_1", order_id="ord_7Kx2", total=given))["refund_1/total"] == "@get_order_1.total"


@pytest.mark.parametrize(
    ("given", "there", "converts"),
    [
        ("2026-03-05", "2026-03-05T10:15:00Z", True),
        ("2026-03-05T00:00:00Z", "2026-03-05", True),
        (1772705700, "2026-03-05T10:15:00Z", True),
        ("2026-03-05T10:15:00Z", 1772705700, True),
        ("2026-03-05T10:15:00Z", 1772705700000, True),
        ("2026-03-05T10:15:00Z", "2026-03-05T12:15:00+02:00", True),
        ("5 March 2026", "2026-03-05", False),
        ("2026-03-05", "March 5, 2026", False),
    ],
)
def test_a_date_in_another_spelling_says_what_converts_it(given: Any, there: Any, converts: bool) -> None:
    found = only(call("get_order_1", {"placed_at": there}), call("report_1", placed_at=given))
    assert (found.reference, found.spelling, found.is_same, bool(found.expression)) == ("@get_order_1.placed_at", "time", converts, converts)


def test_other_capitals_and_white_space_are_found_and_nothing_converts_them() -> None:
    found = only(call("get_user_1", {"email": " Ada@Acme.example\n"}), call("send_1", email="ada@acme.example"))
    assert (found.reference, found.spelling, found.is_same) == ("@get_user_1.email", "case", False)


def test_the_input_is_found_first() -> None:
    echo = call("get_user_1", {"id": 4182, "query": {"id": 4182}}, id=4182)
    assert found_in(echo, call("list_invoices_1", user_id=4182), input={"user_id": 4182}) == {
        "get_user_1/id": "@input.user_id",
        "list_invoices_1/user_id": "@input.user_id",
    }


def test_a_value_that_several_calls_are_given_may_be_a_parameter() -> None:
    status = call("git_status_1", {"clean": True}, repo_path="/srv/repos/shop-frontend")
    log = call("git_log_1", {"commits": []}, repo_path="/srv/repos/shop-frontend")
    found = found_references([status, log]).references
    assert [(one.call, one.reference, one.is_proposed, one.value) for one in found if one.is_found] == [
        (step, "@input.repo_path", True, "/srv/repos/shop-frontend") for step in ("git_status_1", "git_log_1")
    ]


def test_two_values_are_two_parameters_whatever_their_arguments_are_called() -> None:
    calls = [
        call("git_status_1", {"clean": True}, repo_path="/srv/repos/shop-frontend"),
        call("git_log_1", {"commits": []}, repo_path="/srv/repos/shop-frontend"),
        call("git_fetch_1", {"ok": True}, repo_path="/srv/repos/bank-backend"),
        call("git_push_1", {"ok": True}, repo_path="/srv/repos/bank-backend"),
    ]

    def parameters(input: dict[str, Any] | None = None) -> dict[str, Any]:
        found = [one for one in found_references(calls, input).references if one.is_proposed]
        assert all(one.value == next(made.arguments for made in calls if made.step == one.call)["repo_path"] for one in found)
        return {one.reference: one.value for one in found}

    assert parameters() == {"@input.repo_path": "/srv/repos/shop-frontend", "@input.repo_path_2": "/srv/repos/bank-backend"}
    assert parameters({"repo_path": "/srv/other"}) == {"@input.repo_path_2": "/srv/repos/shop-frontend", "@input.repo_path_3": "/srv/repos/bank-backend"}
    calls[3] = calls[3]._replace(arguments={**calls[3].arguments, "to": "x"}, references={("to",): "@input.repo_path"})
    assert [*parameters()] == ["@input.repo_path_2", "@input.repo_path_3"]


def test_a_value_that_a_result_repeats_is_taken_from_there() -> None:
    show = call("git_show_1", {"query": {"revision": "080330b"}}, revision="080330b")
    assert found_in(show, call("git_revert_1", commit="080330b")) == {"git_revert_1/commit": "@git_show_1.query.revision"}


# Which of several places, and how sure.


def test_other_places_with_the_value_are_alternatives() -> None:
    again = call("find_user_1", {"user": {"id": 4182}})
    found = only(USER, again, call("list_invoices_1", user_id=4182))
    assert found.reference == "@get_user_1.id"
    assert [one.reference for one in found.alternatives] == ["@find_user_1.user.id"]
    assert "one other place has it too" in found.why


def test_of_places_with_equal_evidence_the_first_is_taken() -> None:
    rows = call("list_users_1", {"users": [{"end": "ada@acme.example", "begin": "ada@acme.example"}]})
    assert only(rows, rows._replace(step="list_users_2"), call("send_1", cc="ada@acme.example")).reference == "@list_users_1.users[0].end"


def test_the_names_decide_between_places() -> None:
    both = call("get_parent_1", {"parent": {"id": 771204}, "owner": {"id": 771204}})
    assert only(both, call("notify_1", owner_id=771204)).reference == "@get_parent_1.owner.id"


def test_the_element_from_which_the_other_arguments_come_is_taken() -> None:
    rows = call("list_items_1", {"items": [{"sku": "A-11873", "color": "dark green"}, {"sku": "B-20417", "color": "dark green"}]})
    assert found_in(rows, call("order_1", sku="B-20417", color="dark green"))["order_1/color"] == "@list_items_1.items[1].color"


def test_a_result_that_was_not_known_yet_is_not_a_source() -> None:
    slow = USER._replace(began_at_s=1.0, ended_at_s=9.0)
    assert found_in(slow, call("list_invoices_1", user_id=4182)._replace(began_at_s=5.0)) == {}
    assert found_in(slow, call("list_invoices_1", user_id=4182)._replace(began_at_s=9.0)) != {}


def test_a_result_that_was_not_known_yet_is_not_a_source_because_another_call_had_it() -> None:
    slow = call("get_user_1", {"id": "usr-77120", "name": "Ada"})._replace(began_at_s=1.0, ended_at_s=9.0)
    waited = call("list_invoices_1", user_id="usr-77120")._replace(began_at_s=9.0)
    meanwhile = call("send_1", to="usr-77120")._replace(began_at_s=5.0)
    assert found_in(slow, waited, meanwhile._replace(began_at_s=9.0)) == {"list_invoices_1/user_id": "@get_user_1.id", "send_1/to": "@get_user_1.id"}
    assert "@get_user_1.id" not in [one.reference for one in found_references([slow, waited, meanwhile]).references if one.call == "send_1"]


def test_a_failed_call_is_not_a_source_but_has_references() -> None:
    retried = call("list_invoices_1", {"user": 4182}, user_id=4182, failed=True)
    assert found_in(USER, retried, call("list_invoices_2", user_id=4182)) == {
        "list_invoices_1/user_id": "@get_user_1.id",
        "list_invoices_2/user_id": "@get_user_1.id",
    }


def test_what_was_given_as_a_reference_is_left_alone() -> None:
    given = call("list_invoices_1", user_id=4182, email="ada@acme.example")._replace(references={("user_id",): "@get_user_1.id"})
    assert found_in(USER, given) == {"list_invoices_1/email": "@get_user_1.email"}


def test_what_is_less_sure_is_a_weak_suggestion() -> None:
    (found,) = found_references([call("scan_1", {"code": 42}), call("open_1", key=42)]).references
    assert not found.is_found and 0.2 <= found.confidence < 0.7 and "the names of both may mean the same" in found.why


# Distractors.


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ({"limit": 50, "page": 1}, {"total": 50, "pages": 1}),
        ({"dry_run": True, "force": False}, {"ok": True, "truncated": False}),
        ({"count": 3}, {"items": [{"id": 3, "rank": 3}], "took_ms": 3}),
        ({"status": "closed"}, {"tickets": [{"state": "closed"}, {"state": "open"}]}),
        ({"since": "2026-01-01"}, {"user": {"birthday": "2026-01-01"}}),
        ({"timeout": 30, "retries": 5}, {"rate": {"remaining": 30, "reset": 5}}),
        ({"text": "Please close it and open 3 more"}, {"rows": [{"verb": "close", "n": 3, "word": "more"}]}),
        ({"flag": None, "note": "", "tags": []}, {"flag": None, "note": "", "tags": []}),
        ({"port": 8080, "code": 200}, {"status": 200, "proxy": 8080}),
    ],
)
def test_what_is_equal_by_chance_is_not_found(arguments: dict[str, Any], result: Any) -> None:
    assert found_in(call("look_1", result), call("act_1", **arguments)) == {}


def test_a_constant_that_is_given_to_one_tool_again_is_not_found() -> None:
    read = [call(f"read_file_{number}", {"content": "x", "encoding": "utf-8"}, path=f"/a/{number}.txt", encoding="utf-8") for number in (1, 2, 3)]
    assert not [at for at in found_in(*read) if at.endswith("encoding")]


def test_a_small_number_is_found_where_the_names_agree() -> None:
    jobs = call("list_jobs_1", {"jobs": [{"id": 7, "title": "Cook", "seats": 2}]})
    assert found_in(jobs, call("get_job_1", job_id=7)) == {"get_job_1/job_id": "@list_jobs_1.jobs[0].id"}
    assert found_in(jobs, call("get_room_1", room_id=7)) == {}


def test_the_id_of_another_thing_is_less_sure() -> None:
    order = call("get_order_1", {"id": 512})
    assert found_in(order, call("ship_1", order_id=512)) != {}
    assert found_in(order, call("ship_1", carrier_id=512)) == {}


# Bounds, and what holds for every session.


def test_only_earlier_results_are_sources() -> None:
    assert found_in(call("list_invoices_1", {"own": 4182}, user_id=4182), USER) == {}


def test_the_same_calls_give_the_same_suggestions() -> None:
    calls = [USER, ORDERS, call("send_1", text="ord_9Qw4 for Ada Lovelace", user=4182)]
    copies = [LiteralCall(*json.loads(json.dumps(one[:5]))) for one in calls]
    assert found_references(calls) == found_references(copies)


def _nested(depth: int) -> Any:
    value: Any = "ada@acme.example"
    for _ in range(depth):
        value = {"deeper": [value]}
    return value


@pytest.mark.parametrize(
    "value",
    [
        _nested(400),
        10**400,
        -(2**70),
        1e308,
        float("inf"),
        float("nan"),
        "\ud800 and ada@acme.example",
        "\x00\u2028\U0001f600 ada@acme.example",
        {"": {"": ["ada@acme.example"]}},
        {"a b": {'"': "ada@acme.example"}, "0": 4182, "@x": 4182},
        [[]] * 1000,
        {"9" * 5000: "ada@acme.example"},
        "9" * 5000,
        "2026-99-99 0000-00-00 9999-12-31T23:59:59.999999999+99:99",
        "9999-12-31",
        "9999-12-31T23:59:59-05:00",
        "9999-12-31T23:59:59.999Z",
        "0001-01-01",
        "0001-01-01T00:00:00+01:00",
        "²",
        "1²",
        "²³.5",
        "①",
        "٣",
    ],
    ids=lambda value: repr(value)[:30] if not isinstance(value, dict) else f"a mapping of {len(value)}",
)
def test_hostile_values_are_read(value: Any) -> None:
    calls = [
        call("get_1", value),
        call("use_1", {"echo": value}, value=value, text=f"see {str(value)[:3000] if not isinstance(value, int) else ''}"),
        USER,
        call("use_2", a=value),
    ]
    found_references(calls, {"given": value})


@pytest.mark.slow
def test_texts_of_a_million_characters_are_bounded() -> None:
    large = "ada@acme.example 4182 " * 50_000
    found = found_references([USER, call("send_1", {"echo": large}, text=large), call("send_2", text=large, to="ada@acme.example")])
    assert [one.call for one in found.references if one.path == ("to",)] == ["send_2"]
    assert not [one for one in found.references if one.span is not None]


@pytest.mark.slow
def test_a_text_of_many_words_is_partly_searched() -> None:
    assert found_references([USER, call("send_1", text="a b " * 16_000)]).is_partial


@pytest.mark.slow
def test_the_work_grows_with_the_size_of_a_session_and_not_with_its_square() -> None:
    def comparisons(size: int) -> int:
        rows = [
            {"id": f"row-{number}-of-the-table", "url": f"https://site.example/rows/{number}/page.html", "tags": ["a", number], "at": {"x": number}}
            for number in range(40)
        ]
        calls = [
            call(
                f"list_rows_{number}",
                rows,
                url=f"https://site.example/rows/{number % 40}/page.html",
                tags=["a", number % 40],
                at={"x": number % 40},
                text=f"see {number}",
            )
            for number in range(size)
        ]
        search = CandidateSearch(calls, None)
        return search.scan.comparisons + sum(len(found) for of_target in search.candidates for found in of_target.values())

    assert comparisons(200) <= 6 * comparisons(50)


# The work that it takes.


RECORDING = str(Path(found_references_module.__file__).parent)


def instructions(run: Callable[[], object]) -> Counter[str]:
    """How many instructions of each module of recordings a call runs: the same each time, whatever else the machine does."""
    counts = Counter[str]()

    def counted(frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            counts[frame.f_code.co_filename] += 1
        return counted

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(RECORDING):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return counted

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return counts


def of_one_thing(size: int) -> list[LiteralCall]:
    """A call with arguments that all come from one mapping."""
    made = {f"field_{number}": f"value-{number}-of-it" for number in range(size)}
    return [call("get_form_1", made), LiteralCall("fill_1", "fill", made)]


def given_as_references(size: int) -> list[LiteralCall]:
    """A call whose arguments are references, but for one."""
    made = {f"field_{number}": {"at": f"value-{number}-of-it"} for number in range(size)}
    references: dict[ValuePath, str] = {(key, "at"): f"@get_form_1.{key}.at" for key in made}
    return [call("get_form_1", made), LiteralCall("fill_1", "fill", {**made, "last": "text"}, references=references)]


def passed_on(size: int) -> list[LiteralCall]:
    """A call with mappings that are each passed on as they were."""
    rows = [{"id": f"row-{number}-of-it"} for number in range(size)]
    return [call("list_rows_1", rows), LiteralCall("fill_1", "fill", {f"row_{number}": row for number, row in enumerate(rows)})]


def many_calls(size: int) -> list[LiteralCall]:
    """Calls that each have something of the one before."""
    return [call(f"get_row_{number}", {"id": f"row-{number}-of-it"}, id=f"row-{number - 1}-of-it", text=f"the {number}th") for number in range(size)]


@pytest.mark.slow
@pytest.mark.parametrize("session", [of_one_thing, given_as_references, passed_on, many_calls])
def test_four_times_as_much_takes_about_four_times_the_work(session: Callable[[int], list[LiteralCall]]) -> None:
    def work(size: int) -> Counter[str]:
        calls = session(size)
        found = found_references(calls).references
        return instructions(lambda: found_references(calls)) + instructions(lambda: accepted(calls, found))

    small, large = work(40), work(160)
    assert {name: (large[name], small[name]) for name in large if large[name] > 5.5 * max(small[name], 2000)} == {}
