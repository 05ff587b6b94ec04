"""The examples of seed 000, as they stand there, and one for each thing that it says in words."""

from __future__ import annotations

from tests.seeds.example import Example

EXAMPLES = [
    Example("000_when_truthy", {"when": {"ref": "@validate.eligible"}}, True, "runs if eligible is true, not empty and not 0"),
    Example("000_when_eq", {"when": {"ref": "@validate.eligible", "eq": True}}, True, "runs if eligible is true"),
    Example("000_when_gt", {"when": {"ref": "@fetch.count", "gt": 0}}, True, "runs if count is more than 0"),
    Example("000_when_neq", {"when": {"ref": "@classify.priority", "neq": "low"}}, True, "runs if priority is not low"),
    Example(
        "000_early_exit",
        {
            "steps": [
                {
                    "name": "validate",
                    "action": {
                        "code": "export default function(input) { const ok = !!input.email; return { ok, notOk: !ok, error: ok ? null : 'Email required' } }"
                    },
                    "input": {"email": "@input.email"},
                },
                {"name": "exit_if_invalid", "when": {"ref": "@validate.notOk", "eq": True}, "action": {"return": True}, "input": {"error": "@validate.error"}},
                {"name": "create_user", "when": {"ref": "@validate.ok", "eq": True}, "action": {"toolName": "CREATE_USER"}, "input": {"email": "@input.email"}},
            ]
        },
        False,
        "no email: completed with {error: Email required}, CREATE_USER is not called; with one: CREATE_USER is called, the exit is skipped",
    ),
    Example(
        "000_references",
        {
            "title": "References",
            "input_schema": {"type": "object", "properties": {"user": {"type": "string"}, "limit": {"type": "integer", "default": 5}}, "required": ["user"]},
            "steps": [
                {"name": "get-user", "action": {"toolName": "ECHO"}, "input": {"id": "@input.user", "rows": [["a", "b"], ["c", "d"]]}},
                {"name": "inputData", "action": {"toolName": "ECHO"}, "input": {"first": "@get-user.rows[0][1]", "second": "@get-user.rows.1.0"}},
                {
                    "name": "greet",
                    "action": {"toolName": "ECHO"},
                    "input": {"text": "@get-user.id, mail ops@example.com", "key": "@ctx.execution_id", "all": "@inputData", "gone": "@get-user.nobody"},
                },
            ],
        },
        False,
        "inputData: {first: b, second: c}; greet: text with the id in it and the address as it stands, gone is null",
    ),
    Example(
        "000_for_each",
        {
            "title": "For each",
            "steps": [
                {
                    "name": "send",
                    "action": {"toolName": "SEND"},
                    "forEach": {"ref": "@input.contacts", "concurrency": 2},
                    "input": {"to": "@item.email", "nth": "@index"},
                    "config": {"maxAttempts": 1, "backoffMs": 10, "timeoutMs": 5000},
                },
                {"name": "count", "action": {"toolName": "ECHO"}, "input": {"sent": "@send"}},
            ],
        },
        False,
        "two at a time; an item that fails is null at its place; no contacts: [] and count runs",
    ),
    Example(
        "000_bail",
        {
            "title": "Bail",
            "steps": [
                {"name": "look", "action": {"toolName": "ECHO"}, "input": {"done": "@input.done"}, "bail": {"ref": "@look.done", "eq": True}},
                {"name": "work", "action": {"toolName": "ECHO"}, "input": {"after": "@look"}},
            ],
        },
        False,
        "done: completed with {done: true}, and work is not called; else work is called",
    ),
    Example(
        "000_skips_cascade",
        {
            "title": "Skips",
            "steps": [
                {"name": "a", "action": {"toolName": "ECHO"}, "input": {"x": 1}, "when": {"ref": "@input.go"}},
                {"name": "b", "action": {"toolName": "ECHO"}, "input": {"a": "@a"}},
                {"name": "c", "action": {"toolName": "ECHO"}, "input": {"x": 1}, "when": {"ref": "@a.x"}},
            ],
        },
        False,
        "without go: a and c are skipped, b sees null",
    ),
    Example(
        "000_goes_on",
        {
            "title": "Goes on",
            "steps": [
                {"name": "shaky", "action": {"toolName": "FAILS"}, "config": {"maxAttempts": 1, "onError": "continue"}},
                {"name": "next", "action": {"toolName": "ECHO"}, "input": {"of": "@shaky"}},
            ],
        },
        False,
        "shaky fails and is null; next runs",
    ),
]
