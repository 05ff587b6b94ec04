"""The same programs, faster: hours become seconds, so that a simulated world need not wait for days to pass.

What must come of a program stays the same. Waits for what does come get more time than any fault takes, and so do steps that
answer; waits for what never comes get less.
"""

from msgspec.structs import replace

from perdure.testing import nodes as n
from perdure.testing.nodes import Node, Program
from perdure.testing.oracle import CENTURY_S

SHORT_S = 8.0
LONG_S = 400.0
MESSAGES_FASTER = 120.0


def hasten(program: Program, prefix: str = "") -> Program:
    """The program with short waits; `prefix` goes in front of the names of its children and of what workers do, so that several programs share a world."""
    sent = {node.message for node in n.walk(program.root) if isinstance(node, n.Send)}
    come = sent | {message.name.partition("[")[0] for message in program.messages}
    messages = tuple(message._replace(at_s=message.at_s / MESSAGES_FASTER) for message in program.messages)
    return replace(program, root=_hastened(program.root, come, prefix), messages=messages)


def _hastened(node: Node, come: set[str], prefix: str) -> Node:
    def again(inner: Node) -> Node:
        return _hastened(inner, come, prefix)

    match node:
        case n.Step():
            return _step(node, prefix)
        case n.Attempt(step):
            return n.Attempt(_step(step, prefix))
        case n.Sleep(duration_s):
            return n.Sleep(duration_s if duration_s >= CENTURY_S else min(duration_s, SHORT_S))
        case n.Listen(message, timeout_s) | n.Gather(message, timeout_s=timeout_s) if timeout_s is not None:
            return replace(node, timeout_s=LONG_S if message in come else min(timeout_s, SHORT_S))
        case n.Call(name, body):
            return replace(node, name=prefix + name, body=again(body))
        case n.Approve(timeout_s=timeout_s):
            return replace(node, timeout_s=min(timeout_s, SHORT_S))
        case n.Guard(body) | n.Map(body=body) | n.Loop(body=body):
            return replace(node, body=again(body))
        case n.Removed(verb):
            return replace(node, verb=again(verb))
        case n.Changed(ways=ways):
            return replace(node, ways=tuple(again(way) for way in ways))
        case n.Beside(steps, body):
            return n.Beside(tuple(_step(one, prefix) for one in steps), again(body))
        case n.Sequence(nodes) | n.Together(nodes):
            return replace(node, nodes=tuple(again(one) for one in nodes))
        case n.Join(branches) | n.Race(branches):
            return replace(node, branches={name: again(body) for name, body in branches.items()})
    return node


def _step(step: n.Step, prefix: str) -> n.Step:
    step = replace(step, name=prefix + step.name) if step.queue else step
    match step.behaviour:
        case n.Answers(duration_s=duration_s):
            return replace(step, behaviour=replace(step.behaviour, duration_s=min(duration_s, SHORT_S)), timeout_s=step.timeout_s and LONG_S)
        case n.Hangs():
            return step
    return replace(step, timeout_s=step.timeout_s and LONG_S)
