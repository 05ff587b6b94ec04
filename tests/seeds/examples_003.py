"""Seed 003's own examples, as rows: what its document says of a name or of an output, and what comes of it.

`STEPS` are the outputs that the examples look at; `LOOP` is the tick of section 11, with its items filled in. A row has the section of the document in
which it stands, the expression, and its value.
"""

from typing import Any

ITEMS = [{"id": number} for number in range(100)]

LOOP: dict[str, Any] = {
    "items": ITEMS,
    "state": {"currentIndex": 10, "totalItems": 100, "iterations": 5, "batchesProcessed": 5, "isComplete": False},
    "batch": {"index": 5, "size": 2, "items": ITEMS[10:12], "startIndex": 10, "endIndex": 11},
}
ONE_BY_ONE: dict[str, Any] = {
    "items": ITEMS,
    "state": {"currentIndex": 3, "totalItems": 100, "iterations": 3, "batchesProcessed": 3, "isComplete": False},
    "batch": {"index": 3, "size": 1, "items": ITEMS[3:4], "startIndex": 3, "endIndex": 3},
    "item": ITEMS[3],
    "index": 3,
}

TRIGGER = {"type": "trigger", "data": "Trigger executed successfully", "meta": {"trigger": {"type": "webhook", "receivedAt": "2026-01-01T00:00:00Z"}}}
LLM = {"type": "llm", "data": {"answer": "42"}, "meta": {"llm": {"model": "gpt-4o", "temperature": 0.2}}}
SOME = {"type": "action", "data": {"y": 1}, "meta": {"someKey": "some", "info": "more"}}

STEPS = {"trigger": TRIGGER, "answer": LLM, "myStepSlug": SOME}

EXAMPLES_003: list[tuple[str, str, Any]] = [
    ("1 steps[stepSlug].output", "steps['myStepSlug'].output", SOME),
    ("1 each step entry includes name", "steps.myStepSlug.name", "myStepSlug"),
    ("1 each step entry includes stepType", "steps.answer.stepType", "llm"),
    ("1 lastOutput", "lastOutput", SOME),
    ("1 organizationId", "organizationId", "org_1"),
    ("1 input", "input.email", "ann@example.com"),
    ("1 secrets", "secrets.TOKEN", {"@secret": "TOKEN"}),
    ("1 additional variables", "pageSize", 50),
    ("5 lastOutput.data", "lastOutput.data.y", 1),
    ("5 lastOutput.meta.someKey", "lastOutput.meta.someKey", "some"),
    ("5 steps.myStepSlug.output.data", "steps.myStepSlug.output.data.y", 1),
    ("5 steps['myStepSlug'].output.meta.info", "steps['myStepSlug'].output.meta.info", "more"),
    ("5 loop.state.currentIndex", "loop.state.currentIndex", 10),
    ("5 loop.batch.items", "loop.batch.items", ITEMS[10:12]),
    ("4 present if batchSize === 1: item", "loop.item", None),
    ("4 present if batchSize === 1: index", "loop.index", None),
    ("4 items", "loop.items|length", 100),
    ("4 isComplete", "loop.state.isComplete", False),
    ("11 trigger", "steps.trigger.output.data", "Trigger executed successfully"),
    ("11 trigger meta", "steps.trigger.output.meta.trigger.type", "webhook"),
    ("11 llm", "steps.answer.output.data.answer", "42"),
    ("11 llm meta", "steps.answer.output.meta.llm", {"model": "gpt-4o", "temperature": 0.2}),
    ("11 loop batch", "loop.batch.endIndex", 11),
    ("12 null", "steps.nothing.output.data.deeper", None),
]

INLINE: dict[str, Any] = {
    "organizationId": "org_1",
    "workflowConfig": {
        "name": "Support triage",
        "description": "Asks, decides and replies",
        "config": {
            "timeout": 60_000,
            "retryPolicy": {"maxRetries": 2, "backoffMs": 3000},
            "variables": {"pageSize": 50, "greeting": "@all"},
            "secrets": {"TOKEN": "sealed"},
        },
    },
    "stepsConfig": [
        {"stepSlug": "begin", "name": "Begin", "stepType": "trigger", "order": 1, "config": {"type": "manual"}, "nextSteps": {"success": "ask"}},
        {
            "stepSlug": "ask",
            "name": "Ask",
            "stepType": "llm",
            "order": 2,
            "config": {"model": "gpt-4o", "temperature": 0.2, "userPrompt": "Is this urgent? {{ input.text }} ({{ greeting }})"},
            "nextSteps": {"success": "decide"},
        },
        {
            "stepSlug": "decide",
            "name": "Decide",
            "stepType": "condition",
            "order": 3,
            "config": {"expression": "steps.ask.output.data.answer == 'yes'"},
            "nextSteps": {"true": "sign", "false": "each_message"},
        },
        {
            "stepSlug": "sign",
            "name": "Sign",
            "stepType": "approval",
            "order": 4,
            "config": {"approverMemberId": "m1", "priority": "high", "timeout": 86_400_000, "onTimeout": "reject"},
            "nextSteps": {"approved": "each_message", "rejected": None},
        },
        {
            "stepSlug": "each_message",
            "name": "Each message",
            "stepType": "loop",
            "order": 5,
            "config": {"items": "{{ input.messages }}", "batchSize": 2},
            "nextSteps": {"loop": "reply", "done": "count"},
        },
        {
            "stepSlug": "reply",
            "name": "Reply",
            "stepType": "action",
            "order": 6,
            "config": {"type": "mail", "parameters": {"operation": "send", "messages": "{{ loop.batch.items }}", "token": "Bearer {{ secrets.TOKEN }}"}},
            "nextSteps": {"success": "each_message"},
        },
        {
            "stepSlug": "count",
            "name": "Count",
            "stepType": "action",
            "order": 7,
            "config": {"type": "set_variables", "parameters": {"variables": [{"name": "pageSize", "value": "{{ pageSize + 1 }}"}]}},
            "nextSteps": {},
        },
    ],
    "input": {"text": "help"},
    "triggeredBy": "user",
}
"""The argument of `executeWorkflowWithConfig` as section 12 has it, with a step of each type."""
