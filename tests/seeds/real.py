"""How an example is run with nothing standing in for a kind of steps: what the world around it says, and what comes of it where that is not what a case says.

Source text runs in the sandboxes, commands in a shell, requests go to a server, models are asked over HTTP in the protocol of a vendor, people decide through
a client. Tools are always the user's; here they are functions that say what the case has them say.
"""

import asyncio
import dataclasses
import json
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from perdure import AsyncClient
from perdure.code.declarations import Step
from perdure.definition_workflow import Definition
from perdure.definitions.graph.requirements import AGENT_VERBS, requirements_of
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.deployment import Allowed, Deployment
from perdure.definitions.kinds.kind_registry import OWN_KINDS
from perdure.definitions.kinds.models import llm_kind
from perdure.fake_llm import Fake, models, serving_aside
from perdure.loop_thread import LoopThread
from perdure.runtime.worker import Worker
from perdure.stores.configured_store import open_store
from tests.definitions.graph.semantics.table import ANYTHING, Voted, again
from tests.seeds.cases import ExampleCase, called, given
from tests.seeds.definitions import definition
from tests.seeds.example import Example

KINDS = frozenset((*OWN_KINDS, *AGENT_VERBS))
NAMES = ("default", "gpt-4", "gpt-4o", "small")
"""The models that the examples name, or name by naming none."""

VENDORS = {"openai": "small", "anthropic": "large"}
POLL_S = 0.01
PATIENCE_S = 20.0


@dataclasses.dataclass(frozen=True)
class Real:
    """What the world says to a case: `answers` of models, in their order; `programs` are shell scripts that are on the PATH of its commands. `result` and
    `failed` are what comes of it where that is not as its case has it, which plays the kind by something simpler."""

    answers: tuple[Any, ...] = ()
    programs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    result: Any = None
    failed: str | None = None


def expected(case: ExampleCase, real: Real) -> ExampleCase:
    """The case, as it is with nothing standing in."""
    changed: dict[str, Any] = {}
    if real.failed is not None:
        changed["failed"] = real.failed
    elif real.result is not None:
        changed |= {"result": real.result, "failed": None, "ran": None}
    kept = {name: fn for name, fn in case.does.items() if name not in KINDS}
    return dataclasses.replace(case, does=kept, **changed)


def deployment(work: Path, asked: Mapping[str, Any], http: str = "") -> Deployment:
    """What steps may reach: a shell, the server of the test, these models."""
    return Deployment(allowed=Allowed(bash=True, http=(http,) if http else ()), work=work, models=asked)


def vendor(url: str, name: str) -> dict[str, Any]:
    """All models that the examples name, of one vendor."""
    return dict.fromkeys(NAMES, models(url)[VENDORS[name]])


def made(document: Mapping[str, Any], case: ExampleCase, here: Deployment, kinds: Mapping[str, Kind] | None = None) -> Definition:
    """The definition of a case, with the tools of its user and nothing else that is played."""
    calls = tuple(called(*name.split("@")) for name in case.calls)
    ir = Definition.of(document, calls=calls, deployment=here).ir
    names = {one.name for one in requirements_of(ir) if one.what == "tool"} | case.does.keys()
    agents = [name for node in ir.nodes if node.kind == "agent" and isinstance(node.config, Mapping) for name in node.config.get("tools", ())]
    tools = dict.fromkeys(agents, echoed) | {name: tool(case, name) for name in sorted(names)}
    return Definition.of(document, tools=tools, calls=calls, kinds=kinds, deployment=here, secrets={"TOKEN": "hush-hush"})


def tool(case: ExampleCase, name: str) -> Any:
    """A user's tool, which says what the case has it say, and may run again."""
    left = list(case.answers.get(name, ()))
    does = (lambda **_: left.pop(0)) if name in case.answers else case.does.get(name, given)
    return does if isinstance(does, Step) else again(does)


def echoed(**named: Any) -> Any:
    """A tool of agents, which give it all by name: what it is given."""
    return named or None


def work_of(it: Definition) -> dict[str, Step[Any, Any, Any]]:
    """The tasks of a definition that no kind does, each with what does it: a worker's, by the user's tool of that name."""
    types = [str(node.config["type"]) for node in it.ir.nodes if node.kind == "task" and isinstance(node.config, Mapping)]
    return {name: it.graph.tools[name] for name in types if name not in KINDS}


@asynccontextmanager
async def worked(it: Definition, url: str) -> AsyncIterator[None]:
    """A worker that serves a queue for each type of task, where there are some."""
    if not (steps := work_of(it)):
        yield
        return
    store = open_store(url)
    worker = Worker(store, steps.values(), queues=steps.keys(), threaded=True)
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running
        await store.close()


def put_on_path(work: Path, workflow: str, programs: Mapping[str, str]) -> None:
    """Put scripts where the commands of the execution `1` of a workflow find them: into its directory, which its profile puts first."""
    home = work / "default" / workflow / "1"
    home.mkdir(parents=True, mode=0o700)
    (home / ".bash_profile").write_text('PATH="$HOME:$PATH"\n')
    for name, script in programs.items():
        (home / name).write_text(f"#!/bin/bash\n{script}\n")
        (home / name).chmod(0o700)


def placed(example: Example, address: str) -> dict[str, Any]:
    """The definition of an example, whose hosts are the server of the test."""
    text = json.dumps(definition(example))
    for host in ("weather", "traffic"):
        text = text.replace(f"https://{host}.example", f"http://{address}/{host}")
    read: dict[str, Any] = json.loads(text)
    return read


async def ended(it: Definition, case: ExampleCase, url: str) -> Any:
    """The result of a case on a real engine; people decide as soon as they are asked."""
    running = asyncio.create_task(it.with_(id="1", db=url).arun(dict(case.input)))
    try:
        async with asyncio.timeout(PATIENCE_S), worked(it, url):
            votes = [event for event in case.script if isinstance(event, Voted)]
            if votes:
                async with AsyncClient(url) as client:
                    for vote in votes:
                        await _decide(client, vote, running)
            return await running
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _decide(client: AsyncClient, vote: Voted, running: asyncio.Task[Any]) -> None:
    while not (waiting := await client.approvals()):
        if running.done():
            raise AssertionError(f"nobody was asked; it came to {running.result()}")
        await asyncio.sleep(POLL_S)
    (asked,) = waiting
    if vote.approve:
        await client.approve(asked, by=vote.by, value=vote.form, comment=vote.comment)
    else:
        await client.reject(asked, by=vote.by, comment=vote.comment)


def rules(answers: tuple[Any, ...]) -> list[Any]:
    """What a provider is told to answer, in this order."""
    return [{"answer": one if isinstance(one, str) else {"json": one}} for one in answers]


class Pages(BaseHTTPRequestHandler):
    """A server that says what it was asked for."""

    def do_GET(self) -> None:
        raw = json.dumps({"path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def pages() -> Iterator[str]:
    """A server; its address, as host:port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# what the world says, by the claim of the case

PASS, FAIL = 'echo "2 passed, branch $BRANCH"', 'echo "1 failed: $0 $*, branch $BRANCH"; exit 1'
MAKE = 'echo "made $1 $2"'
CHOSEN = ("enterprise_sales", "standard_sales", "nurture_campaign", "disqualify")


def _said(stdout: str) -> dict[str, Any]:
    return {"exit_code": 0, "signal": None, "stdout": stdout, "stderr": "", "truncated": False, "duration_s": ANYTHING}


REALS: dict[tuple[str, str], Real] = {
    ("001_step_types", "one after the other, and the command is a command wherever it stands"): Real(
        ("It says hello", "Goodbye"), result={"said": _said("hello\n")}
    ),
    ("001_step_types", "somebody denies it: cancelled, says by whom"): Real(("It says hello", "Goodbye")),
    ("001_row", "the row of the table runs what it holds"): Real(result=_said("")),
    ("003_inline", "not urgent: two messages at a time, and then it counts"): Real(("no",)),
    ("003_inline", "urgent, and approved"): Real(("yes",)),
    ("003_inline", "urgent, and rejected: null ends it"): Real(("yes",)),
    ("003_inline", "no messages: done at once"): Real(("no",)),
    ("003_inline", "nobody signs in the time that all of it has"): Real(("yes",)),
    **{("004_agent_branch", f"the agent says {name}"): Real(({"next": [name], "reasoning": "it is large"},)) for name in CHOSEN},
    ("004_agent_branch", "the agent names two"): Real(({"next": ["enterprise_sales", "disqualify"]},)),
    ("004_agent_branch", "the agent names none"): Real(({"next": []},)),
    ("004_agent_branch", "the agent names one that is not in its list"): Real(({"next": ["wire_money"]},) * 2, failed="wire_money"),
    ("004_enrichment", "three sources at once, and once with all of them"): Real(
        result={
            "fetch_weather": {"status": 200, "headers": ANYTHING, "body": {"path": "/weather/now?city=Rome"}, "url": ANYTHING, "redirects": 0},
            "fetch_traffic": {"status": 200, "headers": ANYTHING, "body": {"path": "/traffic/Rome"}, "url": ANYTHING, "redirects": 0},
            "fetch_news": ["news"],
        }
    ),
    ("format_nightly_release", "tests pass: images, approval, two looks at its health, and what publishes it"): Real(programs={"pytest": PASS, "make": MAKE}),
    ("format_nightly_release", "nobody approves: its own time, four hours, is over before that of the approval"): Real(programs={"pytest": PASS, "make": MAKE}),
    ("format_nightly_release", "somebody rejects it: cancelled"): Real(programs={"pytest": PASS, "make": MAKE}),
    ("format_nightly_release", "tests fail: an agent looks into it, and is told what they said"): Real(
        ("a typo in line 3",), {"pytest": FAIL, "make": MAKE}, result="a typo in line 3"
    ),
    ("format_support_triage", "not sure: a person labels, and the replies go two at a time"): Real(({"label": "bug", "confidence": 0.5},)),
    ("format_support_triage", "rejected: the ticket is closed"): Real(({"label": "bug", "confidence": 0.5},)),
    ("format_support_triage", "sure of it, and the model has said all: the replies follow at once"): Real(({"label": "bug", "confidence": 0.9},)),
    ("format_payment", "for another reason: an agent says whom to ask"): Real(({"next": ["fraud"], "reasoning": "odd"},)),
    ("format_payment", "the agent says nothing: a person looks, and approves"): Real(({"next": []},)),
    ("format_payment", "the person says no: refunded"): Real(({"next": []},)),
    ("format_payment", "nobody looks: its own time, half an hour, is over before theirs, and what was charged is given back"): Real(({"next": []},)),
}
"""Of the cases that are about more than tools, or come to something else."""


@asynccontextmanager
async def answering(fake: Fake, answers: tuple[Any, ...]) -> AsyncIterator[None]:
    """A provider that gives these answers, each of which has to be asked for."""
    fake.tell(rules(answers))
    yield
    assert len(fake.requests) == len(answers), "how often a model was asked"


@contextmanager
def asking_aside(answers: tuple[Any, ...], where: Path) -> Iterator[Kind]:
    """The kind `llm`, whose requests go out by a thread beside a world, which has no network of its own."""
    thread = LoopThread("models")
    try:
        with serving_aside(Fake(rules(answers))) as url:
            real = llm_kind.llm_kind(deployment(where, vendor(url, "openai")))
            yield Kind("llm", lambda config, input=None: thread.call(real.run(config, input)))
    finally:
        thread.close()
