"""Moves tokens over a plan. The walk decides when a node fires, when a cycle begins another turn or is left, and when a passage has ended; it does not know
what nodes do.

A *frame* is one passage through a region: the root once, a body once each time that its block runs, a cycle once each turn. In a frame, each edge is decided
once: it brings a live token, or none. A join therefore knows which tokens can still arrive, redelivered outcomes change nothing, and no valid graph can hang.
A token that leaves a cycle is delivered at once; an edge out of a cycle that no token took is decided when the cycle is left. The cost is linear in
nodes and edges.

A token that a failed node sends over its port ``error`` carries that error, and so do the tokens of the nodes after it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perdure.core.paths import Path, path_text
from perdure.definitions.graph.plan import GraphPlan, PlannedNode


class UnsafeLoopError(Exception):  # an expected outcome: it becomes the failure of the execution
    """A second live token came over an edge in one frame."""


class TooManyTransitions(Exception):  # an expected outcome, as above
    """More tokens have moved than the definition allows."""


class Arrivals:
    """The tokens at a node in one frame: the edges that brought live ones, how many edges are undecided, and how many tokens were consumed.

    For a node with `join: each`, `fired` counts its firings, and `running` those firings, or stays in its cycle, that have not ended.
    `errors` are the errors that tokens carried, by edge.
    """

    __slots__ = ("errors", "fired", "is_dead", "live", "running", "undecided")

    def __init__(self, undecided: int) -> None:
        self.live: list[int] = []
        self.errors: dict[int, object] = {}
        self.undecided = undecided
        self.fired = self.running = 0
        self.is_dead = False


class CycleRun:
    """A stay in a cycle: it begins when the head of the cycle fires in the frame `outer`, and ends with the first turn that leaves no token for another one.

    `uses` counts how often each node has led back, by rule or port; `tick` is the position of a `loop` in its items. `error` is the error that the tokens of
    the next turn carry, and `scope` has the names that expressions in its turns can read.
    """

    __slots__ = ("again", "error", "outer", "path", "region", "scope", "tick", "turn", "uses")

    def __init__(self, region: int, outer: "Frame", path: Path, error: object = None) -> None:
        self.region, self.outer, self.path, self.error = region, outer, path, error
        self.turn = 0
        self.again: list[int] = []
        self.uses: dict[tuple[str, str], int] = {}
        self.tick: object = None
        self.scope: object = None


class Frame:
    """One passage through a region. `running` counts its open firings and stays; `block` owns the body, `stay` is the stay that a turn belongs to."""

    __slots__ = ("arrivals", "block", "is_over", "outer", "path", "region", "running", "scope", "stay")

    def __init__(self, region: int, outer: "Frame | None", path: Path, scope: object) -> None:
        self.region, self.outer, self.path, self.scope = region, outer, path, scope
        self.stay: CycleRun | None = None
        self.block: object = None
        self.arrivals: dict[int, Arrivals] = {}
        self.running = 0
        self.is_over = False

    def within(self, region: int) -> "Frame":
        """Returns the frame of the enclosing region that this frame lies in."""
        frame = self
        while frame.region != region:
            if frame.outer is None:
                raise LookupError(f"region {region} is not around this frame")
            frame = frame.outer
        return frame

    @property
    def is_wanted(self) -> bool:
        """Whether neither this frame nor one around it was dropped."""
        frame: Frame | None = self
        while frame is not None:
            if frame.is_over:
                return False
            frame = frame.outer
        return True


class Firing:
    """A node that has fired and has not settled: its frame, its number in the frame, and the error that its token carried (None: no error)."""

    __slots__ = ("error", "frame", "number", "path", "place", "settled")

    def __init__(self, frame: Frame, place: PlannedNode, number: int, error: object = None) -> None:
        self.frame, self.place, self.number, self.error = frame, place, number, error
        self.path: Path = (*frame.path, (place.node.id, number))
        self.settled = False


class PassageBegan(NamedTuple):
    """A passage through the root or a body began. `block` is the id of the node that owns the body number `body`, in the passage at `around`."""

    block: str
    body: int
    around: Path | None
    path: Path
    scope: object
    what: object


class NodeSettled(NamedTuple):
    """The node at `path` settled by `port`, and led to the nodes `to`. `chosen` is the rule or the choice that decided (empty: neither).

    `error` is the error that it passed on by its port ``error``.
    """

    path: Path
    port: str
    chosen: str
    to: tuple[str, ...]
    error: object = None


class PassageDropped(NamedTuple):
    """The passage at a path was dropped."""

    path: Path


WalkEvent = PassageBegan | NodeSettled | PassageDropped


class TokenWalk:
    """The tokens of one execution. The program begins the firings in `ready`, in order, and handles the frames in `drained`, whose passages have ended.

    `happened` is the history, from which the walk can be repeated over another plan. `passed_by` are the nodes that will not fire in a frame, and the heads of
    cycles that were left there, until the program has handled them. With `trace`, which counts tokens by key, `traced` has a line for each token, and
    `left` the paths of the nodes that are no longer open, until a view removes them.
    """

    __slots__ = ("_undecided", "drained", "happened", "hops", "hops_max", "is_whole", "left", "open", "passed_by", "plan", "ready", "trace", "traced")

    def __init__(self, plan: GraphPlan) -> None:
        self.plan = plan
        self.ready: deque[Firing] = deque()
        self.drained: deque[Frame] = deque()
        self.passed_by: list[tuple[Frame, PlannedNode]] = []
        self.open: dict[Path, Firing] = {}
        self.hops = 0
        self.hops_max = plan.ir.limits.max_hops
        self.happened: list[WalkEvent] = []
        self.is_whole = True
        self.trace: dict[str, int] | None = None
        self.traced: list[str] = []
        self.left: list[Path] = []
        self._undecided: deque[tuple[Frame, int]] = deque()

    def begin(self, region: int, outer: Frame | None, path: Path, scope: object, block: object = None) -> Frame:
        """Begins a passage through the root or a body, and fires its entries."""
        frame = Frame(region, outer, path, scope)
        frame.block = block
        self.happened.append(self._begun(frame))
        for number in self.plan.regions[region].entries:
            self._activate(frame, self.plan.places[number], 1)
        if frame.running == 0:
            self._end_frame(frame)
        return frame

    def _begun(self, frame: Frame) -> PassageBegan:
        head = self.plan.regions[frame.region].head
        if head < 0:
            return PassageBegan("", 0, None, frame.path, frame.scope, frame.block)
        node = self.plan.places[head].node
        body = node.bodies.index(frame.region) if frame.region in node.bodies else -1
        return PassageBegan(node.id, body, None if frame.outer is None else frame.outer.path, frame.path, frame.scope, frame.block)

    def by_port(self, firing: Firing, port: str) -> tuple[int, ...]:
        """Returns the edges that a node takes when it settles by `port`: those of ``max`` if the port has led back as often as it may."""
        edges = self.plan.by_port(firing.place, port)
        most = max((self.plan.edges[number].max for number in edges), default=0)
        return self.plan.by_port(firing.place, "max") if most and self.uses(firing, port, edges) >= most else edges

    def uses(self, firing: Firing, way: str, edges: Sequence[int]) -> int:
        """Returns how often a node has led back in this stay by a rule or port that has these edges; 0 if it does not lead back."""
        stay = self._stay(firing, edges)
        return 0 if stay is None else stay.uses.get((firing.place.node.id, way), 0)

    def _stay(self, firing: Firing, edges: Sequence[int]) -> CycleRun | None:
        back = next((self.plan.edges[number] for number in edges if self.plan.edges[number].back), None)
        return None if back is None else firing.frame.within(back.region).stay

    def settle(self, firing: Firing, taken: Sequence[int], port: str = "success", chosen: str = "", error: object = None) -> None:
        """Settles a node: the edges `taken` bring live tokens, and its other edges are decided as far as possible.

        The node settled by `port`, or by what its rules or its own choice have `chosen`. The tokens carry `error`, or else the error of its own token.

        Raises:
            UnsafeLoopError: a second live token came over an edge.
            TooManyTransitions: the definition allows no more transitions.
        """
        firing.settled = True
        self._close(firing.path)
        to = tuple([self.plan.places[self.plan.edges[number].target].node.id for number in taken])
        self.happened.append(NodeSettled(firing.path, port, chosen, to, error))
        frame, place = firing.frame, firing.place
        if (stay := self._stay(firing, taken)) is not None:
            way = place.node.id, chosen or port
            stay.uses[way] = stay.uses.get(way, 0) + 1
        for number in taken:
            self._carry(frame, number, firing.error if error is None else error)
        if place.home == frame.region and place.cycle < 0:
            self._finish(frame, place)
        else:  # the node is the head of a cycle, and settles in a turn of that cycle
            self._decide_edges(frame, place)
        self._process_arrivals()
        self._end_firing(frame)

    def drop(self, frame: Frame, is_drained: bool = False) -> None:
        """Drops a passage with everything in it. If it `is_drained`, nothing in it is open."""
        self.happened.append(PassageDropped(frame.path))
        frame.is_over = True
        if is_drained:
            return
        for path in [path for path, firing in self.open.items() if not firing.frame.is_wanted]:
            self._close(path)

    def _close(self, path: Path) -> None:
        del self.open[path]
        if self.trace is not None:
            self.left.append(path)

    def forget(self) -> None:
        """Clears the history: an endless loop has forgotten turns, so the walk could not be repeated from it."""
        self.happened.clear()
        self.is_whole = False

    def skip_to(self, firing: Firing, stay: CycleRun, turn: int) -> None:
        """Continues with a later turn of a cycle; `firing` is the first of that turn."""
        del self.open[firing.path]
        stay.turn = turn
        firing.frame.path = (*stay.path, turn)
        firing.path = (*firing.frame.path, (firing.place.node.id, firing.number))
        self.open[firing.path] = firing

    def frames(self) -> Iterator[Frame]:
        """Yields the frames that have open firings, each once."""
        seen: set[int] = set()
        for firing in self.open.values():
            frame: Frame | None = firing.frame
            while frame is not None and id(frame) not in seen:
                seen.add(id(frame))
                yield frame
                frame = frame.outer

    def waiting(self) -> Iterator[tuple[Frame, int]]:
        """Yields the live tokens on edges, each as its frame and edge."""
        for frame in self.frames():
            for arrivals in frame.arrivals.values():
                if not arrivals.is_dead:
                    yield from ((frame, number) for number in arrivals.live[arrivals.fired :])
            if frame.stay is not None:
                yield from ((frame, number) for number in frame.stay.again)

    # Tokens.

    def _carry(self, frame: Frame, number: int, error: object) -> None:
        """Brings a live token over an edge."""
        self.hops += 1
        if self.hops > self.hops_max:
            raise TooManyTransitions
        edge, plan = self.plan.edges[number], self.plan
        home = frame.within(edge.region)
        self._note("emit", home, number)
        if edge.back:
            if home.stay is not None:
                home.stay.again.append(number)
                home.stay.error = home.stay.error if error is None else error
            return
        arrivals = self._arrivals(home, edge.target)
        if number in arrivals.live and plan.places[edge.target].node.join != "each":
            raise UnsafeLoopError(number)
        arrivals.live.append(number)
        if error is not None:
            arrivals.errors[number] = error
        if plan.left[number] >= 0 and plan.places[edge.target].node.join != "each":
            arrivals.undecided -= 1  # its token leaves the cycle at once, and no second one may follow over this edge
        self._undecided.append((home, edge.target))

    def _note(self, what: str, home: Frame, number: int) -> None:
        """Counts a token for the trace; a second one with the same key gets a number."""
        if self.trace is None:
            return
        edge, places, where = self.plan.edges[number], self.plan.places, path_text(home.path)
        key = f"{what}:{places[edge.source].node.id}->{places[edge.target].node.id}" + (f"@{where}" if where else "")
        self.trace[key] = self.trace.get(key, 0) + 1
        self.traced.append(key if self.trace[key] == 1 else f"{key}#{self.trace[key]}")

    def _consume(self, home: Frame, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._note("consume", home, number)

    def _arrivals(self, frame: Frame, target: int) -> Arrivals:
        arrivals = frame.arrivals.get(target)
        if arrivals is None:
            arrivals = frame.arrivals[target] = Arrivals(len(self.plan.places[target].incoming))
        return arrivals

    def _finish(self, frame: Frame, place: PlannedNode) -> None:
        """Ends a firing of a node, or a stay in the cycle whose head it is, in the frame that holds its edges."""
        if place.node.join == "each":
            arrivals = self._arrivals(frame, place.number)
            arrivals.running -= 1
            if arrivals.undecided or arrivals.running:
                return
        self._decide_edges(frame, place)

    def _decide_edges(self, frame: Frame, place: PlannedNode) -> None:
        """Decides the edges that leave a node, or the cycle whose head it is: no more tokens come over them."""
        plan = self.plan
        leaves_cycle = place.cycle >= 0 and frame.region == place.home
        numbers = plan.exits.get(place.cycle, ()) if leaves_cycle else place.out
        for number in numbers:
            edge = plan.edges[number]
            if edge.back or (not leaves_cycle and plan.left[number] >= 0):
                continue
            arrivals = self._arrivals(frame, edge.target)
            if leaves_cycle and number in arrivals.live and plan.places[edge.target].node.join != "each":
                continue  # it was decided when its token left the cycle
            arrivals.undecided -= 1
            self._undecided.append((frame, edge.target))

    def _process_arrivals(self) -> None:
        """Fires the nodes whose join is complete, and marks those as dead that no token can reach."""
        while self._undecided:
            frame, number = self._undecided.popleft()
            arrivals, place = frame.arrivals[number], self.plan.places[number]
            if arrivals.is_dead:
                continue
            self._join(frame, place, arrivals)

    def _join(self, frame: Frame, place: PlannedNode, arrivals: Arrivals) -> None:
        join, live = place.node.join, len(arrivals.live)
        if join == "each":
            while arrivals.fired < live:
                edges = arrivals.live[arrivals.fired : arrivals.fired + 1]
                self._consume(frame, edges)
                arrivals.fired += 1
                arrivals.running += 1
                self._activate(frame, place, arrivals.fired, _last_error(arrivals, edges))
            if arrivals.undecided == 0 and arrivals.running == 0:
                self._mark_dead(frame, place, arrivals)
            return
        if arrivals.fired:
            self._consume(frame, arrivals.live[arrivals.fired :])
            arrivals.fired = live  # a token that arrives after the join has fired is absorbed
            return
        wanted = 1 if join == "any" else join if isinstance(join, int) else 0
        if live and (live >= wanted if wanted else arrivals.undecided == 0):
            self._consume(frame, arrivals.live)
            arrivals.fired = live
            self._activate(frame, place, 1, _last_error(arrivals, arrivals.live))
        elif arrivals.undecided == 0:
            self._mark_dead(frame, place, arrivals)

    def _mark_dead(self, frame: Frame, place: PlannedNode, arrivals: Arrivals) -> None:
        """Marks a node as dead, because no token can reach it any more: it does not fire again, and its edges are decided."""
        arrivals.is_dead = True
        if not arrivals.fired:
            self.passed_by.append((frame, place))
        self._decide_edges(frame, place)

    # Passages.

    def _activate(self, frame: Frame, place: PlannedNode, number: int, error: object = None) -> None:
        """Fires a node; for the head of a cycle, begins a stay in the cycle."""
        frame.running += 1
        if place.cycle < 0 or frame.region != place.home:
            self._fire(frame, place, number, error)
            return
        self._begin_turn(CycleRun(place.cycle, frame, (*frame.path, (place.node.id, number)), error))

    def _fire(self, frame: Frame, place: PlannedNode, number: int, error: object) -> None:
        firing = Firing(frame, place, number, error)
        self.open[firing.path] = firing
        self.ready.append(firing)

    def _begin_turn(self, stay: CycleRun) -> None:
        frame = Frame(stay.region, stay.outer, (*stay.path, stay.turn), stay.outer.scope)
        frame.stay, frame.block, frame.running = stay, stay.outer.block, 1
        error, stay.error = stay.error, None
        self._fire(frame, self.plan.places[self.plan.regions[stay.region].head], 1, error)

    def _end_firing(self, frame: Frame) -> None:
        frame.running -= 1
        if frame.running == 0:
            self._end_frame(frame)

    def _end_frame(self, frame: Frame) -> None:
        """Handles the end of a frame: a cycle begins its next turn, or is left; any other frame is reported as drained."""
        while True:
            stay = frame.stay
            if stay is None:
                self.drained.append(frame)
                return
            if stay.again:
                self._consume(frame, stay.again)
                stay.again = []
                stay.turn += 1
                self._begin_turn(stay)
                return
            outer, head = stay.outer, self.plan.places[self.plan.regions[stay.region].head]
            self.passed_by.append((outer, head))
            self._finish(outer, head)
            self._process_arrivals()
            outer.running -= 1
            if outer.running:
                return
            frame = outer


def _last_error(arrivals: Arrivals, edges: Sequence[int]) -> object:
    """Returns the error of the last of these tokens that carried one."""
    return next((arrivals.errors[number] for number in reversed(edges) if number in arrivals.errors), None)
