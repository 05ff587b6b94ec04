"""Reads port_graph: ``{workflowConfig, stepsConfig: [{stepSlug, name, stepType, order, config, nextSteps}]}``, or stored as ``{name, config, steps: [...]}``.

Text with ``{{ }}`` is kept, in conditions as ``{braces: ...}``, since the dialect's rules evaluate it. The target ``noop`` ends the path, as null does.
A failure without a port fails the execution; nothing is retried without a policy. A loop without a body leads to itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perdure.definitions.format import model
from perdure.definitions.format.definition_findings import closest_name
from perdure.dialects.foreign_document import FindingCollector, ForeignDefinition, ForeignFields, StepNames, ms_to_s, without_empty
from perdure.dialects.port_graph.brace_expressions import BraceExpressionReader
from perdure.dialects.port_graph.document_warnings import INJECTED_INPUT, PortGraphWarnings
from perdure.dialects.port_graph.step_reader import STEP_TYPES, PortGraphRoutes, PortGraphStepReader, read_retry, wire_failures_back

STARTING = ("start", "trigger")
NOT_IN_NAMES = re.compile(r"[@/:\x00-\x1f]+")


CONFIG_NAME = "config"
PORT_GRAPH_HOPS_MAX = 10_000
"""How many edges an execution goes along unless the document says it: its loops have no other bound."""


def to_definition(document: Any, blobs: Mapping[str, Any] | None = None) -> ForeignDefinition:
    """Reads a document as a definition, with errors and warnings."""
    notes = FindingCollector(document)
    top = ForeignFields(document, "", notes)
    inline = top.has("stepsConfig", "workflowConfig")
    head = (top.inside("workflowConfig") if inline else top) or ForeignFields({}, "/workflowConfig", notes)
    config = head.inside("config") or ForeignFields({}, head.at("config"), notes)
    names, texts = StepNames(notes), BraceExpressionReader(notes)
    given = _steps(top, "stepsConfig" if inline else "steps", names, notes)
    texts.names = names
    definition = _head(head, notes) | _config(config, texts, notes)
    variables = definition.pop("vars", {})
    reader, routes = PortGraphStepReader(texts, notes), PortGraphRoutes(names, notes)
    steps = [_without_successors(reader.step(called, step) | routes.read(called, step), step, notes) for called, step in given]
    for _, step in given:
        step.left()
    wire_failures_back(steps)
    declared, variables = _inputs(reader.inputs, variables)
    declared |= {name: {**declared.get(name, {}), "default": value} for name, value in top.mapping("input").items()} if inline else {}
    PortGraphWarnings(notes, texts, dict(given), steps).tell(variables, declared, config.at("variables"))
    if inline and INJECTED_INPUT not in variables:
        variables |= without_empty({INJECTED_INPUT: texts.value(top.text(INJECTED_INPUT), top.at(INJECTED_INPUT), "")})
    variables = _with_config(config, texts, declared, variables)
    _leave(top, head, config, inline)
    ui = without_empty({"shape": "" if inline else "steps", "enabled": head.value.get("enabled"), "status": head.value.get("status")})
    whole = definition | without_empty({"input": declared, "vars": variables, "triggers": reader.triggers})
    return ForeignDefinition("port_graph", whole | {"order": "ports", "steps": steps} | ({"ui": ui} if ui else {}), tuple(notes.findings))


def _steps(top: ForeignFields, field: str, names: StepNames, notes: FindingCollector) -> list[tuple[str, ForeignFields]]:
    """The steps in their order, the one that starts first, each with what it is called."""
    if not top.listed(field):
        notes.error("no_steps", top.at(field), "a workflow has at least one step")
    given: list[tuple[str, ForeignFields]] = []
    for index, value in enumerate(top.listed(field)):
        step = ForeignFields(value, top.at(field, index), notes)
        if not (original := step.text("stepSlug", "slug", "id")):
            notes.error("missing_field", step.at("stepSlug"), "a step has a stepSlug, by which others refer to it")
            original = names.free(f"step_{index + 1}")
        given.append((names.give(original, step.at(step.name_of("stepSlug", "slug", "id"))), step))
        if (said := step.text("stepType", default="action")) not in STEP_TYPES:
            meant = closest_name(said, STEP_TYPES)
            hint = f"did you mean {meant!r}?" if meant else f"there are {', '.join(STEP_TYPES)}"
            notes.error("unknown_step_type", step.at("stepType"), f"{said[:60]!r} is not a type of step; {hint}", meant)
    orders = [step.number("order") for _, step in given]
    if all(order is not None for order in orders):
        given = [pair for _, pair in sorted(zip(orders, given, strict=True), key=lambda one: one[0] or 0)]
    starts = [pair for pair in given if pair[1].value.get("stepType") in STARTING]
    for _, step in starts[1:]:
        notes.warning("second_start", step.at("stepType"), f"the workflow begins at {starts[0][0]!r}; this one is run as an ordinary step")
    return starts[:1] + [pair for pair in given if not starts or pair is not starts[0]]


def _head(head: ForeignFields, notes: FindingCollector) -> dict[str, Any]:
    said = head.text("name") or "untitled"
    name = NOT_IN_NAMES.sub("-", said).strip() or "untitled"
    if name != said:
        notes.warning("renamed", head.at("name"), f"a name can't contain @, / or :, so the workflow is named {name!r}")
    version = str(head.any("version") or "")
    if version and not re.fullmatch(model.VERSION_PATTERN, version):
        digits = re.findall(r"\d{1,9}", version)[:3]
        said, version = version, ".".join([*(str(int(one)) for one in digits), "0", "0"][:3]) if digits else model.DEFAULT_VERSION
        notes.warning("renamed", head.at("version"), f"{said[:40]!r} is not a version such as 1.2.0; version {version} is used")
    described = without_empty({"version": version, "description": head.text("description"), "tags": head.texts("tags")})
    return {"perdure": 1, "dialect": "port_graph", "name": name} | described


def _config(config: ForeignFields, texts: BraceExpressionReader, notes: FindingCollector) -> dict[str, Any]:
    """Reads the timeout, the retry policy and the variables of the whole workflow."""
    found: dict[str, Any] = {"retry": {"max": 1}}
    if (deadline := ms_to_s(config.number("timeout"))) is not None and deadline > 0:
        found["limits"] = {"deadline": deadline}
    if policy := config.inside("retryPolicy"):
        found["retry"] = read_retry(policy)
    found.setdefault("limits", {})["max_hops"] = config.whole("maxHops", "maxSteps", least=1) or PORT_GRAPH_HOPS_MAX
    found["vars"] = texts.value(config.mapping("variables"), config.at("variables"), "")
    for name in config.mapping("secrets"):
        what = f"the value of the secret {name[:60]!r} is not taken over: keep it where secrets are kept; steps have it as {{{{ secrets.{name[:60]} }}}}"
        notes.warning("secret_left_out", config.at("secrets", name), what)
    return found


def _inputs(declared: dict[str, Any], variables: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The declared inputs, and the variables. A variable of the name of an input is the default of that input."""
    inputs = {name: {**schema, "default": variables[name]} if name in variables and "default" not in schema else schema for name, schema in declared.items()}
    return inputs, {name: value for name, value in variables.items() if name not in declared}


def _with_config(config: ForeignFields, texts: BraceExpressionReader, declared: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    """The variables, with `config` among them where it is read and nothing else is called so: what the workflow is set to, and its variables."""
    if CONFIG_NAME in {*declared, *variables} or all(seen.name != CONFIG_NAME for seen in texts.seen):
        return variables
    said = {name: value for name, value in config.value.items() if name in ("timeout", "retryPolicy") and value is not None}
    return {**variables, CONFIG_NAME: {**variables, **said, "variables": variables}}


def _without_successors(read: dict[str, Any], step: ForeignFields, notes: FindingCollector) -> dict[str, Any]:
    """A step without what would come after the end of the execution."""
    following = read.get("next")
    if "return" not in read or not isinstance(following, dict):
        return read
    for port in [port for port, targets in following.items() if port not in ("error", "skipped") and targets]:
        notes.warning("unreachable_step", step.at("nextSteps", port), "the workflow ends at this step, so its next steps never run; remove them")
    rest = {port: targets for port, targets in following.items() if port in ("error", "skipped")}
    return {name: value for name, value in read.items() if name != "next"} | ({"next": rest} if rest else {})


def _leave(top: ForeignFields, head: ForeignFields, config: ForeignFields, inline: bool) -> None:
    if inline:
        top.ignore("success", "triggeredBy")
        top.left(("workflowConfig", "stepsConfig"))
    head.ignore("enabled", "status", "organizationId", "_id", "_creationTime", "metadata", "workflowType", "triggers", "config", "steps")
    head.left()
    config.left()
