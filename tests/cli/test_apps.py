"""An `App` as a target of commands: it brings its workflows, its definitions, its queues and its database, and options win over what it says."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import Client, Definition
from perdure.cli import targets
from perdure.cli.shared_options import GlobalOptions
from perdure.cli.targets import NoTarget

SHOP = """
from perdure import App, Compressed, Context, Queue, step, workflow
from perdure.stores.memory import MemoryStore
mails = Queue("mails", concurrency=2)
def shout(text: str) -> str: return text.upper()
@step(queue=mails)
async def mail(to: str) -> str: return f"mailed {to}"
@workflow
async def notify(ctx: Context, to: str) -> str: return await ctx.step(mail, to)
@workflow
async def double(ctx: Context, number: int) -> int: return 2 * number
app = App([notify, double], definitions="flows/", tools=[shout], queues=[mails], db="sqlite:///shop.db", grace="5s")
single = App([double], db="sqlite:///other.db")
compressed = App([double], db="sqlite:///shop.db", codec=Compressed())
in_memory = App([double], db=MemoryStore())
"""
FLOW = """
perdure: 1
name: loud
input: {text: {type: string}}
steps:
  - {id: first, tool: shout, with: {text: "@input.text"}}
output: "@first"
"""
WAIT_S = 30.0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/loud.yaml").write_text(FLOW)
    (tmp_path / "app_shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_DB", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if "app_shop" in name]:
        del sys.modules[name]


def perdure(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "perdure.cli", *words], capture_output=True, text=True, timeout=WAIT_S * 2, check=False)


def test_all_that_an_app_has_is_found(place: Path) -> None:
    code = targets.load_code(["app_shop:app"])
    assert {one.code.name for one in code.workflows} == {"notify", "double", "loud"}
    assert [one.name for one in code.steps] == ["mail"] and [one.name for one in code.queues] == ["mails"]
    assert [app.queues for app in code.apps] == [("mails",)]
    assert targets.load_code(["app_shop.py:app"]).apps, "it is found in a file as well"


def test_a_workflow_of_an_app_is_chosen_by_its_name(place: Path) -> None:
    assert targets.load_workflow("app_shop:single").code.name == "double"
    assert targets.load_workflow("app_shop:app:notify").code.name == "notify"
    assert isinstance(targets.load_workflow("app_shop.py:app:loud"), Definition)
    with pytest.raises(NoTarget, match="choose: app_shop:app:notify, app_shop:app:double, app_shop:app:loud"):
        targets.load_workflow("app_shop:app")
    with pytest.raises(NoTarget, match="choose: app_shop:single:double"):
        targets.load_workflow("app_shop:single:nothing")


def test_the_database_is_that_of_the_app_unless_an_option_names_another(place: Path) -> None:
    settings = GlobalOptions()
    targets.use_database_of(settings, ["app_shop:app", "app_shop.py"])
    assert settings.db == "sqlite:///shop.db"
    settings = GlobalOptions(db="sqlite:///mine.db")
    targets.use_database_of(settings, ["app_shop:app"])
    assert settings.db == "sqlite:///mine.db"
    with pytest.raises(NoTarget, match="name it with --db"):
        targets.use_database_of(GlobalOptions(), ["app_shop:app", "app_shop:single"])


def test_an_app_with_a_codec_or_a_store_of_its_own_is_for_workers_only(place: Path) -> None:
    for name in ("compressed", "in_memory"):
        with pytest.raises(NoTarget, match="perdure worker runs any App"):
            targets.use_database_of(GlobalOptions(), [f"app_shop:{name}"])
    (compressed, in_memory, other) = targets.load_code(["app_shop:compressed", "app_shop:in_memory", "app_shop:app"]).apps
    assert targets.worker_database(GlobalOptions(), [compressed]) == ("sqlite:///shop.db", compressed.codec)
    assert targets.worker_database(GlobalOptions(), [in_memory]) == (in_memory.db, None)
    with pytest.raises(NoTarget, match="the same codec="):
        targets.worker_database(GlobalOptions(), [compressed, other])


@pytest.mark.slow
def test_worker_runs_an_app_with_its_database_and_its_queues(place: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-u", "-m", "perdure.cli", "worker", "app_shop:app"], stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        said = worker.stdout.readline()
        assert "sqlite:///shop.db" in said and "serves mails" in said and "loud@" in said, said
        with Client("sqlite:///shop.db") as client:
            assert client.start("notify", "ada").result(timeout=WAIT_S) == "mailed ada"
            assert client.start(Definition.load("flows/loud.yaml"), text="hello").result(timeout=WAIT_S) == "HELLO"
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=WAIT_S)
    assert worker.returncode == 0


@pytest.mark.slow
def test_options_win_over_what_an_app_says(place: Path) -> None:
    command = [sys.executable, "-u", "-m", "perdure.cli", "--db", "sqlite:///mine.db", "worker", "app_shop:app", "--queue", "others"]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        said = worker.stdout.readline()
        assert "sqlite:///mine.db" in said and "serves others;" in said, said
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=WAIT_S)
    assert worker.returncode == 0
    assert not (place / "shop.db").exists()


@pytest.mark.slow
def test_run_start_check_and_graph_take_an_app(place: Path) -> None:
    ran = perdure("run", "app_shop:app:double", "21", "--id", "k")
    assert (ran.stdout.strip(), ran.returncode) == ("42", 0), ran.stderr
    assert perdure("run", "app_shop.py:app:loud", "-i", "text=hello").stdout.strip() == "HELLO"
    assert perdure("start", "app_shop:app:notify", "ada", "--id", "waits").returncode == 0
    assert (place / "shop.db").exists() and not (place / ".perdure/perdure.db").exists()
    checked = perdure("check", "app_shop:app")
    assert checked.returncode == 0 and "1 execution: 1 fits" in checked.stdout, checked.stdout + checked.stderr
    drawn = perdure("graph", "app_shop.py:app:loud")
    assert drawn.returncode == 0 and "first" in drawn.stdout, drawn.stderr
    assert perdure("graph", "app_shop.py:app").stdout == drawn.stdout, "it has only one definition"


@pytest.mark.slow
def test_a_policy_on_the_command_line_is_that_of_the_app(place: Path) -> None:
    (place / "policy.yaml").write_text('rules:\n  - {deny: start, when: "true", reason: closed}\n')
    refused = perdure("run", "app_shop:app:loud", "-i", "text=hello", "--policy", "policy.yaml")
    assert refused.returncode != 0, refused.stdout
