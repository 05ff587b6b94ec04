"""The kind `pipeline` of definitions: its declaration, the check of its config before anything runs, and the counting of uses."""

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from perdure.code.durations import duration_seconds
from perdure.code.step_environment import current_resources, step_info
from perdure.core.errors import BadExpression, BadValue
from perdure.definitions.expr import template
from perdure.definitions.expr.plain_values import short_value_text, shortened
from perdure.definitions.expr.secret_marks import escape_pointer_key
from perdure.definitions.format.definition_findings import closest_name
from perdure.definitions.format.shapes import is_template
from perdure.definitions.graph.step_kind import CompositeUse, Kind, Limit, no_composite_use
from perdure.definitions.kinds.deployment import Deployment
from perdure.definitions.kinds.pipeline import pipeline_runner
from perdure.definitions.kinds.pipeline.composites import pipeline_shape, resolve_composite
from perdure.definitions.kinds.pipeline.external_operations import REPEATABLE
from perdure.definitions.kinds.pipeline.pipeline_limits import DEFAULT_LIMITS, MAXIMUM_LIMITS, PipelineFailed, PipelineLimits
from perdure.definitions.kinds.pipeline.pipeline_runner import ROWS, http_kind_factory, run_operations

FIELDS = ("ops", "use", "limits", "counted")
LIMITS = {"rows": "rows", "bytes": "bytes", "groups": "groups", "wall": "wall_s"}

EXAMPLE = """
perdure: 1
name: best_offers
input: {offers: {type: array}, least: {type: number, default: 10}}
steps:
  - id: best
    pipeline:
      - table_filter: {field: price, gte: "@input.least"}
      - table_sort: [-price, name]
      - top_k: 3
    with: {rows: "@input.offers"}
output: "@best"
"""


def pipeline_kind(deployment: Deployment) -> Kind:
    """The kind, for a deployment."""
    http = cache(http_kind_factory(deployment))

    async def run(config: Any, input: Any = None, env: Any = None) -> Any:
        given = _given(config)
        bounds = _bounds(given.get("limits"))
        if isinstance(bounds, str):
            raise PipelineFailed(-1, "", bounds)
        tables = {ROWS: input} if isinstance(input, list) else input
        if not isinstance(tables, Mapping | None):
            raise PipelineFailed(-1, "", f"its input is {short_value_text(input)}; expected {{rows: […]}}, perhaps with other tables, or a list of rows")
        if "use" not in given:
            return await run_operations(given.get("ops"), tables or {}, http, bounds)
        store, tenant = current_resources.get().store, step_info().execution.tenant
        return await run_operations(*await resolve_composite(store, str(given["use"]), tables or {}, tenant), http, bounds)

    return Kind(
        name="pipeline",
        run=run,
        title="Pipeline",
        summary="Operations on tables, one after the other",
        icon="table",
        config={"anyOf": [{"type": "array", "minItems": 1}, {"type": "object"}]},
        output={"type": "array", "items": {"type": "object"}},
        limits=(
            Limit("rows", f"{DEFAULT_LIMITS.rows:,}", f"{MAXIMUM_LIMITS.rows:,}", "the operation that would make more fails"),
            Limit(
                "bytes",
                f"{DEFAULT_LIMITS.bytes:,}",
                f"{MAXIMUM_LIMITS.bytes:,}",
                "a table or an answer that takes more fails; a step's input and result have 16 MiB at most",
            ),
            Limit("groups", f"{DEFAULT_LIMITS.groups:,}", f"{MAXIMUM_LIMITS.groups:,}", "the groupby fails"),
            Limit("wall", f"{DEFAULT_LIMITS.wall_s:g} s", f"{MAXIMUM_LIMITS.wall_s:g} s", "the operation under way fails"),
        ),
        idempotent=idempotent,
        idempotency="repeated after an interruption, unless it makes a request by POST or PATCH, or uses a composite, which may: then say idempotent: true",
        check=check_pipeline,
        written=written_config,
        counts=composite_use if deployment.counts_pipelines else no_composite_use,
        example=EXAMPLE,
    )


def _given(config: Any) -> Mapping[str, Any]:
    """The value of the verb as a mapping."""
    return config if isinstance(config, Mapping) else {"ops": config}


def written_config(config: Any) -> Any:
    """A config as its author wrote it, with references to the row made paths to fields."""
    if isinstance(config, Mapping):
        return {**config, "ops": pipeline_runner.with_fields(config["ops"])} if "ops" in config else config
    return pipeline_runner.with_fields(config)


def composite_use(written: Any, config: Any) -> CompositeUse | None:
    """The composite that a step uses: the one that it names, or the shape of its operations. Operations that a reference provides are taken as resolved."""
    asked, came = _given(written), _given(config)
    if came.get("counted") is False:
        return None
    if "use" in came:
        return CompositeUse(str(came["use"]))
    ops, done = asked.get("ops"), came.get("ops")
    is_written = isinstance(ops, list) and not any(map(is_template, ops))
    found = pipeline_shape(ops) if is_written and isinstance(ops, list) else pipeline_shape(done, resolved=True) if isinstance(done, list) else None
    return None if found is None else CompositeUse(found.name, found, shortened(found.description, 240))


def idempotent(config: Any) -> bool:
    """Whether a pipeline may be done again when it is not known how far it came."""
    given = _given(config)
    ops = given.get("ops")
    if not isinstance(ops, list):
        return False
    return all(str(one.get("method", "GET")).upper() in REPEATABLE for one in pipeline_runner.request_arguments(ops))


def check_pipeline(config: Any) -> Iterator[tuple[str, str]]:
    """The problems of a config whose references are not resolved yet, as JSON pointers and texts."""
    config = written_config(config)
    yield from _secrets(config)
    if not isinstance(config, Mapping):
        wrong = [(one.pointer, f"{name}: {one.what}" if name else one.what) for _, name, one in pipeline_runner.plan_operations(config, True)[1]]
        yield from wrong or _programs(config, "")
        return
    for name in config:
        if name not in FIELDS:
            meant = closest_name(str(name), FIELDS)
            hint = f"did you mean {meant!r}?" if meant else f"it has {', '.join(FIELDS)}"
            yield f"/{escape_pointer_key(str(name))}", f"{name!r} is not a field of it; {hint}"
    if ("ops" in config) is ("use" in config):
        yield "", "it has a list of operations behind 'ops', or the name of a composite behind 'use'"
    if "ops" in config and not is_template(config["ops"]):
        wrong = [(one.pointer, f"{name}: {one.what}" if name else one.what) for _, name, one in pipeline_runner.plan_operations(config["ops"], True, "/ops")[1]]
        yield from wrong or _programs(config["ops"], "/ops")
    if "use" in config and (not isinstance(config["use"], str) or not config["use"]):
        yield "/use", f"it is the name of a composite, not {short_value_text(config['use'])}"
    if not isinstance(config.get("counted", True), bool) and not is_template(config["counted"]):
        yield "/counted", f"it is true or false, not {short_value_text(config['counted'])}"
    bounds = _bounds(config.get("limits"), is_open=True)
    if isinstance(bounds, str):
        yield "/limits", bounds


def _programs(ops: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """The programs in jq that can't be read, among operations that are right otherwise."""
    for number, one in enumerate(ops if isinstance(ops, list) else ()):
        match one:
            case {"jq_transform": str(program)}:
                where = "/jq_transform"
            case {"jq_transform": {"program": str(program)}}:
                where = "/jq_transform/program"
            case {"step": "jq_transform", "program": str(program)}:
                where = "/program"
            case _:
                continue
        if not is_template(program):
            from perdure.definitions.kinds.pipeline import external_operations  # here, as most pipelines have no jq

            if why := external_operations.jq_problem(program):
                yield f"{pointer}/{number}{where}", f"jq_transform: {why}; mend the program"


def _secrets(value: Any, pointer: str = "") -> Iterator[tuple[str, str]]:
    """Secrets outside of the headers of requests."""
    match value:
        case str() if "@" in value and _reads_secret(value):
            yield pointer, "secrets stand only in the headers of http_request"
        case list():
            for place, item in enumerate(value):
                yield from _secrets(item, f"{pointer}/{place}")
        case {"step": "http_request", "headers": _, **others}:
            yield from _secrets(others, pointer)
        case {"http_request": {"headers": _, **others}, **rest} if not rest:
            yield from _secrets(others, f"{pointer}/http_request")
        case dict():
            for name, item in value.items():
                yield from _secrets(item, f"{pointer}/{escape_pointer_key(str(name))}")


def _reads_secret(text: str) -> bool:
    try:
        return any(read.root == "secrets" for read in template.compile_template(text).reads)
    except BadExpression:
        return False  # which is said of it where references are checked


def _bounds(given: Any, is_open: bool = False) -> PipelineLimits | str:
    """The bounds that are asked for, or why they can't be."""
    if given is None or (is_open and is_template(given)):
        return DEFAULT_LIMITS
    if not isinstance(given, Mapping):
        return f"limits are a mapping of {', '.join(LIMITS)}, not {short_value_text(given)}"
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in LIMITS:
            return f"limits has no {shortened(repr(name))}; it has {', '.join(LIMITS)}"
        if is_open and is_template(value):
            continue
        most = getattr(MAXIMUM_LIMITS, LIMITS[name])
        try:
            number = duration_seconds(value, name) if name == "wall" else value
        except (BadValue, OverflowError):
            return f"limits.wall is a duration such as 30s, not {short_value_text(value)}"
        if isinstance(number, bool) or not isinstance(number, int | float) or (name != "wall" and number != int(number)) or not 0 < number <= most:
            return f"limits.{name} is {'a duration' if name == 'wall' else 'a whole number'} of up to {most:,}, not {short_value_text(value)}"
        found[LIMITS[name]] = number if name == "wall" else int(number)
    return dataclasses.replace(DEFAULT_LIMITS, **found)
