"""All commands, in the order of the help."""

from perdure.cli.acting import cancel, evict, pause, resume, retry, send, terminate, undo
from perdure.cli.approving import approvals, approve, decide, reject
from perdure.cli.checking import check
from perdure.cli.dead_letters import dead_letter_queue, dead_letters, discard, requeue
from perdure.cli.defining import compile_, diff, fmt, schema, validate
from perdure.cli.describing import kinds, tools
from perdure.cli.faking import fake_llm
from perdure.cli.graphing import graph, patch
from perdure.cli.linting import lint
from perdure.cli.looking import engines, events, logs, ls, query, result, show, stream
from perdure.cli.pruning import archives, prune
from perdure.cli.queues import limit, queues
from perdure.cli.repeating import fork, preset, rerun
from perdure.cli.root import root
from perdure.cli.running import run, start, worker
from perdure.cli.secrets import secret
from perdure.cli.transfers import export, import_, replay
from perdure.cli.upkeep import db, doctor
from perdure.cli.verifying import verify

__all__ = ["root"]

root.section("Run", (run, start, worker))
root.section("Look", (ls, show, graph, events, archives, logs, result, query, stream, queues, engines))
root.section("Act", (send, cancel, terminate, undo, pause, resume, patch))
root.section("Mend", (retry, evict, rerun, fork, preset, dead_letters, requeue, discard, dead_letter_queue))
root.section("Decide", (approvals, approve, reject, decide))
root.section("Keep up", (limit, doctor, verify, export, import_, prune, secret, db))
root.section("Write", (validate, fmt, lint, diff, compile_, schema, kinds, tools, check, replay, fake_llm))
