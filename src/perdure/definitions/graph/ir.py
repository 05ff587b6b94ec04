"""The intermediate form (IR) that a definition compiles to: plain data, the same for every order and dialect, and the only input of the walk.

A graph has nodes, edges that leave a node by a port, and regions. A region is the root, the body of a block, or the body of a cycle; each node is directly
in exactly one, and regions nest. Expressions stay as they were written, so the IR can be stored, compared and shown.
"""

from typing import Any, Literal

import msgspec

AFTER = "+"
"""The port of an edge that is taken after any success of its source: not when it was skipped or rejected, failed, or exceeded its time or iterations."""

ALWAYS = "*"
"""The port of an edge that is taken even if its source was skipped (dependants then read null); not if it failed or was rejected."""

NOT_AFTER = frozenset(("skipped", "error", "rejected", "timeout", "max"))
NOT_ALWAYS = frozenset(("error", "rejected"))

Join = Literal["all", "any", "each"] | int


class EachOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of `each`. `items` is a value template; results are in the order of the items, `concurrency` (0: all) of which run at a time.

    With `batch`, an item is a list of so many. After `enough` successes (0: all), the other items are dropped.
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
    """The options of `repeat`: it continues while `again` holds after an iteration (with `until`, while it does not), for at most `max` (0: no bound).

    After the last iteration, `on_max` decides: "fail", or "go_on" by port ``max``. `state` is a value template for the first iteration; each iteration reads
    the previous one as ``@last_turn`` and its own result as ``@self``. Only the last `undo_keep` iterations are undone (0: all).
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
    """The retry policy of a node; None leaves a field to the step itself. Times are in seconds.

    `only` and `fatal` hold the codes of Perdure's errors and the class names of others.
    """

    max: int | None = None
    wait_s: float | None = None
    factor: float | None = None
    max_wait_s: float | None = None
    only: tuple[str, ...] = ()
    fatal: tuple[str, ...] = ()


class UndoOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The undo of a node: a tool with `input`, a value template that reads the node's result as ``@self``, which is null for an undo `in_doubt`.

    `on_error` decides what its failure does (empty: as in the dialect).
    """

    tool: str
    input: Any = None
    timeout_s: float | None = None
    retry: RetryOptions | None = None
    in_doubt: bool = False
    on_error: Literal["", "park", "continue"] = ""


class RoutingRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule that takes these edges if `when` holds (None: always). The first rule that holds is taken.

    A rule over back edges is taken at most `max` times (0: no bound) during one stay in the cycle; after that, the walk continues by the edges `on_max` or,
    without any, with the next rule.
    """

    when: Any = None
    edges: tuple[int, ...] = ()
    max: int = 0
    on_max: tuple[int, ...] = ()


class GraphNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step. `kind` is its verb and `config` the value of that; `input` is the template of its `with`.

    `bodies` are the regions of a block: one of `do`, `parallel` and `race`, two of `if` (then, else). `on_error` is "fail", "go_on", or the region of the
    steps that run in place of the failed one. `on_rejected` decides what a rejection does that no edge takes. `rules` or `choose` select the edges that are
    taken; otherwise the port does. `choose` is a closed list of ids, of which the node's result names one or several, and `default` the edges taken when it
    names none. After the ports `ended`, nothing follows. Once a node with `commit` has completed, no step before it is undone any more. `pointer` is its
    location in the document.
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
    """An edge between the nodes `source` and `target`, numbers in `IR.nodes`, by `port`: a port's name, `AFTER`, `ALWAYS`, or empty if only a rule takes it.

    `region` is that of its token: the innermost that contains both ends. An edge `back` leads to the head of a cycle that contains its source; `region` is
    that cycle then. It is taken at most `max` times during one stay in that cycle (0: no bound, or that of a rule); after that, the port is ``max``.
    """

    source: int
    target: int
    port: str = AFTER
    region: int = 0
    back: bool = False
    max: int = 0


class GraphRegion(msgspec.Struct, frozen=True, omit_defaults=True):
    """The root, the body of the block `head`, or the cycle that begins at the node `head`. `nodes` are those directly in it.

    `entries` are the nodes with which it begins: those without an incoming edge, or the head of a cycle. `max` bounds the iterations of a cycle (0: no bound).
    """

    kind: Literal["root", "body", "cycle"] = "root"
    parent: int = -1
    head: int = -1
    nodes: tuple[int, ...] = ()
    entries: tuple[int, ...] = ()
    max: int = 0


class GraphLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of one execution. Steps are firings of nodes, hops are transitions of tokens; 0 bytes: no bound."""

    max_steps: int = 100_000
    max_hops: int = 1_000_000
    max_fanout: int = 10_000
    deadline_s: float | None = None
    max_bytes: int = 0
    grace_s: float | None = None


class OnFailure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The consequences of a failure: whether completed steps are undone, and the workflow or tool that is called with the error (empty: none)."""

    undo: bool = True
    call: str = ""


class IR(msgspec.Struct, frozen=True, omit_defaults=True):
    """A compiled definition. `order` and `dialect` decide how missing values and rejections are handled; `hash` is that of the definition.

    `input` maps each name to its JSON Schema; `required` are those that have no default. `output` is a value template, or None: then the result is
    that of the only node without an outgoing edge, or a mapping of the results of several by their ids.
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
    """Decodes what `encode_ir` wrote."""
    return _decoder.decode(raw)
