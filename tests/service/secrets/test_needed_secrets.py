"""Needs: each secret that a definition reads is named, with who reads it; text that is no template has none."""

from perdure import Definition
from perdure.service.definition_views import secrets_read_by

DOCUMENT = """
perdure: 1
name: all
triggers:
  - webhook: {path: x, verify: {scheme: github, secret: "@secrets.HOOK"}}
steps:
  - {id: a, tool: send, with: {token: "Bearer @{secrets.A} @{secrets.B}", deep: [{x: "@secrets.A"}]}, undo: {tool: back, with: {t: "@secrets.UNDO"}}}
  - {id: b, http: {url: "https://x", headers: {k: "@secrets.HEADER"}}}
  - {id: c, ts: "export default () => '@secrets.NOT'", with: {t: "@secrets.A"}}
  - {id: d, bash: "true", env: {E: "@secrets.ENV"}}
  - {id: h, task: {type: work, config: {c: "@secrets.CONFIG"}}, each: {in: [1]}}
  - {id: e, do: [{id: f, tool: send, with: {t: "@secrets.INNER"}}]}
  - {id: g, set: {x: "@@secrets.NOT"}}
"""


def test_all_that_a_definition_reads_is_named_with_the_steps_that_do() -> None:
    definition = Definition.of(DOCUMENT)
    assert secrets_read_by(definition.ir, definition.read.canonical.get("triggers")) == {
        "A": ["a", "c"],
        "B": ["a"],
        "UNDO": ["a"],
        "HEADER": ["b"],
        "ENV": ["d"],
        "CONFIG": ["h"],
        "INNER": ["f"],
        "HOOK": ["triggers"],
    }


def test_in_braces_they_are_named_as_well() -> None:
    action = {"type": "say", "parameters": {"v": "{{ input.c ? secrets.YES : secrets['NO'] }}", "w": "@secrets.NOT"}}
    steps = [{"stepSlug": "a", "name": "a", "stepType": "action", "order": 1, "config": action, "nextSteps": {}}]
    definition = Definition.of({"workflowConfig": {"name": "it"}, "stepsConfig": steps})
    assert secrets_read_by(definition.ir) == {"NO": ["a"], "YES": ["a"]}
