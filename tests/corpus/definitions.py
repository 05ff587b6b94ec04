"""Definitions of the corpus: one table of documents, and what happens to an execution of each.

Together they have every verb, every field of the format's model and every dialect. Each is recorded twice: before the last thing that happens to it, when
something of it is in flight, and at its end. As with workflows, a new release adds cases, and changes none.
"""

import asyncio
from collections.abc import Mapping
from textwrap import dedent
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import perdure
from perdure import Definition, Fatal, Retry, Vote, step
from perdure.core import messages, values
from perdure.core.operations import Success
from perdure.core.paths import Key, parse_path
from perdure.definition_workflow import tool_steps
from perdure.definitions.format import model
from perdure.definitions.format.canonical_form import definition_bytes
from perdure.definitions.graph.graph_run import PYTHON_CONDITION
from perdure.definitions.graph.graph_workflow import DefinitionRelease, GraphWorkflow
from perdure.definitions.graph.step_kind import Kind
from perdure.definitions.kinds.agents.agent_workflow import definition_agents
from perdure.definitions.kinds.agents.built_in_tools import ToolContext
from perdure.definitions.kinds.deployment import Deployment
from perdure.dialects import definition_reader
from perdure.runtime.workflow_programs import Workflow
from perdure.workflow_function import _family
from tests.corpus.workflows import broken
from tests.definitions.kinds.agents.scripted_model import ModelScript, deployed

if TYPE_CHECKING:
    from tests.corpus.make import Played


def say(value: Any = None) -> Any:
    """Return what it is given."""
    return value


def echo(**given: Any) -> dict[str, Any]:
    """Return all that it is given."""
    return given


def add(a: Any, b: Any) -> Any:
    """Return the sum."""
    return a + b


def fail(message: str = "no") -> None:
    """Fail for good."""
    raise Fatal(message)


def flaky() -> str:
    """Succeed at the second attempt."""
    if perdure.step_info().attempt < 2:
        raise ConnectionError("not yet")
    return "at last"


async def slow(value: Any = None, takes_s: float = 10) -> Any:
    """Return what it is given, after some time."""
    await asyncio.sleep(takes_s)
    return value


@step(retry=Retry(max=1))
def brittle(value: Any = None) -> Any:
    """Fail as long as the world is broken."""
    if broken["yes"]:
        raise ConnectionError("the world is broken")
    return value


@step(name="RESERVE", idempotent=True)
def reserve(room: str = "12") -> str:
    """Return a reservation."""
    return f"room {room}"


@reserve.undo
def release(reserved: str, room: str = "12") -> str:
    """DefinitionRelease a reservation."""
    return f"released {reserved}"


def node(**given: Any) -> dict[str, Any]:
    """Do the work of a node of a token graph."""
    return {"status": 500, "score": 90, **given}


NODES = ("fetch", "score", "call", "merge")
TOOLS: dict[str, Any] = {
    **{name: step(idempotent=True)(node) for name in NODES},
    **{fn.__name__.upper(): step(idempotent=True)(fn) for fn in (say, echo, add, fail, flaky, slow)},
    "BRITTLE": brittle,
    "RESERVE": reserve,
}
SECRETS = {"TOKEN": "hush-hush"}


def stand_in(config: Any = None, input: Any = None, env: Any = None) -> Any:
    """Stand in for a kind of steps that acts on the world outside, or takes a sandbox: return the input, else the config."""
    return config if input is None else input


KINDS = dict.fromkeys(("ts", "python", "bash", "http", "openapi", "sql", "file", "llm", "pipeline", "agent", "agent_message"), stand_in)
AGENTS = ("agent", "agent_message")


# what happens to an execution


class Sent(NamedTuple):
    """A message comes."""

    name: str = "go"
    body: Any = None


class Voted(NamedTuple):
    """A person decides about the approval at a path."""

    path: str
    approve: bool = True
    by: str = "ada"
    form: Any = None


class GivenOutcome(NamedTuple):
    """The outcome of the operation at a path is given from outside, as by a worker."""

    path: str
    value: Any = None


class Waited(NamedTuple):
    """Time passes."""

    seconds: float


class Patched(NamedTuple):
    """The execution goes on by another document."""

    document: str


class Repaired(NamedTuple):
    """The tools that are broken work from now on."""


class InternalMessage(NamedTuple):
    """Another message of Perdure's own comes."""

    message: messages.ExecutionMessage


CANCELLED, RETRIED, UNDONE = (
    InternalMessage(messages.CancelMessage("enough")),
    InternalMessage(messages.RetryMessage("it is repaired")),
    InternalMessage(messages.UndoMessage("a mistake")),
)
PAUSED, RESUMED = InternalMessage(messages.PauseMessage("wait")), InternalMessage(messages.ResumeMessage("go on"))

Event = Sent | Voted | GivenOutcome | Waited | Patched | Repaired | InternalMessage

SETTLES_S = 3.0
"""So long it is waited before each thing that happens, and before the execution is recorded in flight."""


class DefinitionEntry(NamedTuple):
    """A document in YAML, or as data in a dialect; its input, what happens to its execution, the documents that it calls, and what the model of its agents
    answers (None: agents are stood in for)."""

    document: str | dict[str, Any]
    script: tuple[Event, ...] = (Sent(),)
    input: Mapping[str, Any] = {}  # never changed
    calls: tuple[str, ...] = ()
    answers: tuple[Any, ...] | None = None


def code(config: Any, input: Any = None) -> Any:
    """What ``py:`` names."""
    return [config, input]


WORK = """
order: listed
input: {n: {type: integer}}
retry: {max: 2, wait: 1s, factor: 1.5, max_wait: 4s, only: [ConnectionError], fatal: [ValueError]}
steps:
  - id: tool
    name: A tool
    note: for people
    tool: ECHO
    with: {n: "@input.n", text: "n is @{input.n}", token: "@secrets.TOKEN"}
    retry: {max: 4, wait: 2s, factor: 3, max_wait: 10s, only: [OSError], fatal: [KeyError]}
    timeout: 1h
    grace: 5s
    idempotent: true
    schema: {type: object}
    transform: {doubled: ["@self.n", "@self.n"]}
    ui: {x: 1}
  - {id: tried, tool: FLAKY}
  - {id: ts, ts: "export default ({n}) => n", with: {n: "@tool.doubled"}}
  - {id: python, python: "input['n']", with: {n: 2}, transform: {python: "input"}}
  - id: bash
    bash: {command: "cat", cwd: ".", check: false, stdin: "@python", isolate: network}
    env: {A: "@input.n"}
    transform: {ts: "export default (x) => x"}
  - id: get
    http: {url: "http://example.org/@{input.n}", method: GET, headers: {a: b}, query: {q: 1}, as: json, accept: [404], redirects: 2, max_bytes: 1000}
  - {id: post, http: {url: "http://example.org", method: POST, body: text, idempotency_key: false}}
  - {id: json, http: {url: "http://example.org", method: PUT, json: {a: 1}}}
  - {id: form, http: {url: "http://example.org", method: POST, form: {a: b}, files: {f: {content: text, filename: f.txt, type: text/plain}}}}
  - {id: write, file: {write: a.txt, content: "@input.n"}}
  - {id: append, file: {append: a.txt, content: more}}
  - {id: read, file: {read: a.txt, as: text, max_bytes: 100}}
  - {id: list, file: {list: .}}
  - id: llm
    llm: {model: m, prompt: "What is @{input.n}?", system: Be brief, messages: [{role: user, text: Hello}], temperature: 0.5, max_tokens: 9}
  - {id: fitted, llm: {prompt: "?", schema: {type: object}, repairs: 0}}
  - {id: pipeline, pipeline: [{filter: "n > 1"}], with: [{n: 1}, {n: 2}]}
  - {id: function, call: "py:tests.corpus.definitions.code", with: {config: "@pipeline"}, retry: {max: 1}}
  - {id: task, task: {type: render, queue: press, priority: 3, heartbeat: 1h}, with: {page: "@input.n"}}
  - {id: own, task: {type: python, config: "1 + 1"}, env: {A: b}, commit: true}
output: {tool: "@tool", tried: "@tried", function: "@function", task: "@task", own: "@own"}
"""

STATEMENTS = """
order: listed
input: {n: {type: integer}}
steps:
  - {id: read, sql: {connection: shop, query: "SELECT :n AS n", result: rows, max_rows: 10}, with: {n: "@input.n"}}
  - id: write
    sql: {connection: shop, execute: ["DELETE FROM a WHERE n = :n", {statement: "INSERT INTO a VALUES (:n) RETURNING n", result: value, expect: 1}]}
    with: {n: "@input.n"}
    undo: {tool: sql, with: {connection: shop, execute: "DELETE FROM a WHERE n = :n", with: {n: "@self.n"}}}
  - {id: go, listen: go}
  - {id: one, sql: {connection: shop, execute: "DELETE FROM a", result: count, expect: 0}}
output: {read: "@read", write: "@write", one: "@one"}
"""

APIS = """
order: listed
input: {n: {type: integer}}
steps:
  - id: read
    openapi:
      url: https://api.example/openapi.json
      operation: GET /pets/{id}
      params: {id: "@input.n"}
      auth: pets
      variables: {stage: v1}
      check_response: fail
      as: json
      accept: [404]
      redirects: 2
      max_bytes: 1000
      idempotency_key: true
  - {id: go, listen: go}
  - {id: file, openapi: {file: openapi.yaml, operation: list}}
  - id: chat
    when: false
    agent: {prompt: "Find a pet", model: fake, tools: [{openapi: {url: "https://api.example/openapi.json", auth: pets}, operations: [list]}]}
output: {read: "@read", file: "@file"}
"""

MODELS = """
order: listed
input: {n: {type: integer}}
steps:
  - {id: ask, listen: go}
  - {id: word, when: false, llm: {prompt: "Say it in a word", model: fake, stream: true}}
  - id: chat
    when: false
    agent: {prompt: "Find it out", model: fake, stream: true, budget: {tokens: 3000, shared: research}}
output: "@input.n"
"""

HEAD = """
version: 1.2.0
description: Everything that a document has beside its steps
tags: [a, b]
input: {n: {type: integer, default: 3}, name: {type: string}}
vars: {limit: 2, list: [1, "@input.n"]}
triggers:
  - {name: night, schedule: {cron: "0 3 * * *", timezone: Europe/London, catch_up: 1, overlap: skip}, enabled: false, with: {name: night}}
  - webhook:
      path: hook
      method: POST
      headers: {x-kind: order}
      verify: {scheme: generic, secret: "@secrets.TOKEN", header: x-signature}
      map: {name: $.name}
  - {manual: {}}
limits: {max_steps: 50, max_hops: 60, max_fanout: 10, deadline: 30d, grace: 20s, max_bytes: 100000}
retry: {max: 2}
allow: {self_edit: true}
on_failure: {undo: true, call: ECHO}
archive: true
order: refs
steps:
  - {id: a, tool: ADD, with: {a: "@input.n", b: "@vars.limit"}}
  - {id: b, tool: SAY, with: {value: "@vars.list"}}
  - {id: c, tool: ECHO, with: {sum: "@a", list: "@b", who: "@input.name", of: "@execution.workflow"}, needs: [b]}
  - {id: wait, listen: go, needs: [c]}
  - {id: d, tool: SAY, with: {value: "@c.sum"}, needs: [wait], join: all}
output: {d: "@d", c: "@c", last: "@last"}
ui: {zoom: 2}
"""

BLOCKS = """
order: listed
input: {n: {type: integer}}
vars: {seen: none}
steps:
  - {id: skipped, when: {ref: "@input.n", gt: 100}, tool: SAY}
  - {id: check, if: {all: [{ref: "@input.n", gte: 5}, {expr: "input.n < 10"}]}, then: [{id: yes, tool: SAY, with: {value: "yes"}}], else: [{id: no, tool: SAY}]}
  - {id: otherwise, if: {not: {ref: "@input.n", eq: 7}}, then: [{id: never, tool: SAY}], else: [{id: always, set: {seen: "@input.n"}}]}
  - id: side
    parallel:
      steps:
        - {id: one, tool: SAY, with: {value: 1}}
        - {id: two, do: [{id: inner, tool: SLOW, with: {value: 2}}, {id: rest, tool: ADD, with: {a: "@inner", b: "@vars.seen"}}]}
        - {id: three, tool: FAIL, with: {message: "three fails"}}
      concurrency: 2
      on_error: go_on
  - {id: first, race: [{id: quick, tool: SAY, with: {value: quick}}, {id: late, sleep: 1d}]}
  - {id: second, race: [{id: bad, tool: FAIL}, {id: good, tool: SLOW, with: {value: good, takes_s: 1}}]}
  - {id: told, race: [{id: heard, do: [{id: m, listen: note}, {id: long, sleep: 1d}]}, {id: timer, sleep: 5s}]}
  - {id: kept, listen: note}
  - {id: test, test: {expr: "vars.seen == 7"}}
  - {id: failing, fail: {message: "it is @{input.n}", type: Odd}, on_error: [{id: instead, tool: ECHO, with: {why: "@error.message", kind: "@error.type"}}]}
  - {id: ignored, tool: FAIL, on_error: go_on}
  - {id: bounded, do: [{id: hangs, sleep: 1d}], timeout: 5s, on_error: go_on}
  - {id: go, listen: go}
  - {id: done, when: {ref: "@test"}, return: {side: "@side", first: "@first", told: "@told", kept: "@kept", instead: "@instead", go: "@go"}}
  - {id: over, tool: FAIL}
"""

EACH = """
order: listed
input: {of: {type: array}}
steps:
  - {id: all, each: {in: "@input.of"}, tool: SAY, with: {value: ["@item", "@index"]}}
  - id: named
    each: {in: "@all", as: pair, index: place, concurrency: 1, max: 9}
    do: [{id: x, tool: SAY, with: {value: "@pair[0]"}}, {id: y, tool: ADD, with: {a: "@x", b: "@place"}}]
  - {id: batched, each: {in: "@input.of", batch: 2}, tool: SAY, with: {value: "@loop.batch.items"}}
  - {id: nulls, each: {in: [a, b], on_error: "null"}, tool: FAIL}
  - {id: skips, each: {in: [a, b], on_error: skip}, tool: FAIL}
  - {id: enough, each: {in: [30, 1, 20, 2], enough: 2}, tool: SLOW, with: {value: "@item", takes_s: "@item"}}
  - {id: heard, each: {in: [x, y]}, listen: "@{item}"}
output: {named: "@named", batched: "@batched", nulls: "@nulls", skips: "@skips", enough: "@enough", heard: "@heard"}
"""

REPEAT = """
order: listed
vars: {n: 0}
steps:
  - {id: until, tool: ADD, with: {a: "@state", b: 1}, repeat: {until: {ref: "@self", gte: 3}, max: 5, state: 0}}
  - {id: while, tool: SAY, with: {value: "@index"}, repeat: {while: {ref: "@self", lt: 2}, max: 9, delay: 2s}, undo: SAY}
  - {id: most, tool: SAY, with: {value: 1}, repeat: {until: {ref: "@self", eq: 2}, max: 2, on_max: go_on}}
  - id: endless
    do: [{id: heard, listen: go}, {id: n, set: {n: "@heard"}}, {id: s, tool: SAY, with: {value: "@vars.n"}, undo: SAY}]
    repeat: {until: {ref: "@self", eq: over}, endless: true, keep: 2, undo: {keep: 3}}
output: {until: "@until", while: "@while", most: "@most", endless: "@endless"}
"""

PORTS = """
order: ports
input: {n: {type: integer}}
vars: {x: 0, seen: []}
steps:
  - {id: start, tool: SAY, with: {value: 1}, next: [left, right]}
  - {id: left, tool: SLOW, next: both}
  - {id: right, test: {ref: "@input.n", gt: 1}, next: {"true": both, "false": {to: both}}}
  - {id: both, join: all, tool: SAY, next: add}
  - {id: add, tool: ADD, with: {a: "@vars.x", b: 1}, next: keep}
  - {id: keep, set: {x: "@add"}, next: [{when: {ref: "@vars.x", lt: "@input.n"}, to: add, max: 9, on_max: broke}, {to: head}]}
  - {id: broke, fail: "too often"}
  - {id: head, loop: {items: [1, 2, 3], batch: 2, as: batch, index: place, max: 5}, next: {loop: body, done: ported}}
  - {id: body, set: {seen: ["@vars.seen", "@loop.batch.items", "@place?"]}, next: {success: {to: head, max: 9}}}
  - {id: ported, test: {ref: "@vars.x", eq: 0}, next: {"true": broke, "false": {to: ported, max: 1, on_max: choice}}}
  - {id: choice, llm: "Which?", with: b, next: {choose: [a, b], default: c}}
  - {id: a, tool: SAY, next: end}
  - {id: b, tool: FAIL, next: {success: end, error: mended}}
  - {id: c, tool: SAY, next: end}
  - {id: mended, tool: SAY, with: {value: "@error.message"}, next: end}
  - {id: end, join: any, listen: {names: go, timeout: 1d}, next: {success: told, timeout: []}}
  - {id: poll, join: any, tool: SAY, next: [{when: {ref: "@self", neq: null}, to: poll, endless: true}, {to: []}]}
  - {id: told, tool: SAY, with: {value: ["@vars.seen", "@mended", "@end"]}, next: [poll, gate, each]}
  - {id: gate, join: any, test: {ref: "@told", eq: null}, next: {"true": {to: gate, endless: true}, "false": []}}
  - {id: each, join: each, tool: SAY, with: {value: "@told"}}
output: "@each"
"""

PEOPLE = """
order: listed
steps:
  - id: ok
    approve:
      title: "Go on with @{vars.what}?"
      details: {of: "@vars.what"}
      form: {price: {type: integer}}
      assignees: [ada, bob]
      quorum: 2
      remind: 1h
      escalate: 2h
      escalate_to: [eve]
      timeout: 1d
      on_timeout: reject
  - {id: no, approve: {title: Really?}, on_rejected: go_on}
  - {id: mended, approve: {title: Again?}, on_rejected: fail, on_error: [{id: instead, tool: SAY, with: {value: "@error.type"}}]}
  - {id: late, approve: {title: Late?, timeout: 5s, on_timeout: approve}}
  - {id: over, approve: {title: Over?}, timeout: 5s, on_error: go_on}
  - {id: rejected, approve: {title: The end?}}
vars: {what: it}
output: "@ok"
"""

INBOX = """
order: listed
input: {invoice: {type: string}}
steps:
  - id: paid
    approve:
      title: Pay?
      assignees: [ada, "group:board"]
      priority: urgent
      due: 2d
      resource: {type: invoice, id: "@input.invoice"}
      route_hint: billing
      deep_link: "/invoices/@{input.invoice}"
output: "@paid.approved"
"""

MESSAGES = """
order: listed
steps:
  - {id: one, listen: first}
  - {id: some, listen: {names: [left, right], limit: 3}}
  - {id: gathered, listen: {names: vote, limit: 9, gather: 10s}}
  - {id: none, listen: {names: never, timeout: 5s}, on_error: go_on}
  - {id: short, sleep: "@{vars.seconds}s"}
  - {id: until, sleep: {until: "@vars.at"}}
  - {id: tells, emit: {name: own, body: {n: 1}, to: {workflow: "@execution.workflow", id: "@execution.id"}}}
  - {id: own, listen: own}
  - {id: shows, emit: {name: progress, body: "@own"}}
  - {id: more, emit: {name: more}, with: [stream]}
  - {id: go, listen: {names: go}, timeout: 2d}
vars: {seconds: 2, at: "2001-09-09T03:00:00Z"}
output: {one: "@one", some: "@some", gathered: "@gathered", own: "@own", go: "@go"}
"""

TRIGGERED = """
order: listed
input: {n: {type: integer, default: 0}}
triggers:
  - {name: nightly, schedule: {cron: "0 2 * * 1-5", timezone: Europe/London, catch_up: 1, overlap: queue, queued_max: 3, jitter: 30s, break_after: 5}}
  - {name: hourly, schedule: {every: 1h, starts: "2001-09-09T03:00:00Z", ends: "2101-09-09T03:00:00Z"}}
  - {name: once, schedule: {once: ["2101-09-09T03:00:00Z"]}}
  - name: push
    webhook:
      path: push
      method: PUT
      headers: {x-kind: push}
      verify: {scheme: generic, secret: ["@secrets.NEW", "@secrets.OLD"], header: x-sum, prefix: v1=, encoding: base64, timestamp_header: x-at, tolerance: 1m}
      map: {n: $.n}
      respond: result
      respond_within: 5s
      delivery_header: x-delivery
      active_max: 3
      queued_max: 9
  - {name: paid, event: {on: order.paid, of: order, where: [{ref: "@self.value.n", gt: 0}], map: {n: $.value.n}}, enabled: false}
  - {name: hand, manual: {}, with: {n: 3}}
steps:
  - {id: told, emit: {event: counted, body: {n: "@input.n"}}}
  - {id: go, listen: go}
output: "@trigger.id?"
"""

UNDO = """
order: listed
on_failure: {call: ECHO}
steps:
  - {id: room, tool: RESERVE, with: {room: "7"}}
  - {id: paid, tool: SAY, with: {value: 1}, undo: {tool: SLOW, with: {value: "@self"}, timeout: 1h, retry: {max: 2}, on_error: park}}
  - {id: kind, tool: SAY, with: {value: 2}, undo: {tool: http, with: {url: "http://example.org/@{self}", method: DELETE}}}
  - {id: each, each: {in: [a, b], concurrency: 1}, tool: SAY, with: {value: "@item"}, undo: SAY}
  - {id: block, do: [{id: x, tool: RESERVE}, {id: y, tool: SAY, undo: SAY}], undo: {tool: ECHO, with: {of: "@self"}}}
  - {id: child, call: child, with: {n: 1}, undo: true}
  - {id: bad, tool: SAY, undo: {tool: FAIL, on_error: continue}}
  - {id: not, tool: RESERVE, undo: false}
  - {id: doubtful, tool: FAIL, undo: {tool: SAY, with: {value: "@self"}, in_doubt: true}, on_error: go_on}
  - {id: go, listen: go}
  - {id: f, fail: "no"}
"""

CHILD = """
name: child
version: 2.1.0
input: {n: {type: integer}}
steps:
  - {id: s, tool: SAY, with: {value: "@input.n"}, undo: SAY}
"""

FAILING_CHILD = """
name: failing
steps:
  - {id: s, tool: FAIL, with: {message: "the child fails"}}
"""

WAITING_CHILD = """
name: waiting
steps:
  - {id: s, listen: go}
"""

CHILDREN = """
order: listed
steps:
  - {id: one, call: "child@^2", with: {n: 1}, timeout: 1h, grace: 2s}
  - {id: each, each: {in: [2, 3]}, call: child, with: {n: "@item"}}
  - {id: detached, call: child, with: {n: 4}, wait: false}
  - {id: anew, call: failing, retry: {max: 2, wait: 1s}, on_error: [{id: caught, tool: SAY, with: {value: "@error.message"}}]}
  - {id: lost, race: [{id: c, call: waiting}, {id: timer, sleep: 5s}]}
  - {id: go, listen: go}
output: {one: "@one", each: "@each", caught: "@caught", lost: "@lost"}
"""

GRACE = """
limits: {grace: 10s}
steps:
  - {id: before, tool: RESERVE}
  - {id: ends, tool: SLOW, with: {value: in time, takes_s: 8}, undo: SAY}
  - {id: stays, tool: SLOW, with: {takes_s: 1000}, grace: 5s, undo: {tool: ECHO, with: {of: "@self"}, in_doubt: true}}
  - {id: heard, listen: never}
"""

REOPENED = """
order: listed
steps:
  - {id: a, tool: SAY}
  - {id: b, tool: BRITTLE, retry: {max: 2, wait: 1s}}
  - {id: go, listen: go}
"""

UNDONE_LATER = """
order: listed
steps:
  - {id: a, tool: RESERVE}
  - {id: b, tool: SAY, with: {value: 1}, undo: {tool: SLOW, with: {value: "@self"}}}
"""

UNDO_PARKED = """
order: listed
steps:
  - {id: a, tool: SAY, undo: SAY}
  - {id: b, tool: SAY, with: {value: 1}, undo: {tool: BRITTLE, with: {value: "@self"}}}
  - {id: go, listen: go}
  - {id: f, fail: "no"}
"""

PATCHED = """
order: listed
steps:
  - {id: a, tool: SAY, with: {value: 1}}
  - {id: go, listen: go}
  - {id: b, tool: SAY, with: {value: before}}
"""

AGENT = """
order: listed
steps:
  - {id: seen, tool: SAY, with: {value: data}}
  - id: agent
    agent:
      prompt: Look at @{seen}
      model: small
      system: Be brief
      instructions: Be polite
      tools: [ECHO]
      approve: [SAY]
      schema: {type: object}
      context: true
      budget: {calls: 5, tool_calls: 6, tokens: 100000, cost_usd: 1, wall: 1h}
      temperature: 0.2
      max_tokens: 99
      repairs: 2
    with: {n: 1}
    retry: {max: 1}
    timeout: 2h
  - {id: said, agent_message: {content: Hello, message: Hi, goal: None, interrupt: false, await_response: true, await_timeout_ms: 60000}}
  - {id: short, agent_message: {content: Bye, await_response: true}, timeout: 5s, on_error: go_on}
  - {id: go, listen: go}
output: {agent: "@agent", said: "@said"}
"""

STAND_INS = """
order: listed
steps:
  - {id: agent, agent: "What is it?", with: {n: 1}, undo: SAY}
  - {id: said, agent_message: {message: Hello}}
  - {id: go, listen: go}
"""

REF_DAG: dict[str, Any] = {
    "title": "Referring steps",
    "input_schema": {"type": "object", "properties": {"user": {"type": "string"}, "limit": {"type": "integer", "default": 5}}, "required": ["user"]},
    "steps": [
        {"name": "get-user", "action": {"toolName": "ECHO"}, "input": {"id": "@input.user", "rows": [["a", "b"], ["c", "d"]]}},
        {"name": "other", "action": {"toolName": "ECHO"}, "input": {"first": "@get-user.rows[0][1]", "gone": "@get-user.nobody"}},
        {"name": "skipped", "action": {"toolName": "ECHO"}, "input": {"x": 1}, "when": {"ref": "@other.gone"}},
        {
            "name": "send",
            "action": {"toolName": "SLOW"},
            "forEach": {"ref": "@get-user.rows", "concurrency": 1},
            "input": {"value": ["@item", "@index", "@skipped"]},
            "config": {"maxAttempts": 1, "backoffMs": 10, "timeoutMs": 60000},
        },
        {"name": "shaky", "action": {"toolName": "FAIL"}, "config": {"maxAttempts": 1, "onError": "continue"}},
        {"name": "code", "action": {"code": "export default (input) => input"}, "input": {"of": "@shaky"}},
        {"name": "look", "action": {"toolName": "ECHO"}, "input": {"sent": "@send", "code": "@code"}, "bail": {"ref": "@input.limit", "eq": 5}},
        {"name": "work", "action": {"toolName": "ECHO"}, "input": {"after": "@look"}},
    ],
}

NESTED_STEPS: dict[str, Any] = {
    "name": "Nested steps",
    "variables": {"stage": "beta", "files": ["a", "b"]},
    "constraints": {"allowSelfModification": True},
    "steps": [
        {
            "id": "gate",
            "type": "conditional",
            "condition": {"variable": "stage", "equals": "beta"},
            "then": [{"type": "tool", "tool": "ECHO", "arguments": {"of": "then"}, "outputVariable": "chosen"}],
            "else": [{"type": "tool", "tool": "FAIL"}],
        },
        {
            "type": "parallel",
            "steps": [{"type": "tool", "tool": "ECHO", "arguments": {"x": "{{chosen.of}}"}, "outputVariable": "one"}, {"type": "bash", "command": "true"}],
        },
        {"type": "loop", "items": "files", "as": "file", "steps": [{"type": "tool", "tool": "ECHO", "arguments": {"file": "{{file}}", "n": "{{index}}"}}]},
        {"type": "loop", "count": 2, "steps": [{"type": "tool", "tool": "ECHO", "arguments": {"turn": "{{index}}"}, "outputVariable": "turned"}]},
        {"type": "subworkflow", "slug": "child", "version": "^2", "inputs": {"n": 1}, "outputVariable": "result"},
        {"type": "agent", "goal": "Look at {{one.x}}"},
        {"type": "agent_message", "content": "Done", "interrupt": False, "await_response": True, "await_timeout_ms": 1000},
        {"id": "ask", "type": "approval", "prompt": "Go on?"},
        {"type": "tool", "tool": "ECHO", "arguments": {"all": ["{{one.x}}", "{{turned.turn}}"]}, "outputVariable": "end"},
    ],
}

PORT_GRAPH: dict[str, Any] = {
    "organizationId": "org_1",
    "workflowConfig": {
        "name": "Support triage",
        "config": {"timeout": 60_000, "retryPolicy": {"maxRetries": 2, "backoffMs": 3000}, "variables": {"pageSize": 50}, "secrets": {"TOKEN": "sealed"}},
    },
    "stepsConfig": [
        {"stepSlug": "begin", "name": "Begin", "stepType": "trigger", "order": 1, "config": {"type": "manual"}, "nextSteps": {"success": "ask"}},
        {
            "stepSlug": "ask",
            "name": "Ask",
            "stepType": "llm",
            "order": 2,
            "config": {"userPrompt": "Is {{ input.text }} urgent?"},
            "nextSteps": {"success": "decide"},
        },
        {
            "stepSlug": "decide",
            "name": "Decide",
            "stepType": "condition",
            "order": 3,
            "config": {"expression": "pageSize == 50"},
            "nextSteps": {"true": "sign", "false": "each_message"},
        },
        {
            "stepSlug": "sign",
            "name": "Sign",
            "stepType": "approval",
            "order": 4,
            "config": {"approverMemberId": "m1", "timeout": 86_400_000, "onTimeout": "reject"},
            "nextSteps": {"approved": "each_message", "rejected": None},
        },
        {
            "stepSlug": "each_message",
            "name": "Each message",
            "stepType": "loop",
            "order": 5,
            "config": {"items": "{{ input.messages }}", "batchSize": 2},
            "nextSteps": {"loop": "reply", "done": "count"},
        },
        {
            "stepSlug": "reply",
            "name": "Reply",
            "stepType": "action",
            "order": 6,
            "config": {"type": "ECHO", "parameters": {"messages": "{{ loop.batch.items }}"}},
            "nextSteps": {"success": "each_message"},
        },
        {
            "stepSlug": "count",
            "name": "Count",
            "stepType": "action",
            "order": 7,
            "config": {"type": "set_variables", "parameters": {"variables": [{"name": "pageSize", "value": "{{ pageSize + 1 }}"}]}},
            "nextSteps": {},
        },
    ],
    "input": {"text": "help", "messages": [1, 2, 3]},
    "triggeredBy": "user",
}

TOKEN_GRAPH: dict[str, Any] = {
    "name": "token graph",
    "nodes": [
        {"id": "fetch", "type": "task", "config": {"type": "ECHO"}, "dependents": ["score", "call"]},
        {
            "id": "score",
            "type": "task",
            "dependencies": ["fetch"],
            "branch": {
                "enabled": True,
                "type": "conditional",
                "rules": [{"condition": {"type": "cel", "expression": "output.score >= 80"}, "next_nodes": ["merge"]}],
                "default": ["merge"],
            },
        },
        {
            "id": "call",
            "type": "task",
            "dependencies": ["fetch"],
            "retry": {"max_attempts": 3, "backoff_ms": 1000},
            "loop": {
                "enabled": True,
                "condition": {"type": "cel", "expression": "output.status != 200"},
                "max_iterations": 2,
                "loop_back_to": "call",
                "break_path": ["merge"],
                "timeout_path": ["merge"],
            },
        },
        {"id": "merge", "type": "task", "dependencies": ["score", "call"], "wait_for_all": True, "dependents": ["sign"]},
        {"id": "sign", "type": "human", "dependencies": ["merge"], "dependents": [], "human_config": {"timeout_hours": 48, "approvers": ["ada"]}},
    ],
}

VOTES = (Voted("ok", form={"price": 3}), Voted("ok", by="bob"), Voted("no", False), Voted("mended", False), Waited(20), Voted("rejected", False))
HEARD = (Sent("right", 1), Sent("left", 2), Sent("first"), Sent("vote", 1), Sent("vote", 2), Waited(30_000), Sent())

CASES: dict[str, DefinitionEntry] = {
    "definition_work": DefinitionEntry(WORK, (GivenOutcome("task", "printed"),), {"n": 7}),
    "definition_sql": DefinitionEntry(STATEMENTS, (Sent(),), {"n": 7}),
    "definition_apis": DefinitionEntry(APIS, (Sent(),), {"n": 7}),
    "definition_models": DefinitionEntry(MODELS, (Sent(),), {"n": 7}),
    "definition_head": DefinitionEntry(HEAD, input={"name": "ann"}),
    "definition_blocks": DefinitionEntry(BLOCKS, (Sent("note", "n"), Waited(30), Sent("go", 1)), {"n": 7}),
    "definition_each": DefinitionEntry(EACH, (Waited(30), Sent("x", 1), Sent("y", 2)), {"of": [5, 6, 7]}),
    "definition_repeat": DefinitionEntry(REPEAT, (Waited(10), *(Sent("go", n) for n in (*range(5), "over")))),
    "definition_ports": DefinitionEntry(PORTS, (Waited(20), Sent("go", 1)), {"n": 3}),
    "definition_people": DefinitionEntry(PEOPLE, VOTES),
    "definition_inbox": DefinitionEntry(INBOX, (Waited(30), Voted("paid")), {"invoice": "17"}),
    "definition_triggered": DefinitionEntry(TRIGGERED, (Sent(),), {"n": 1}),
    "definition_messages": DefinitionEntry(MESSAGES, HEARD),
    "definition_children": DefinitionEntry(CHILDREN, (Waited(30), Sent()), calls=(CHILD, FAILING_CHILD, WAITING_CHILD)),
    "definition_undo": DefinitionEntry(UNDO, (Sent(), Waited(0)), calls=(CHILD,)),
    "definition_undone": DefinitionEntry(UNDONE_LATER, (UNDONE, Waited(0))),
    "definition_grace": DefinitionEntry(GRACE, (CANCELLED, Waited(0))),
    "definition_reopened": DefinitionEntry(REOPENED, (Waited(10), Repaired(), RETRIED, PAUSED, RESUMED, Sent())),
    "definition_undo_parked": DefinitionEntry(UNDO_PARKED, (Sent(), Waited(10), Repaired(), RETRIED)),
    "definition_patched": DefinitionEntry(PATCHED, (Patched(PATCHED.replace("before", "behind")), Sent())),
    "definition_stand_ins": DefinitionEntry(STAND_INS),
    "definition_agent": DefinitionEntry(AGENT, (Waited(30), Sent()), answers=([("ECHO", {"n": 1})], {"is": "fine"})),
    "dialect_ref_dag": DefinitionEntry(REF_DAG, (Waited(0), Waited(0)), {"user": "ann"}),
    "dialect_nested_steps": DefinitionEntry(NESTED_STEPS, (Waited(30), Voted("ask")), calls=(CHILD,)),
    "dialect_port_graph": DefinitionEntry(PORT_GRAPH, (Voted("sign", by="m1"),)),
    "dialect_token_graph": DefinitionEntry(TOKEN_GRAPH, (Waited(30), Voted("sign"))),
}


def document(case: DefinitionEntry) -> Any:
    """The document of a case, with the first lines that go without saying."""
    return written(case.document, "it") if isinstance(case.document, str) else case.document


def written(text: str, name: str) -> str:
    """The text of a definition."""
    body = dedent(text).strip()
    return f"perdure: 1\n{body}\n" if body.startswith("name: ") else f"perdure: 1\nname: {name}\n{body}\n"


def definition(case: DefinitionEntry) -> Definition:
    """The definition of a case, with those that it calls."""
    kinds = KINDS if case.answers is None else {name: fn for name, fn in KINDS.items() if name not in AGENTS}
    calls = [Definition.of(written(one, "it"), tools=TOOLS, kinds=KINDS) for one in case.calls]
    return Definition.of(document(case), tools=TOOLS, kinds=kinds, calls=calls, deployment=deployment(case), secrets=SECRETS, name="it")


def deployment(case: DefinitionEntry) -> Deployment:
    """What the agents of a case reach: a model that answers by a script."""
    return deployed(small=ModelScript(*(case.answers or ())), default=ModelScript("I am well", "Bye"))


def family(name: str) -> list[Workflow]:
    """The workflows that an engine needs for a case."""
    return [*_family(definition(CASES[name]))]


def pinned(name: str, workflow: str, blobs: Mapping[str, bytes]) -> list[Workflow]:
    """The workflow of an execution of a case, as it is replayed: a definition has its tools and kinds, and of the documents only those in `blobs`."""
    case = CASES[name]
    if workflow.endswith(".agent"):
        return [definition_agents(workflow, ToolContext(tool_steps(TOOLS), {}, {}), deployment(case))]
    kinds = {kind: Kind(kind, fn) for kind, fn in KINDS.items() if case.answers is None or kind not in AGENTS}
    kinds[PYTHON_CONDITION] = Kind(PYTHON_CONDITION, stand_in)
    return [GraphWorkflow(workflow, tools=tool_steps(TOOLS), kinds=kinds, agent=f"{workflow}.agent", family=_releases(blobs))]


def _releases(blobs: Mapping[str, bytes]) -> dict[str, list[DefinitionRelease]]:
    """The definitions among the blobs of a file."""
    found: dict[str, list[DefinitionRelease]] = {}
    for sha256, raw in blobs.items():
        if raw.startswith(b"{") and "perdure" in (document := msgspec.json.decode(raw)):
            found.setdefault(document["name"], []).append(DefinitionRelease(document["name"], document.get("version", model.DEFAULT_VERSION), sha256, raw))
    return found


async def play(name: str, stage: "Played") -> None:
    """Start the execution of a case, and let happen what happens to it; record it before the last of that."""
    case = CASES[name]
    broken["yes"] = any(isinstance(event, Repaired) for event in case.script)
    key = await stage.start(definition(case), **case.input)
    for number, event in enumerate(case.script, 1):
        await asyncio.sleep(SETTLES_S)
        if number == len(case.script):
            await stage.halfway()
        await _let_happen(stage, key, event)
    broken["yes"] = False


async def _let_happen(stage: "Played", key: Key, event: Event) -> None:
    match event:
        case Sent(name, body):
            await stage.send(key, name, body)
        case Voted(path, approve, by, form):
            await stage.vote(key, path, Vote(by, approve, "", form))
        case GivenOutcome(path, value):
            await stage.post(key, messages.PresetMessage(parse_path(path), Success(values.encode(value, "what is given"))))
        case Waited(seconds):
            await asyncio.sleep(seconds)
        case Patched(text):
            await stage.post(key, messages.PatchMessage(definition_bytes(definition_reader.read_definition(written(text, "it")).canonical)))
        case Repaired():
            stage.repair()
        case InternalMessage(message):
            await stage.post(key, message)
