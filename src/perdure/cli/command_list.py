"""All commands, in the order of the help."""

from perdure.cli.agent_commands import costs, memories
from perdure.cli.approval_commands import approvals, approve, decide, delegate, reject
from perdure.cli.check_commands import check, verify
from perdure.cli.control_commands import cancel, complete, evict, fork, pause, preset, rerun, resume, retry, send, terminate, undo
from perdure.cli.database_commands import db, doctor
from perdure.cli.dead_letter_commands import dead_letter_queue, dead_letters, discard, requeue
from perdure.cli.definition_commands import compile_, diff, fmt, kinds, schema, tools, validate
from perdure.cli.demo_command import demo
from perdure.cli.dev_command import dev
from perdure.cli.fake_llm_command import fake_llm
from perdure.cli.graph_commands import graph, patch
from perdure.cli.init_command import init
from perdure.cli.key_commands import keys
from perdure.cli.lint_command import lint
from perdure.cli.mcp_command import mcp
from perdure.cli.notification_commands import notifications
from perdure.cli.people_commands import people
from perdure.cli.proposal_commands import proposal, propose
from perdure.cli.prune_commands import archives, prune
from perdure.cli.queue_commands import limit, queues
from perdure.cli.recording_commands import recording
from perdure.cli.root_command import root
from perdure.cli.run_commands import run, start, worker
from perdure.cli.secret_commands import secret
from perdure.cli.serve_command import serve
from perdure.cli.transfer_commands import export, import_, replay
from perdure.cli.trigger_commands import trigger
from perdure.cli.view_commands import engines, events, logs, ls, query, result, show, steps, stream
from perdure.cli.webhook_commands import webhook
from perdure.cli.workflow_commands import sync, workflow

__all__ = ["root"]

root.section("Begin", (demo, init))
root.section("Run", (run, start, dev, serve, worker, mcp))
root.section("Catalog", (workflow, sync, propose, proposal, recording, trigger, webhook))
root.section("Inspect", (ls, show, steps, graph, events, archives, logs, result, query, stream, queues, engines, costs, memories))
root.section("Control", (send, complete, cancel, terminate, undo, pause, resume, patch))
root.section("Repair", (retry, evict, rerun, fork, preset, dead_letters, requeue, discard, dead_letter_queue))
root.section("Decide", (approvals, approve, reject, delegate, decide, people, notifications))
root.section("Maintain", (limit, doctor, verify, export, import_, prune, secret, keys, db))
root.section("Develop", (validate, fmt, lint, diff, compile_, schema, kinds, tools, check, replay, fake_llm))
