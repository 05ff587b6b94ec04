"""Seed 001 shows no definition; these say in its shape what it says in words."""

from __future__ import annotations

from tests.seeds.example import Example

EXAMPLES = [
    Example(
        "001_step_types",
        {
            "name": "Step types",
            "steps": [
                {"type": "bash", "command": "echo hello", "outputVariable": "said"},
                {"type": "tool", "tool": "bash", "arguments": {"command": "pwd"}},
                {"type": "tool", "tool": "ECHO", "arguments": {"text": "{{said.stdout}}"}},
                {"type": "agent", "goal": "Look at {{said.stdout}}"},
                {"type": "agent_message", "content": "Done", "interrupt": False, "await_response": True, "await_timeout_ms": 1000},
                {"type": "approval", "prompt": "Go on?"},
            ],
        },
        False,
        "one after the other, with the ids step[0] to step[5]; a command has 120 s",
    ),
    Example(
        "001_conditional",
        {
            "name": "Conditional",
            "variables": {"stage": "beta"},
            "steps": [
                {
                    "id": "gate",
                    "type": "conditional",
                    "condition": {"variable": "stage", "equals": "beta"},
                    "then": [{"type": "tool", "tool": "ECHO", "arguments": {"of": "then"}, "outputVariable": "chosen"}],
                    "else": [{"type": "tool", "tool": "ECHO", "arguments": {"of": "else"}, "outputVariable": "chosen"}],
                },
                {"type": "conditional", "condition": True, "then": [{"type": "tool", "tool": "ECHO", "arguments": {"chosen": "{{chosen.of}}"}}]},
                {"type": "conditional", "condition": False, "then": [{"type": "tool", "tool": "FAILS"}]},
            ],
        },
        False,
        "completed with {chosen: {of: then}}, or else if the stage is another; the third does nothing",
    ),
    Example(
        "001_parallel",
        {
            "name": "Parallel",
            "steps": [
                {
                    "type": "parallel",
                    "steps": [
                        {"type": "tool", "tool": "ECHO", "arguments": {"x": 1}, "outputVariable": "one"},
                        {"type": "tool", "tool": "ECHO", "arguments": {"x": 2}, "outputVariable": "two"},
                    ],
                },
                {"type": "tool", "tool": "ECHO", "arguments": {"both": ["{{one.x}}", "{{two.x}}"]}},
            ],
        },
        False,
        "both at once; then {both: [1, 2]}",
    ),
    Example(
        "001_loops",
        {
            "name": "Loops",
            "variables": {"files": ["a", "b"], "times": 2},
            "steps": [
                {
                    "type": "loop",
                    "items": "files",
                    "as": "file",
                    "steps": [{"type": "tool", "tool": "ECHO", "arguments": {"file": "{{file}}", "n": "{{index}}"}}],
                },
                {"type": "loop", "count": 3, "steps": [{"type": "tool", "tool": "ECHO", "arguments": {"turn": "{{index}}"}, "outputVariable": "turned"}]},
                {
                    "type": "loop",
                    "count": "times",
                    "steps": [{"type": "tool", "tool": "ECHO", "arguments": {"turn": "{{index}}"}, "outputVariable": "counted"}],
                },
                {
                    "type": "loop",
                    "while": {"variable": "counted.turn", "lessThan": 1},
                    "max": 4,
                    "steps": [{"type": "tool", "tool": "ECHO", "arguments": {"turn": "{{index}}"}, "outputVariable": "counted"}],
                },
                {"type": "loop", "items": [], "steps": [{"type": "tool", "tool": "FAILS"}]},
            ],
        },
        False,
        "completed with {turned: {turn: 2}, counted: {turn: 1}}: the while has nothing to do; the last does nothing",
    ),
    Example(
        "001_subworkflow",
        {
            "name": "Subworkflow",
            "slug": "parent",
            "runtime": {"policy": {"maxSteps": 10}},
            "constraints": {"allowSelfModification": True},
            "steps": [{"type": "subworkflow", "slug": "child", "version": "^1", "inputs": {"x": 1}, "outputVariable": "result"}],
        },
        False,
        "child in version 1 is started with {x: 1} and waited for; completed with {result}",
    ),
    Example(
        "001_row",
        {
            "id": "6f1c",
            "userId": "u",
            "slug": "nightly",
            "name": "Nightly",
            "version": "1.0.3",
            "enabled": True,
            "tags": '["ops"]',
            "data": '{"steps": [{"type": "bash", "command": "true"}], "triggers": [{"type": "schedule", "cron": "30 2 * * 1-5", "timezone": "Europe/London"}]}',
        },
        False,
        "the row of the table is the definition that it holds",
    ),
    Example(
        "001_triggers",
        {
            "name": "Triggers",
            "variables": {"branch": "main"},
            "triggers": [
                {"name": "hook", "type": "webhook", "config": {"type": "webhook", "path": "release", "method": "POST"}, "variableMapping": {"branch": "$.ref"}},
                {"name": "night", "type": "schedule", "config": {"type": "schedule", "cron": "0 3 * * *"}},
                {"name": "hand", "type": "manual", "config": {"type": "manual"}},
            ],
            "steps": [{"type": "tool", "tool": "ECHO", "arguments": {"branch": "{{variables.branch}}"}}],
        },
        False,
        "three triggers",
    ),
    Example("001_single_step", {"type": "approval", "prompt": "Release?", "timeout": "24h", "defaultAction": "deny"}, True, "nobody for a day: cancelled"),
]
