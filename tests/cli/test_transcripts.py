"""What each command says, word for word: `shell` says how the transcripts are rewritten."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell, agrees, steady, transcript

LOOKING = {
    "ls": "ls",
    "ls_status": "ls --status failed,cancelled,needs_attention",
    "ls_workflow": "ls --workflow order --limit 2",
    "ls_prefix": "ls --prefix k",
    "ls_since": "ls --since 1h -q",
    "ls_none": "ls --workflow none",
    "ls_ids": "ls -o ids",
    "ls_where": "ls --where customer=c1",
    "ls_where_range": "ls -q --where 'cents>=500' --where 'cents<1e3' --where 'due<=2026-01-31T12:00:00Z'",
    "ls_where_unequal": "ls -q --where 'customer != c1'",
    "ls_where_either": "ls -q --where 'customer=c1 || cents>=500 || code=\"a || b\"' --where 'cents || vip' --order-by cents",
    "ls_where_exists": "ls --where vip --where code='\"500\"' --status paused -o json",
    "ls_where_none": "ls --where code=500",
    "ls_json": "ls --workflow greet -o json",
    "ls_jsonl": "ls --workflow greet -o jsonl",
    "show_completed": "show ada",
    "show_tree": "show tree",
    "show_failed": "show @failed",
    "show_waiting": "show order/waiting",
    "show_paused": "show paused",
    "show_attention": "show changed",
    "show_pending": "show pending",
    "show_cancelled": "show cancelled",
    "show_odd": "show käse",
    "show_json": "show ada -o json",
    "show_jsonl": "show ada -o jsonl",
    "show_ids": "show ad -o ids",
    "events": "events failing",
    "events_after": "events ada --after 2",
    "events_json": "events ada -o json --after 3",
    "events_jsonl": "events ada -o jsonl --after 3",
    "events_ids": "events ada -o ids",
    "logs": "logs late",
    "logs_json": "logs late -o json",
    "result": "result ada",
    "result_json": "result ada -o json",
    "result_list": "result tree",
    "query": "query waiting",
    "query_key": "query waiting phase",
    "query_none": "query waiting nothing",
    "query_at": "query waiting --at 1",
    "stream": "stream waiting",
    "stream_after": "stream waiting --after 1 -o jsonl",
    "stream_json": "stream waiting -o json",
    "stream_at": "stream waiting --at 1",
    "stream_at_follow": "stream waiting --at 1 --follow",
    "engines_none": "engines",
    "engines_json": "engines -o json",
}

ACTING = {
    "run": "run FLOWS:greet Ada --id new",
    "run_again": "run FLOWS:greet Other --id ada",
    "run_json": "run FLOWS:branches -o json",
    "run_named": "run FLOWS:order -i order_id=007 -i cents=5000 --id named",
    "run_watched": "run FLOWS:order o 5000 --id watched --watch",
    "start": "start FLOWS:greet Ada --id new",
    "start_again": "start greet Ada --id ada",
    "start_json": "start FLOWS:order 007 -o json --id new --delay 1h --deadline 2h",
    "queues_none": "queues",
    "limit": "limit mails --concurrency 5 --per-key 2 --rate 100/1m --burst 10",
    "limit_nothing": "limit mails",
    "limit_bad": "limit mails --rate fast",
    "limit_json": "limit mails --concurrency none -o json",
    "limit_tenant": "limit mails --concurrency 1 --only-tenant acme",
    "limit_remove": "limit mails --remove --only-tenant acme",
    "limit_remove_and_change": "limit mails --remove --rate none",
    "start_queued": "start greet Ada --id queued --queue mails --lane acme --priority 3",
    "start_singleton": "start greet Ada --id one --singleton",
    "start_attributes": "start greet Ada --id found --attribute customer=c1 --attribute 'due=2026-01-31T12:00:00Z' --attribute code='\"5\"' --attribute none=",
    "start_unknown": "start anything 1 2 -i key=value --id new",
    "start_strict": "start greet Bob --id ada --strict",
    "send": "send waiting approved true --key k1",
    "send_ended": "send ada approved true",
    "cancel": "cancel waiting paused --reason 'no more'",
    "cancel_ended": "cancel ada waiting",
    "terminate": "terminate waiting",
    "cancel_where": "cancel --all --where customer=c1",
    "cancel_where_either": "cancel --all --where 'customer=c1 || cents>1e6' --dry-run",
    "pause_where_dry": "pause --all --where cents --dry-run",
    "cancel_where_none": "cancel --all --where 'cents>1e6'",
    "cancel_no_undo": "cancel waiting --no-undo",
    "undo": "undo ada",
    "undo_others": "undo failing waiting",
    "pause": "pause waiting --reason lunch",
    "resume": "resume paused changed",
    "evict": "evict waiting --reason 'it hangs'",
    "doctor": "doctor",
    "doctor_none": "doctor --db sqlite:///none/none.db",
    "doctor_wrong": "doctor --db sqlite:///text.db",
    "doctor_jsonl": "doctor -o jsonl --db sqlite:///none.db",
    "prune": "prune --older-than 0s",
    "prune_dry": "prune --older-than 0s --dry-run -o ids",
    "prune_none": "prune --older-than 30d --json",
    "prune_status": "prune --older-than 1d --status running",
    "prune_soon": "prune --older-than soon",
    "prune_missing": "prune",
    "verify": "verify",
    "verify_some": "verify ada waiting",
    "verify_json": "verify --json",
    "verify_nobody": "verify nobody",
    "check": "check FLOWS",
    "check_changed": "check CHANGED --failed --strict",
    "check_json": "check CHANGED --workflow changing --json",
    "check_ids": "check CHANGED -o ids",
    "check_none": "check FLOWS:late",
    "check_limit": "check FLOWS --limit 2",
    "check_nowhere": "check FLOWS --against sqlite:///none.db",
    "db_path": "db path",
    "db_check": "db check",
    "db_init": "db init",
    "db_init_wrong": "db init --db sqlite:///text.db",
    "db_init_none": "db init --db sqlite:///none.db",
    "db_backup": "db backup DIR/copy.db",
    "db_backup_again": "db backup text.db",
    "db_check_none": "db check --db sqlite:///none.db",
    "db_check_wrong": "db check --db sqlite:///text.db",
    "db_path_none": "db path --db memory:",
    "db_upgrade": "db upgrade",
}

WRONG = {
    "no_command": "nothing",
    "no_option": "ls --nothing",
    "no_argument": "show",
    "no_format": "ls -o xml",
    "no_status": "ls --status sleeping",
    "where_sign": "ls --where customer==c1",
    "where_or_nothing": "ls --where 'customer=c1 ||'",
    "where_nothing": "ls --where =c1",
    "where_time": "ls --where 'due<2026-01-31T12:00:00'",
    "where_truth": "ls --where 'vip>=true'",
    "where_null": "ls --where customer=null",
    "where_without_all": "cancel --where customer=c1",
    "where_with_ids": "cancel waiting --where customer=c1",
    "attribute_pair": "start greet Ada --attribute customer",
    "attribute_name": "start greet Ada --attribute 'a b=1'",
    "attribute_value": "start greet Ada --attribute a=[1]",
    "no_execution": "show nobody",
    "several_executions": "show c",
    "no_failed": "--tenant other show @failed",
    "no_file": "run none.py",
    "no_database": "--db sqlite:///DIR/none/none.db ls",
    "bad_arguments": "run FLOWS:order",
    "bad_duration": "start FLOWS:greet Ada --delay soon",
    "bad_pair": "run FLOWS:greet -i name",
    "ask_with_key": "send waiting approved --ask --key k",
    "empty_id": "run FLOWS:greet Ada --id ''",
    "run_for_tenant": "--tenant other run FLOWS:greet Ada",
    "result_waiting": "result waiting",
    "result_pending": "result pending",
    "result_paused": "result paused",
    "result_failed": "result failing",
    "result_cancelled": "result cancelled",
    "result_late": "result late",
    "result_attention": "result changed",
}


@pytest.mark.parametrize("name", [*LOOKING, *ACTING, *WRONG])
def test_the_command_says_what_its_transcript_says(name: str, shell: Shell, tmp_path: Path) -> None:
    command = {**LOOKING, **ACTING, **WRONG}[name]
    (tmp_path / "text.db").write_text("this is no database, but it is long enough to be looked at " * 20)
    said = shell.run(command.replace("DIR", str(tmp_path)))
    agrees(name, steady(transcript(command, said), tmp_path))


def test_one_execution_may_be_named_on_standard_input(shell: Shell) -> None:
    assert shell.run("show - -o ids", stdin="\nad\n").out == "greet/ada\n"
    assert shell.run("show -", stdin="ada\ntree\n").code == 10
    assert shell.run("result -", stdin="").code == 10


def test_every_id_that_is_listed_names_its_execution(shell: Shell) -> None:
    listed = shell.run("ls -q").out
    assert shell.run("pause -", stdin=listed).out.count("has been asked to pause") == 4
    for name in listed.splitlines():
        assert shell.run("show - -o ids", stdin=name).out == f"{name}\n"


def test_the_database_is_the_one_that_is_named_last_else_that_of_the_environment(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_DB", "sqlite:///by/environment.db")
    assert shell.run("db path --db sqlite:///named/last.db").out.endswith("/named/last.db\n")
    assert shell.run("db path").out == f"{shell.directory}/perdure.db\n"
    assert Shell("").run("db path").out.endswith("/by/environment.db\n")


def test_a_tenant_sees_its_own_only(shell: Shell) -> None:
    assert shell.run("--tenant other start greet Ada --id ada").code == 0
    assert shell.run("ls --tenant other -q").out == "greet/ada\n"
    assert "tenant       other" in shell.run("show ada --tenant other").out
    assert shell.run("show ada").out.startswith("greet/ada  completed\n")
