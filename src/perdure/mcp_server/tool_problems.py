"""Says to a model what went wrong with a call, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.core.error_text import valid_utf8
from perdure.mcp_server.bounded_results import bounded

NEXT_STEPS: Mapping[str, str] = {
    "not_found": "Look for it with list_executions, find_execution, list_workflows, list_approvals or search_tools, and call again with what these show.",
    "ambiguous": "Call again with `workflow`, which is that of one of the candidates.",
    "bad_value": "Correct the argument that is named, and call again.",
    "bad_name": "Correct the name, and call again.",
    "bad_definition": "Correct the document where the findings say, and check it with validate_workflow.",
    "bad_expression": "Correct the expression, and check the document with validate_workflow.",
    "forbidden": "Call whoami: it says what this key may do. For anything else, ask the person who has given you the key.",
    "unauthenticated": "Ask the person who has set up this server for a key that is valid.",
    "already_exists": "Choose another name, or change the one that is there with update_workflow or propose_workflow_change.",
    "stale": "Read it again, and repeat the change on what you then see.",
    "stale_proposal": "Read the workflow again with get_workflow, make the change in its present document, and propose that with its hash.",
    "proposal_refused": "Read the definition with get_workflow. It has to allow proposals (allow: {self_edit: true}); list_proposals shows the open ones.",
    "definition_owned": "The definition belongs to a file. Ask the person who keeps the file to change it there.",
    "definition_disabled": "Ask a person to enable the definition, or start another one: list_workflows with enabled: true.",
    "has_ended": "get_execution says how it ended. rerun_execution or fork_execution starts another one.",
    "already_decided": "get_approval says how it was decided.",
    "decision_refused": "get_approval says who may decide. Ask one of these people; do not decide in their place.",
    "needs_attention": "list_steps shows what failed. Then retry_execution, preset_result or cancel_execution.",
    "patch_refused": "get_execution and list_steps show what has begun. Change only what is to come, or fork_execution on the new definition.",
    "too_many_active": "Wait for one of the executions that are in the way, or cancel it; then call again.",
    "too_many_requests": "Wait for some seconds, and call again.",
    "store_unavailable": "Wait for some seconds, and call again with the same arguments.",
    "request_under_way": "Wait for some seconds, and call again with the same arguments.",
    "idempotency_key_reused": "Call again with another requestId, or with the same input.",
    "input_differs": "Use another id, or the same input.",
    "removed": "Its log was removed after the time for which logs are kept. Nothing can be read or done any more.",
    "not_replayable": "get_execution_events shows what has happened. Ask a person to look at the execution.",
    "message_rejected": "Correct the body as the message says, and send it again.",
    "execution_failed": "list_steps shows what failed. retry_execution continues it from there, rerun_execution begins anew.",
    "execution_cancelled": "get_execution says why. rerun_execution starts another one.",
    "deadline_exceeded": "list_steps shows how far it came. Start another one with a longer deadline.",
    "timeout": "Read how it stands with get_execution or get_approval before you call it again.",
    "no_reply": "get_execution says whether it has ended, and for which messages it waits.",
    "too_large": "Keep the data elsewhere, and give where it is.",
    "trigger_owned": "Change the triggers of the definition that declares it: get_workflow, then update_workflow or propose_workflow_change.",
    "missing_secret": "Ask the person who runs the server to set the secret.",
}
"""What to do after an error of a code, if the error itself does not say it."""

OTHERWISE = "Correct what the message names, if it is in the arguments, and call again. Otherwise show the message to the person who has set up this server."
OF_SERVER = "Wait for some seconds, and call again. If that does not help, show the message to the person who runs the server."
"""What to do after any other error, and after one of the server itself."""


def next_step(code: str, status: int) -> str:
    """Returns what to do after an error of the API."""
    return NEXT_STEPS.get(code) or (OF_SERVER if status >= 500 else OTHERWISE)


def problem_for_model(problem: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Returns a problem of the API as a tool shows it. `names` are the names of arguments of the tool that are others in the operation."""
    detail, where = str(problem.get("detail", "")), str(problem.get("where", ""))
    for ours, theirs in names.items():
        detail, where = detail.replace(f"/{theirs}:", f"/{ours}:"), f"/{ours}" if where == f"/{theirs}" else where
    code = str(problem.get("code", "error"))
    found: dict[str, Any] = {"code": code, "detail": valid_utf8(detail), "next": str(problem.get("next") or next_step(code, int(problem.get("status", 0))))}
    more = {name: problem[name] for name in ("findings", "candidates", "inTheWay") if problem.get(name)}
    return {**found, **({"where": valid_utf8(where)} if where else {}), **bounded(more).value}


def problem_text(problem: Mapping[str, Any]) -> str:
    """Returns a problem as lines of text."""
    lines = [f"{problem['detail']} ({problem['code']})"]
    for finding in problem.get("findings", ()):
        line = f"line {finding['line']}: " if isinstance(finding, dict) and finding.get("line") else ""
        lines.append(f"- {line}{finding.get('message', finding) if isinstance(finding, dict) else finding}")
    lines += [f"- {one}" for one in problem.get("candidates", ())]
    lines.append(f"Next: {problem['next']}")
    return "\n".join(lines)
