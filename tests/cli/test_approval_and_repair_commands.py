"""What the commands say with which people decide and mend, word for word: `shell` says how the transcripts are rewritten."""

from collections.abc import Iterator
from typing import Any

import pytest

from perdure.cli import bulk_actions
from perdure.core.errors import StoreUnavailable
from perdure.service import bulk_requests
from perdure.sync_client import BulkResult, Client, Selection
from tests.cli.conftest import flows
from tests.cli.shell import APPROVAL_FLOWS, Shell, agrees, steady, transcript
from tests.cli.test_commands_beside_an_engine import working

DECIDING = {
    "approvals": "approvals",
    "approvals_for": "approvals --for eve --group ops",
    "approvals_limit": "approvals --limit 1",
    "approvals_ids": "approvals -o ids",
    "approvals_json": "approvals --limit 1 --json",
    "approvals_jsonl": "approvals -o jsonl --for bob",
    "approvals_none": "approvals --tenant other",
    "approvals_one": "approvals s1",
    "approvals_voted": "approvals ships/s2",
    "approvals_path": "approvals two --path one",
    "approvals_several": "approvals two",
    "approvals_one_json": "approvals s1 --json",
    "approvals_decided": "approvals 'default/asks/done:approve:Go on?'",
    "approvals_flags": "approvals s1 --for ada",
    "approve_kept": "approve s1 -i carrier=dhl --no-wait --comment 'be quick'",
    "approve_all": "approve --all --workflow asks_two --no-wait",
    "approve_dry": "approve --all --dry-run --as eve --group ops",
    "approve_given_up": "approve s1 -i carrier=dhl --timeout 100ms",
    "approve_not_asked": "approve s1 -i carrier=dhl --as eve",
    "approve_again": "approve s2 -i carrier=dhl --as bob",
    "approve_form": "approve s1 -i cents=many --no-wait",
    "approve_twice_filled": "approve s1 -i carrier=dhl --value 1",
    "approve_several": "approve two",
    "approve_nobody": "approve nobody",
    "approve_fine": "approve fine",
    "approve_nothing": "approve",
    "approve_no_field": "approve s1 --value dhl --no-wait",
    "reject_kept": "reject s1 --path 'approve:Ship it?' --no-wait",
    "reject_path": "reject two --path one --no-wait",
    "decide_forged": "decide none.none",
    "result_asks": "result s1",
    "ls_asks": "ls --status waiting_approval",
}

MENDING = {
    "dead_letters": "dead-letters",
    "dead_letters_workflow": "dead-letters --workflow breaks",
    "dead_letters_ids": "dead-letters -o ids",
    "dead_letters_json": "dead-letters --json --workflow breaks --since 1h",
    "dead_letters_none": "dead-letters --prefix x",
    "dead_letters_wrong": "dead-letters none",
    "requeue": "requeue o1 broken --reason mended",
    "requeue_edited": "requeue o1 -i 2=5",
    "requeue_named": "requeue named -i cents=5",
    "requeue_target": "requeue o1 -i cents=5 --target APPROVALS:pays",
    "requeue_position": "requeue o1 -i cents=5",
    "requeue_badly": "requeue o1 -i cents=many --target APPROVALS:pays",
    "requeue_others": "requeue fine o1 nobody",
    "requeue_all": "requeue --all",
    "requeue_dry": "requeue --all --dry-run --prefix o1",
    "requeue_yes": "requeue --all --yes --workflow pays",
    "discard": "discard o1 --reason 'not worth it'",
    "discard_others": "discard fine",
    "retry": "retry o1 broken",
    "retry_from": "retry broken --from take",
    "retry_from_nowhere": "retry broken --from nowhere",
    "retry_ended": "retry fine o1",
    "retry_both": "retry o1 --all",
    "retry_not_all": "retry --workflow pays",
    "retry_dry": "retry o1 nobody --dry-run",
    "cancel_all": "cancel --all",
    "cancel_none": "cancel --all --prefix x",
    "pause_all": "pause --all --status waiting_approval --since 1h --workflow ships",
    "undo_all": "undo --all --workflow pays",
    "resume_all_wrong": "resume --all --status sleeping",
    "rerun": "rerun fine --id again",
    "rerun_taken": "rerun fine --id o1",
    "rerun_json": "rerun fine --id again --version 3 --json",
    "fork": "fork o1 o1 5 --id forked",
    "fork_named": "fork o1 -i order=o1 -i cents=5 --id forked -o json",
    "fork_both": "fork o1 o1 -i cents=5",
    "fork_nowhere": "fork o1 --from nowhere",
    "preset": "preset o1 take given",
    "preset_settled": "preset broken take 1",
    "preset_ended": "preset fine take",
}


@pytest.mark.parametrize("name", [*DECIDING, *MENDING])
def test_the_command_says_what_its_transcript_says(name: str, approvals_shell: Shell) -> None:
    command = {**DECIDING, **MENDING}[name]
    agrees(name, steady(transcript(command, approvals_shell.run(command)), approvals_shell.directory))


@pytest.fixture
def live_approvals_shell(approvals_shell: Shell) -> Iterator[Shell]:
    """A desk with an engine that works on its database."""
    with working(approvals_shell.db, flows(APPROVAL_FLOWS)):
        yield approvals_shell


LIVE = {
    "approve": "approve s1 -i carrier=007",
    "approve_quorum": 'approve s2 --value \'{"carrier": "ups"}\' --comment two',
    "reject": "reject s1 --as bob --group ops --comment no",
    "approve_done": "approve 'default/asks/done:approve:Go on?'",
    "retry_wait": "retry o1 --wait",
    "rerun_wait": "rerun fine --wait --timeout 10s",
    "fork_wait": "fork o1 -i order=o1 -i cents=5 --wait --timeout 10s",
    "fork_wait_failed": "fork o1 --id forked --wait",
    "requeue_wait": "requeue named -i cents=5 --wait --timeout 10s",
    "discard_wait": "discard o1 o2 --wait --timeout 10s",
}


@pytest.mark.parametrize("name", LIVE)
def test_beside_an_engine_the_command_says_what_its_transcript_says(name: str, live_approvals_shell: Shell) -> None:
    agrees(name, steady(transcript(LIVE[name], live_approvals_shell.run(LIVE[name])), live_approvals_shell.directory))


@pytest.mark.slow
def test_a_decision_lets_a_workflow_go_on_and_is_not_taken_twice(live_approvals_shell: Shell) -> None:
    assert live_approvals_shell.run("approve s1 -i carrier=007").code == 0
    assert live_approvals_shell.run("result s1 --wait --timeout 10s").out == "007 by ada\n"
    said = live_approvals_shell.run("reject s1")
    assert (said.code, said.out) == (10, "") and "was decided already: approved by ada at" in said.err


@pytest.mark.slow
def test_every_id_that_is_listed_means_its_approval(live_approvals_shell: Shell) -> None:
    ids = live_approvals_shell.run("approvals -o ids").out
    assert len(ids.splitlines()) == 4
    for id in ids.splitlines():
        assert live_approvals_shell.run("reject - --dry-run", stdin=id).code == 0
    said = live_approvals_shell.run("reject - --as ada", stdin=f"nobody\n{ids}")
    assert (said.code, said.out.count("is rejected by ada")) == (44, 4)
    assert live_approvals_shell.run("approvals -o ids").out == ""


@pytest.mark.slow
def test_a_link_stands_for_its_answer_and_needs_no_name(live_approvals_shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    link = live_approvals_shell.run("approve s1 --as ada --link --lifetime 1h").out
    monkeypatch.setenv("PERDURE_USER", "eve")
    said = live_approvals_shell.run("decide - -i carrier=dhl", stdin=link)
    assert (said.code, said.out) == (0, "the answer of the link is accepted\n")
    assert live_approvals_shell.run("result s1 --wait --timeout 10s").out == "dhl by ada\n"
    monkeypatch.setenv("PERDURE_SIGNING_SECRET", "short")
    assert live_approvals_shell.run("reject two --path one --link").code == 10


@pytest.mark.slow
def test_a_link_with_both_answers_needs_one_of_them(live_approvals_shell: Shell) -> None:
    with Client(live_approvals_shell.db) as client:
        link = client.approval_link("s1", by="ada", approve=None)
        only = client.approval_link("s2", by="bob", approve=True)
    said = live_approvals_shell.run("decide - -i carrier=dhl", stdin=link)
    assert said.code != 0 and "the link offers both answers" in said.err and "--approve or --reject" in said.err
    said = live_approvals_shell.run("decide - --reject --comment late", stdin=link)
    assert (said.code, said.out) == (0, "the answer of the link is accepted\n")
    decided = live_approvals_shell.run("approvals ships/s1 --json").out
    assert '"approve": false' in decided and '"comment": "late"' in decided
    assert live_approvals_shell.run("decide - --reject", stdin=only).code == 46


def test_whoever_is_logged_in_decides_if_nobody_is_named(approvals_shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_USER")
    monkeypatch.setenv("LOGNAME", "grace")
    assert (
        approvals_shell.run("approve two --path one --no-wait").out
        == "asks_two/two (One?) is approved by grace, which is recorded and takes effect when an engine runs\n"
    )


@pytest.mark.slow
def test_a_group_of_dead_letters_is_listed_requeued_and_discarded_by_its_fingerprint(live_approvals_shell: Shell) -> None:
    group, broken = live_approvals_shell.run("dead-letters -o ids").out.split()[::-1]
    listed = live_approvals_shell.run(f"dead-letters {group[:6]} -o ids").out
    assert len(listed.splitlines()) == 13
    assert "2012 is too much" in live_approvals_shell.run(f"dead-letters {group}").out
    assert live_approvals_shell.run(f"requeue --fingerprint {group}").code == 20
    assert live_approvals_shell.run(f"requeue --fingerprint {group} --dry-run").out.count("would be requeued") == 13
    said = live_approvals_shell.run(f"requeue --fingerprint {group} --yes -i cents=5 --target {APPROVAL_FLOWS}:pays --wait")
    assert (said.code, said.out.count("is started in place of pays/")) == (0, 13)
    assert live_approvals_shell.run(f"discard --fingerprint {broken} --wait").out == "breaks/broken is discarded\n"
    assert live_approvals_shell.run("dead-letters").out == ""
    assert live_approvals_shell.run("ls --status cancelled -q").out.count("\n") == 14


def test_what_is_preset_stands_in_for_the_work(live_approvals_shell: Shell) -> None:
    assert live_approvals_shell.run("preset o1 take '\"given\"'").code == 0
    assert live_approvals_shell.run("retry o1 --wait").code == 0
    assert live_approvals_shell.run("result o1 --wait --timeout 10s").out == "given\n"


@pytest.mark.slow
def test_many_are_asked_about_where_somebody_can_answer(approvals_shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "is_interactive", lambda: True)
    said = approvals_shell.run("retry --all --workflow pays", stdin="n\n")
    assert (said.code, said.out) == (0, "")
    assert "13 executions would be asked to retry. Go ahead? [y/N]" in said.err and "nothing was done" in said.err
    assert approvals_shell.run("retry --all --workflow pays", stdin="y\n").out.count("has been asked to retry") == 13
    assert approvals_shell.run("retry --all --workflow pays --prefix o1").out.count("has been asked to retry") == 4


def test_those_that_were_started_by_others_hear_last_that_they_are_cancelled(approvals_shell: Shell) -> None:
    with Client(approvals_shell.db) as client:
        oldest_first = [one.id for one in reversed([one.key for one in client.list(status="waiting_approval")])]
    said = approvals_shell.run("cancel --all --status waiting_approval --dry-run").out
    assert [line.split()[0].partition("/")[2] for line in said.splitlines() if not line.startswith(" ")] == oldest_first


def test_one_that_fails_does_not_keep_the_others_from_being_told(approvals_shell: Shell) -> None:
    said = approvals_shell.run("undo --all --status completed,failed --prefix o")
    assert (said.code, said.out, said.err.count("has ended (failed)")) == (20, "", 0)
    said = approvals_shell.run("undo --all --status completed,waiting_approval --yes")
    assert (said.code, said.out.splitlines()[:1], said.err.count("cancel one that has not ended")) == (10, ["pays/fine has been asked to undo"], 3)


def test_what_had_ended_is_counted_and_is_no_error(approvals_shell: Shell) -> None:
    said = approvals_shell.run("undo --all --status completed,failed --yes --workflow pays")
    assert (said.code, said.out, said.err) == (0, "pays/fine has been asked to undo\n", "perdure: 13 executions had ended before; undo has no effect there\n")


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (StoreUnavailable("the disk is full"), 50)])
def test_whoever_interrupts_a_bulk_command_is_told_how_far_it_came(
    approvals_shell: Shell, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    monkeypatch.setattr(bulk_requests, "BULK_BATCH", 2)
    retry, batches = Selection.retry, list[Selection]()

    def second_fails(selection: Selection, *given: Any, **options: Any) -> BulkResult:
        batches.append(selection)
        if len(batches) == 2:
            raise error
        return retry(selection, *given, **options)

    monkeypatch.setattr(Selection, "retry", second_fails)
    said = approvals_shell.run("retry --all --workflow pays --yes")
    assert (said.code, said.out.count("has been asked to retry")) == (code, 2)
    assert "perdure: 2 of 13 executions were asked to retry, and the next 2 may have been\nrun the command again for the rest" in said.err


def test_far_along_is_counted_where_it_can_be_seen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    bulk_actions.one_by_one(range(3), done.append, 3)
    assert capsys.readouterr().err == ""
    bulk_actions.one_by_one(range(11), done.append, 1100)
    said = capsys.readouterr().err
    assert said.startswith("\r1 of 1,100\r2 of 1,100") and said.endswith("\r11 of 1,100\r\x1b[K")
    assert len(done) == 14
