"""Claims about tools of MCP servers as steps, against a server over standard input and output: names, values, errors, time, and calls that were interrupted."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perdure import App, Definition
from perdure.core.errors import BadValue
from perdure.mcp import mcp_tools
from perdure.mcp.server_configs import read_servers
from perdure.mcp.server_session import ServerSession, ServerUnavailable
from perdure.mcp.tool_lists import ListedTool, ToolList, config_hash, keep_list
from perdure.service.step_traces import StepTrace

SERVER = Path(__file__).with_name("raw_server.py")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def servers(mode: str = "", **more: Any) -> dict[str, Any]:
    """The configuration of one server, `raw`."""
    given = {"command": sys.executable, "args": [str(SERVER), mode], "env": {"CALLS": str(Path.cwd() / "calls")}, "timeout": "3s", **more}
    return {"mcpServers": {"raw": given}}


def calls() -> list[str]:
    """What the server was asked for."""
    path = Path("calls")
    return path.read_text().splitlines() if path.exists() else []


def is_alive(file: str) -> bool:
    """Whether the process whose number is in a file is alive."""
    try:
        os.kill(int(Path(file).read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def files() -> list[Path]:
    """Every file that was written."""
    return [path for path in Path().rglob("*") if path.is_file()]


async def run(config: dict[str, Any], *steps: dict[str, Any], secrets: dict[str, str] | None = None) -> dict[str, StepTrace]:
    """Runs steps one after the other, each by its tool; returns them by their ids. A step that fails does not end it."""
    listed = [{"id": f"s{number}", "on_error": "go_on", **one} for number, one in enumerate(steps)]
    definition = Definition.of({"perdure": 1, "name": "flow", "order": "listed", "steps": listed}, tools=mcp_tools(config), secrets=secrets)
    async with App([definition], db="sqlite:///mcp.db") as app:
        handle = await app.start(definition.with_(id="1"))
        await handle.result(timeout="60s")
        return {one.path: one for one in await handle.attempts()}


def said(step: StepTrace) -> tuple[str, str]:
    assert step.error is not None
    return step.error.type, step.error.message


async def test_tools_are_steps_and_their_results_are_values() -> None:
    found = await run(
        servers(),
        {"tool": "raw.user", "with": {"name": "Ada"}},
        {"tool": "raw.add", "with": {"a": "@s0.id", "b": 5}},
        {"tool": "raw.parts"},
        {"tool": "raw.echo", "with": {"text": "[not json"}},
    )
    assert [one.decoded_output() for one in found.values()] == [
        {"id": 7, "name": "Ada"},
        {"total": 12},
        [{"type": "text", "text": "one"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
        "[not json",
    ]
    assert found["s1"].target == "raw.add"


async def test_what_a_tool_refuses_fails_the_step_with_its_words() -> None:
    found = await run(servers(), {"tool": "raw.fails", "with": {"why": "closed"}}, {"tool": "raw.add", "with": {"a": "x"}}, {"tool": "raw.add"})
    assert said(found["s0"]) == ("mcp_tool_failed", "no: closed") and len(found["s0"].attempts) == 1
    assert said(found["s1"])[0] == "bad_value" and "at a" in said(found["s1"])[1] and "a" in said(found["s2"])[1]
    assert calls() == ['fails {"why": "closed"}']


async def test_a_retry_that_the_definition_asks_for_is_made() -> None:
    found = await run(servers(), {"tool": "raw.fails", "with": {"why": "busy"}, "retry": {"max": 3, "wait": "10ms"}})
    assert len(found["s0"].attempts) == 3 and len(calls()) == 3


async def test_of_a_server_that_dies_the_next_call_begins_another_one() -> None:
    found = await run(servers(), {"tool": "raw.charge", "with": {"dies": True}}, {"tool": "raw.add", "with": {"a": 1}})
    assert said(found["s0"])[0] == "in_doubt" and "may have done its work" in said(found["s0"])[1]
    assert found["s1"].decoded_output() == {"total": 2}
    assert [one.split()[0] for one in calls()] == ["charge", "add"]


async def test_a_tool_that_may_be_called_twice_is() -> None:
    found = await run(servers(), {"tool": "raw.put", "with": {"dies": True}})
    assert found["s0"].decoded_output() == "charged" and [one.split()[0] for one in calls()] == ["put", "put"]


async def test_a_call_takes_no_longer_than_its_server_has() -> None:
    found = await run(servers("silent", timeout="300ms"), {"tool": "raw.charge"})
    assert said(found["s0"])[0] == "in_doubt" and "within 0.3 s" in said(found["s0"])[1]


async def test_progress_of_a_tool_is_that_of_the_step() -> None:
    steps = [{"id": "s", "tool": "raw.charge", "with": {"waits": 25}}]
    definition = Definition.of({"perdure": 1, "name": "flow", "steps": steps}, tools=mcp_tools(servers(timeout="9s")))
    async with App([definition], db="sqlite:///mcp.db") as app:
        handle = await app.start(definition.with_(id="1"))
        assert await handle.result(timeout="20s") == "charged"
        logged = await handle.log(payloads=True)
    assert "at work" in str(logged)


async def test_the_program_has_only_the_environment_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "canary-of-the-environment")
    monkeypatch.setenv("PERDURE_SECRET_KEY", "canary-of-a-secret")
    config = servers()
    config["mcpServers"]["raw"]["env"]["API_KEY"] = "@{secrets.KEY}"
    found = await run(config, {"tool": "raw.env"}, secrets={"KEY": "canary-of-a-secret"})
    seen = found["s0"].decoded_output()
    assert "SECRET_OF_OURS" not in seen and "PATH" in seen
    assert "canary" not in json.dumps(seen) and seen["API_KEY"]  # what it was given comes back masked
    assert not [path for path in files() if b"canary-of-a-secret" in path.read_bytes()]


async def test_a_secret_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    config = servers()
    config["mcpServers"]["raw"]["env"]["API_KEY"] = "@{secrets.KEY}"
    with pytest.raises(BadValue, match="PERDURE_SECRET_KEY"):
        mcp_tools(config)
    monkeypatch.setenv("PERDURE_SECRET_KEY", "for the list")
    _ = mcp_tools(config)
    monkeypatch.delenv("PERDURE_SECRET_KEY")
    found = await run(config, {"tool": "raw.add", "with": {"a": 1}})
    assert "perdure secret set KEY" in said(found["s0"])[1]


def test_a_list_is_asked_for_once() -> None:
    assert [one.name for one in mcp_tools(servers())][:2] == ["raw.add", "raw.asks"]
    kept = Path(".perdure/mcp/raw.tools.json")
    before = kept.read_bytes()
    kept.write_bytes(before.replace(b"Adds two numbers.", b"Added."))
    assert mcp_tools(servers())[0].fn.__doc__ == "Added."
    assert [one.name for one in mcp_tools(servers(tools=["user"]))] == ["raw.user"]
    kept.write_bytes(b"{no JSON")
    assert mcp_tools(servers())[0].fn.__doc__ == "Adds two numbers."


def test_other_tools_than_those_that_are_known_are_told(caplog: pytest.LogCaptureFixture) -> None:
    _ = mcp_tools(servers())
    config = servers("other")
    assert "raw.add" not in [one.name for one in mcp_tools(config)]
    known = Path(".perdure/mcp/raw.tools.json")
    found = json.loads(known.read_bytes())
    found["tools"] = [one for one in found["tools"] if one["name"] != "new"]
    known.write_text(json.dumps(found))
    with caplog.at_level(logging.WARNING, "perdure.mcp"):
        _ = asyncio.run(run(config, {"tool": "raw.user"}))
    assert "have changed since they were listed: new" in caplog.text
    assert "raw.new" in [one.name for one in mcp_tools(config)]


async def test_a_server_whose_tools_no_longer_fit_its_configuration_is_used_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    config = servers(tools=["user", "gone"])
    (server,) = read_servers(config)
    _ = keep_list(server, ToolList(server=config_hash(server), tools=[ListedTool(name="gone"), ListedTool(name="user")]))
    with caplog.at_level(logging.WARNING, "perdure.mcp"):
        found = await run(config, {"tool": "raw.user", "with": {"name": "Ada"}})
    assert found["s0"].decoded_output() == {"id": 7, "name": "Ada"} and len(calls()) == 1
    assert "is used as it was listed: mcpServers.raw.tools: 'gone' is not a tool that the server has" in caplog.text


def test_a_server_that_does_not_begin_is_told_with_what_it_printed() -> None:
    with pytest.raises(ServerUnavailable, match=r"raw can't be reached.*raw\.log"):
        mcp_tools(servers("ends"))
    assert "this server does not begin" in Path(".perdure/mcp/raw.log").read_text()
    with pytest.raises(ServerUnavailable, match="raw can't be reached"):
        mcp_tools({"mcpServers": {"raw": {"command": "no-such-program-anywhere"}}})


def test_names_that_are_no_names_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "perdure.mcp"):
        assert [one.name for one in mcp_tools(servers("names"))] == ["raw.add"]
    assert caplog.text.count("it is left out") == 3 and "\x1b" not in caplog.text


def test_too_many_tools_are_refused() -> None:
    with pytest.raises(BadValue, match="2,000 at most"):
        mcp_tools(servers("many"))


@pytest.mark.parametrize("mode", ["garbage", pytest.param("wrong", marks=pytest.mark.slow), "lies"])
async def test_a_server_that_answers_nonsense_fails_or_answers_and_the_execution_goes_on(mode: str) -> None:
    found = await run(servers(mode, timeout="1s" if mode == "wrong" else "3s"), {"tool": "raw.add", "with": {"a": 1}}, {"tool": "raw.add", "with": {"a": 2}})
    assert len(found) == 2 and all(one.state in ("completed", "failed") for one in found.values())
    assert mode == "wrong" or found["s1"].decoded_output() == {"total": 3}


async def test_an_answer_that_is_no_result_may_be_of_work_that_was_done() -> None:
    found = await run(servers("wrong"), {"tool": "raw.charge", "retry": {"max": 3, "wait": "10ms"}})
    assert said(found["s0"])[0] == "in_doubt" and "is no result of a tool" in said(found["s0"])[1]
    assert [one.split()[0] for one in calls()] == ["charge"]


async def test_an_answer_without_end_ends_the_server_with_all_that_it_has_begun() -> None:
    found = await run(servers(timeout="60s"), {"tool": "raw.endless"}, {"tool": "raw.add", "with": {"a": 1}})
    assert said(found["s0"])[0] == "in_doubt" and "a line of more than 16,000,000 bytes" in said(found["s0"])[1]
    assert found["s1"].decoded_output() == {"total": 2}
    assert not is_alive("calls.child")


async def test_what_a_server_prints_is_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from perdure.mcp import program_transport  # imported here, as in the session: it takes a second

    monkeypatch.setattr(program_transport, "LOG_BYTES_MAX", 100_000)
    await run(servers("prints"), {"tool": "raw.add", "with": {"a": 1}})
    sizes = [path.stat().st_size for path in files() if path.name in ("raw.log", "raw.log.1")]
    assert len(sizes) == 2 and all(0 < size <= 100_000 for size in sizes)


async def test_a_server_may_not_use_a_model_of_the_client() -> None:
    found = await run(servers(), {"tool": "raw.samples"})
    (answer,) = found["s0"].decoded_output()
    assert answer["code"] and "role" not in answer, "an error of the protocol"


def test_tools_that_are_asked_for_twice_share_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    before = ServerSession.call

    async def counted(session: ServerSession, *given: Any) -> Any:
        used.append(str(id(session)))
        return await before(session, *given)

    first, second = (mcp_tools(servers()) for _ in range(2))
    by_name = [{one.name: one for one in tools} for tools in (first, second)]
    tools = [by_name[0]["raw.add"], by_name[1]["raw.user"]]
    steps = [{"id": "a", "tool": "raw.add", "with": {"a": 1}}, {"id": "b", "tool": "raw.user"}]
    monkeypatch.setattr(ServerSession, "call", counted)
    Definition.of({"perdure": 1, "name": "flow", "order": "listed", "steps": steps}, tools=tools).run()
    assert len(used) == 2 and len(set(used)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "outcome", "count"), [("charge", "failed interrupted", 1), pytest.param("put", "completed charged", 2, marks=pytest.mark.prove)]
)
def test_a_call_that_was_killed_is_made_again_only_if_it_may_be(tool: str, outcome: str, count: int) -> None:
    Path("mcp.json").write_text(json.dumps(servers(timeout="20s")))
    command = [sys.executable, str(SERVER.with_name("killed_program.py")), tool, "mcp.json"]
    killed = subprocess.Popen(command)
    until_s = time.monotonic() + 60
    while not calls() and time.monotonic() < until_s:
        time.sleep(0.05)
    killed.kill()
    killed.wait()
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert (again.stdout.strip(), len(calls())) == (outcome, count)


@pytest.mark.slow
def test_the_command_takes_a_file_of_servers(capfd: pytest.CaptureFixture[str]) -> None:
    Path("mcp.json").write_text(json.dumps(servers()))
    Path("flow.yaml").write_text("perdure: 1\nname: flow\nsteps: [{id: sum, tool: raw.add, with: {a: 2, b: 3}}]\n")
    assert run_command("tools", "mcp.json") == 0
    assert "raw.add" in capfd.readouterr().out
    assert run_command("run", "flow.yaml", "--tools", "mcp.json") == 0
    assert "5" in capfd.readouterr().out
    Path("other.json").write_text(json.dumps({"mcpServers": {"gone": {"command": "no-such-program-anywhere"}}}))
    assert run_command("tools", "other.json") != 0
    assert "gone can't be reached" in capfd.readouterr().err


def run_command(*words: str) -> int:
    return subprocess.run([sys.executable, "-c", "from perdure.cli import main; main()", *words], timeout=120, check=False).returncode
