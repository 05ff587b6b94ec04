"""The triggers that a document of seed 001 may name: webhooks, schedules, or by hand."""

from __future__ import annotations

import re
from typing import Any

from perdure.programs.format.dialects.reading import Fields, Notes, without_nothing


def triggers(top: Fields, notes: Notes) -> list[dict[str, Any]]:
    """The triggers of a document, as those of a definition."""
    given = top.listed("triggers") if not isinstance(top.any("triggers"), dict) else [top.any("triggers")]
    found = [_trigger(Fields(value, top.at("triggers", index), notes), notes) for index, value in enumerate(given)]
    return [trigger for trigger in found if trigger]


def _trigger(trigger: Fields, notes: Notes) -> dict[str, Any]:
    config = trigger.inside("config") or trigger
    type_name = trigger.text("type") or config.text("type")
    read: dict[str, Any] = without_nothing({"name": trigger.text("name")})
    if not trigger.flag("enabled", default=True):
        read["enabled"] = False
    trigger.ignore("id", "userId", "workflowId", "lastRunAt", "createdAt", "updatedAt", "type")
    config.ignore("type")
    match type_name:
        case "webhook":
            read["webhook"] = _webhook(config, trigger.mapping("variableMapping"), notes)
        case "schedule":
            if config.text("target", default="workflow") != "workflow":
                notes.warning("unsupported", config.at("target"), "this schedule asks the user's agent and starts no workflow, so it is left out")
                config.ignore("cron", "timezone", "prompt")
                return {}
            read["schedule"] = without_nothing({"cron": config.text("cron"), "timezone": config.text("timezone")})
        case "manual":
            read["manual"] = {}
        case _:
            notes.error("unknown_type", trigger.at("type"), f"a trigger is a webhook, a schedule or manual; found {type_name[:40]!r}")
            return {}
    config.left()
    trigger.left()
    return read


def _webhook(config: Fields, mapping: dict[str, Any], notes: Notes) -> dict[str, Any]:
    path = config.text("path")
    read: dict[str, Any] = {"path": path}
    if method := config.text("method"):
        read["method"] = method.upper()
    if headers := config.mapping("headers"):
        read["headers"] = headers
    if config.text("secret"):
        name = re.sub(r"\W+", "_", f"{path}_SECRET").strip("_").upper()
        text = f"a secret does not stand in a definition: it is taken from the secret {name!r}, which has to be set"
        notes.warning("literal_secret", config.at("secret"), text)
        read["verify"] = {"scheme": "generic", "secret": f"@secrets.{name}"}
    if mapping:
        read["map"] = {name: source for name, source in mapping.items() if isinstance(source, str)}
    return read
