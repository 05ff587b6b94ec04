"""Kinds of work that are no `Kind`, as the walk does them itself out of operations of its own; described as kinds are."""

from __future__ import annotations

from perdure.programs.graph.kind import Limit
from perdure.steps.description import KindShown, shown_verb

_TOOL = """
perdure: 1
name: order
input: {cents: {type: integer, default: 500}}
steps:
  - id: pay
    tool: charge
    with: {cents: "@input.cents"}
    retry: {max: 3, wait: 1s}
    undo: {tool: refund, with: {charge: "@self.id"}}
output: "@pay.id"
"""
_CALL = """
perdure: 1
name: parent
order: listed
steps:
  - {id: rounded, call: "py:math.floor", with: 2.5}
  - {id: receipt, call: receipt@^1, with: {pieces: "@rounded"}}
output: "@receipt"
"""
_TASK = """
perdure: 1
name: thumbnails
input: {images: {type: array, default: [a.png, b.png]}}
steps:
  - id: shrink
    each: {in: "@input.images", as: image, concurrency: 10}
    task: {type: shrink, heartbeat: 30s}
    with: {image: "@image"}
    timeout: 10m
output: "@shrink"
"""
_AGENT = """
perdure: 1
name: help
order: ports
input: {ticket: {type: string, default: I was charged twice}}
steps:
  - id: triage
    agent:
      model: small
      prompt: "Look into this, and say who is to deal with it: @{input.ticket}"
      tools: [find_payments]
      budget: {calls: 5, wall: 10m}
    next: {choose: [billing, support], default: support}
  - {id: billing, set: {team: billing}}
  - {id: support, set: {team: support}}
"""
_AGENT_MESSAGE = """
perdure: 1
name: remind
order: listed
steps:
  - {id: tell, agent_message: My name is Ada.}
  - {id: ask, agent_message: {content: What is my name?, await_response: true}}
output: "@ask"
"""


def others() -> dict[str, KindShown]:
    """What they are, by their verbs."""
    found = (
        shown_verb("tool", "Tool", "wrench", "only where the tool (`@step(idempotent=True)`) or the step declares it; else it ends as `interrupted`", _TOOL),
        shown_verb("call", "Function or workflow", "call_split", "a child that exists is joined, never started twice; of a function, as of a tool", _CALL),
        shown_verb(
            "task",
            "Work in a queue",
            "inbox",
            "yes, unless the step says `idempotent: false`",
            _TASK,
            limits=(Limit("lease of a worker", "60 s", "1 h", "the work goes to another worker"),),
        ),
        shown_verb(
            "agent",
            "Agent",
            "robot",
            "every model call and every tool call is remembered by itself; a tool that may not be repeated is told to the model as interrupted",
            _AGENT,
            limits=(
                Limit("calls of the model", "25", None, "it fails as exceeded_calls"),
                Limit("calls of tools", "10 for each call of the model", None, "it fails as exceeded_calls, before it uses those that are too many"),
                Limit("tokens, cost, time", "any", None, "it fails, and says which"),
            ),
            extra="agents",
        ),
        shown_verb(
            "agent_message",
            "Message to the agent",
            "chat",
            "it is sent once",
            _AGENT_MESSAGE,
            limits=(Limit("time for an answer", "5 min", None, "the step fails as Timeout"),),
            extra="agents",
        ),
    )
    return {one.name: one for one in found}
