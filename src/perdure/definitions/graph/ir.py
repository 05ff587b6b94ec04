"""The IR: what a definition compiles to. Plain data, the same for every order and dialect; the walk goes over it and knows nothing else.

A graph is nodes, edges that leave a node by a port, and regions. A region is the root, the body of a block, or the body of a cycle; each node stands
in exactly one, and regions nest. Expressions stand in it as they were written, so it can be kept, compared and shown.
"""

from typing import Any, Literal

import msgspec

AFTER = "+"
"""The port of an edge that is taken however its source succeeded: not when it was skipped or rejected, failed, ran out of time or of turns."""

ALWAYS = "*"
"""The port of an edge that is taken even when its source was skipped, as dependants then see null; not when it failed or was rejected."""

NOT_AFTER = frozenset(("skipped", "error", "rejected", "timeout", "max"))
NOT_ALWAYS = frozenset(("error", "rejected"))

Join = Literal["all", "any", "each"] | int


class EachOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Once for each of a list. `items` is a value template; the values come in the order of the items, `concurrency` (0: all) at a time.

    With `batch`, each is a list of so many. `enough` (0: all) successes are waited for, then the rest is dropped.
    """

    items: Any
    name: str = "item"
    index: str = "index"
    concurrency: int = 0
    batch: int = 0
    max: int = 0
    on_error: Literal["fail", "skip", "null"] = "fail"
    enough: int = 0


class RepeatOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Turn by turn: as long as `again` holds after a turn (with `until`, as long as it does not), at most `max` turns (0: without end).

    `on_max`: what being at the end of the turns comes to: "fail", or "go_on" by port ``max``. `state` is a value template for the first turn; each turn
    sees the one before as ``@last_turn`` and its own result as ``@self``. What was done more than `undo_keep` turns before is not undone (0: all is).
    """

    again: Any
    until: bool = False
    max: int = 0
    delay: Any = None
    on_max: Literal["fail", "go_on"] = "fail"
    keep: int = 0
    state: Any = None
    undo_keep: int = 0


class RetryOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often and when the work of a node is tried again; what is None is as the work itself says. Seconds.

    `only` and `fatal` hold the codes of Perdure's errors and the class names of others.
    """

    max: int | None = None
    wait_s: float | None = None
    factor: float | None = None
    max_wait_s: float | None = None
    only: tuple[str, ...] = ()
    fatal: tuple[str, ...] = ()


class UndoOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """What undoes a node: a tool, given `input`, a value template that sees the node's result as ``@self``; `in_doubt`, null.

    `on_error` says what its failure comes to (empty: as the dialect has it).
    """

    tool: str
    input: Any = None
    timeout_s: float | None = None
    retry: RetryOptions | None = None
    in_doubt: bool = False
    on_error: Literal["", "park", "continue"] = ""


class RoutingRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where to go on if `when` holds (None: always): by these edges. The first rule that holds is taken.

    A rule over back edges holds at most `max` times (0: without end) in one stay in the cycle; when that is used up, the walk goes on by the edges
    `on_max`, or, without any, looks at the next rule.
    """

    when: Any = None
    edges: tuple[int, ...] = ()
    max: int = 0
    on_max: tuple[int, ...] = ()


class GraphNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step. `kind` is its verb and `config` what stands behind that; `input` the template of its `with`.

    `bodies` are the regions of a block: one of `do`, `parallel` and `race`, two of `if` (then, else). `on_error` is "fail", "go_on", or the region of the
    steps that stand in for what failed. `on_rejected` says what a rejection comes to that no edge takes. With `rules` or `choose`, these say which edges are
    taken; otherwise the port does. `choose` is a closed list of ids, of which the node's result names one or several, and `default` the edges taken when it
    names none. By the ports `ended` it may be left, and nothing follows. Once one with `commit` has completed, nothing done before it is undone any more.
    `pointer` is where it stands in the document.
    """

    id: str
    kind: str
    region: int = 0
    config: Any = None
    input: Any = None
    name: str = ""
    join: Join = "all"
    when: Any = None
    each: EachOptions | None = None
    repeat: RepeatOptions | None = None
    retry: RetryOptions | None = None
    timeout_s: float | None = None
    grace_s: float | None = None
    undo: UndoOptions | None = None
    on_error: Literal["fail", "go_on"] | int = "fail"
    on_rejected: Literal["cancel", "fail", "go_on"] = "cancel"
    idempotent: bool | None = None
    schema: Any = None
    bodies: tuple[int, ...] = ()
    rules: tuple[RoutingRule, ...] = ()
    choose: tuple[str, ...] = ()
    default: tuple[int, ...] = ()
    env: Any = None
    transform: Any = None
    ended: tuple[str, ...] = ()
    commit: bool = False
    pointer: str = ""


class GraphEdge(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """From the node `source` to the node `target`, both numbers in `IR.nodes`, by `port`: a port's name, `AFTER`, `ALWAYS`, or empty if only a rule takes it.

    `region` is where its token lives: the innermost that holds both ends. `back`: it leads back to the head of a cycle that holds its source; `region` is then
    that cycle's. `max` is how often its port is gone along in one stay in that cycle (0: without end, or as a rule says); from then on, by port ``max``.
    """

    source: int
    target: int
    port: str = AFTER
    region: int = 0
    back: bool = False
    max: int = 0


class GraphRegion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The root, the body of the block `head`, or the cycle that begins at the node `head`. `nodes` are those that stand directly in it.

    `entries` are the nodes with which it begins: those that no edge leads to, of a cycle its head. `max` bounds the turns of a cycle (0: without end).
    """

    kind: Literal["root", "body", "cycle"] = "root"
    parent: int = -1
    head: int = -1
    nodes: tuple[int, ...] = ()
    entries: tuple[int, ...] = ()
    max: int = 0


class GraphLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What bounds one execution. Steps are openings of nodes, hops are tokens that an edge has carried; 0 bytes: no bound."""

    max_steps: int = 100_000
    max_hops: int = 1_000_000
    max_fanout: int = 10_000
    deadline_s: float | None = None
    max_bytes: int = 0
    grace_s: float | None = None


class OnFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a failure comes to: whether what was done is undone, and a workflow or tool that is called with the error (empty: none)."""

    undo: bool = True
    call: str = ""


class IR(msgspec.Struct, frozen=True, omit_defaults=True):
    """A compiled definition. `order` and `dialect` say how missing values and rejections are taken; `hash` is the definition's.

    `input` maps each name to its JSON Schema; `required` are those that have no default. `output` is a value template, or None: then the result is
    that of the only node from which no edge leads on, or a mapping of the results of several by their ids.
    """

    name: str
    hash: str
    version: str = "1.0.0"
    order: Literal["refs", "listed", "ports"] = "refs"
    dialect: Literal["", "ref_dag", "nested_steps", "port_graph", "token_graph"] = ""
    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()
    regions: tuple[GraphRegion, ...] = (GraphRegion(),)
    input: dict[str, Any] = {}
    required: tuple[str, ...] = ()
    variables: Any = None
    output: Any = None
    has_output: bool = False
    limits: GraphLimits = GraphLimits()
    retry: RetryOptions | None = None
    on_failure: OnFailure = OnFailure()
    archive: bool = False


IR_VERSION = 1
_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(IR)


def encode_ir(ir: IR) -> bytes:
    """The IR as JSON, the same bytes for equal ones."""
    return _encoder.encode(ir)


def decode_ir(raw: bytes) -> IR:
    """Read what `encode` wrote."""
    return _decoder.decode(raw)
