"""Commands beside an engine that runs: waiting, asking, following, telling; and a worker from its start to its stop."""

import asyncio
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from queue import Queue
from types import ModuleType

import pytest

from perdure import Workflow
from perdure.cli import terminal_text
from perdure.runtime.engine import Engine
from perdure.runtime.workflow_programs import Workflow as AnyWorkflow
from perdure.stores.configured_store import open_store
from perdure.sync_client import Client
from tests.cli.conftest import flows
from tests.cli.shell import FLOWS, Shell, agrees, steady, transcript

TIMEOUT_S = 20


def advance(db: str, workflows: Sequence[AnyWorkflow], begun: "Queue[tuple[asyncio.AbstractEventLoop, Engine]]") -> None:
    """Be an engine, until told to stop."""

    async def run() -> None:
        store = open_store(db)
        try:
            engine = Engine(store, workflows)
            running = asyncio.create_task(engine.run())
            await engine.ready()
            begun.put((asyncio.get_running_loop(), engine))
            await running
        finally:
            await store.close()

    asyncio.run(run())


def working(db: str, code: ModuleType) -> AbstractContextManager[None]:
    """While the block does its work, an engine that knows the workflows of a module works on the database."""
    return advancing(db, [one.code for one in vars(code).values() if isinstance(one, Workflow)])


@contextmanager
def advancing(db: str, workflows: Sequence[AnyWorkflow]) -> Iterator[None]:
    """While the block does its work, an engine that knows these works on the database."""
    begun: Queue[tuple[asyncio.AbstractEventLoop, Engine]] = Queue()
    thread = threading.Thread(target=advance, args=(db, workflows, begun))
    thread.start()
    loop, engine = begun.get(timeout=TIMEOUT_S)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(engine.stop)
        thread.join(TIMEOUT_S)
    assert not thread.is_alive()


@pytest.fixture
def live(shell: Shell) -> Iterator[Shell]:
    """A shell on a database on which an engine works."""
    with working(shell.db, flows()):
        yield shell


LIVE = {
    "start_wait": "start greet Ada --wait",
    "start_wait_json": "start FLOWS:greet 007 --id new --wait -o json",
    "start_wait_failed": "start order o 5000 --id new --wait",
    "start_wait_given_up": "start order o --id new --wait --timeout 1s",
    "start_watch": "start order o 5000 --id new --watch",
    "start_known": "start FLOWS:order o --id new",
    "cancel_wait": "cancel waiting --wait --timeout 10s",
    "terminate_wait": "terminate waiting --wait",
    "pause_wait": "pause waiting --wait",
    "resume_wait": "resume paused --wait",
    "result_given_up": "result waiting --timeout 100ms",
    "engines": "engines",
    "show_known": "show waiting",
    "ls_known": "ls --workflow order",
    "ask_given_up": "send waiting question hello --ask --timeout 200ms",
}


@pytest.mark.parametrize("name", LIVE)
def test_beside_an_engine_the_command_says_what_its_transcript_says(name: str, live: Shell) -> None:
    agrees(name, steady(transcript(LIVE[name], live.run(LIVE[name])), live.directory))


def test_a_signal_lets_a_workflow_go_on_to_its_result(live: Shell) -> None:
    assert live.run("send waiting approved true").code == 0
    assert live.run("result waiting --wait --timeout 10s").out == "shipped\n"


@pytest.mark.slow
def test_a_question_is_replied_to(live: Shell) -> None:
    assert live.run("start asked --id q").code == 0
    assert live.run("send q question hello --ask --timeout 10s").out == "hello? 1\n"
    assert live.run("send q question stop --ask --timeout 10s -o json").out == '"stop? 2"\n'
    assert live.run("result q --wait --timeout 10s").out == "2\n"


@pytest.mark.slow
@pytest.mark.parametrize(("command", "last"), [("events", "execution.completed"), ("logs", "execution.completed"), ("stream", "charged")])
def test_what_is_followed_ends_with_the_execution(live: Shell, command: str, last: str) -> None:
    def send() -> None:  # without a shell of its own, for there is one standard output only
        with Client(live.db) as client:
            client.get("waiting").send("approved", True)

    timer = threading.Timer(0.3, send)
    timer.start()
    said = live.run(f"{command} waiting --follow")
    timer.join()
    assert said.code == 0
    assert last in said.out.splitlines()[-1]


@pytest.mark.slow
def test_ids_go_through_a_pipe(live: Shell) -> None:
    assert live.run("start order o5 --id 'odd id/☕ %2F'").code == 0
    ids = live.run("ls --workflow order --status waiting,running,pending -o ids").out
    assert len(ids.splitlines()) == 2
    said = live.run("cancel - --wait --timeout 10s", stdin=f"{ids}\n\nnobody\n")
    assert (said.code, said.out.count("is cancelled"), said.err.count("\n")) == (44, 2, 2)
    assert live.run("ls --status cancelled -q").out.count("\n") == 3


@pytest.mark.slow
def test_a_worker_says_what_it_knows_and_stops_in_good_order_when_told(shell: Shell) -> None:
    command = [sys.executable, "-m", "perdure.cli", "--db", shell.db, "worker", str(FLOWS), "--queue", "gpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            ready = process.stdout.readline()
            known = "greet@1, order@2, branches@1, asked@1, late@1, thinks@1, naïve/café ☕@1"
            assert re.fullmatch(rf"engine engine-\S+ on {re.escape(shell.db)} knows {known}, definitions of the catalog, serves gpu; Ctrl-C stops it\n", ready)
            assert shell.run("start greet Ada --wait --timeout 10s").out == "Hello Ada\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
            assert "stopping within 30 s" in process.stderr.read()
        finally:
            process.kill()
    assert shell.run("engines -o json").out == "[]\n"


def test_passwords_are_not_shown() -> None:
    assert terminal_text.without_passwords("on postgresql://u:secret@h/d and redis://:s@h") == "on postgresql://u:***@h/d and redis://:***@h"
    assert terminal_text.without_passwords("sqlite:///a@b:c.db") == "sqlite:///a@b:c.db"
