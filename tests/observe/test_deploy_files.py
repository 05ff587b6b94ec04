"""Claims about the alert rules and the dashboard in `deploy/`: every expression is PromQL, and asks for metrics and labels that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import promql_parser
import pytest
from ruamel.yaml import YAML

from perdure.cli.command_list import root
from perdure.observe.metric_table import METRICS, Metric

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES: dict[str, Any] = YAML(typ="safe").load(DEPLOY / "prometheus-rules.yaml")
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
BY_SERIES: dict[str, Metric] = {series: metric for metric in METRICS for series in metric.series}


def expressions() -> Iterator[tuple[str, str]]:
    """The name and the text of each expression, with Grafana's variables filled in."""
    for rule in ALERTS:
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"].replace("$__rate_interval", "5m").replace("$workflow", ".*")


def selectors(node: Any) -> Iterator[Any]:
    """The selectors of series in an expression."""
    match type(node).__name__:
        case "VectorSelector":
            yield node
        case "MatrixSelector":
            yield node.vector_selector
        case "Call":
            for one in node.args:
                yield from selectors(one)
        case "BinaryExpr":
            yield from selectors(node.lhs)
            yield from selectors(node.rhs)
        case "AggregateExpr" | "ParenExpr" | "UnaryExpr" | "SubqueryExpr":
            yield from selectors(node.expr)
        case "NumberLiteral" | "StringLiteral":
            return
        case other:
            raise AssertionError(f"the test does not know {other}")


def complaints(text: str) -> Iterator[str]:
    """What is wrong with an expression: it asks for what is not there."""
    for selector in selectors(promql_parser.parse(text)):
        metric = BY_SERIES.get(selector.name)
        if metric is None:
            yield f"there is no {selector.name}"
            continue
        labels = {*metric.labels, *(("le",) if selector.name.endswith("_bucket") else ())}
        yield from (f"{selector.name} has no label {one.name}" for one in selector.matchers.matchers if one.name not in labels)


@pytest.mark.parametrize(("name", "text"), list(expressions()), ids=[name for name, _ in expressions()])
def test_each_expression_asks_for_what_is_there(name: str, text: str) -> None:
    assert not list(complaints(text)), name
    grouped = {label for names in re.findall(r"\bby \(([^)]*)\)", text) for label in names.split(", ")}
    assert grouped <= {"le", *(label for one in selectors(promql_parser.parse(text)) for label in BY_SERIES[one.name].labels)}, name


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sum(perdure_lost)", "there is no perdure_lost"),
        ('rate(workflow_retries_total{run_id="x"}[5m])', "workflow_retries_total has no label run_id"),
        ("histogram_quantile(0.9, perdure_attempt_seconds)", "there is no perdure_attempt_seconds"),
    ],
)
def test_what_is_not_there_is_found(text: str, complaint: str) -> None:
    assert list(complaints(text)) == [complaint]


def test_what_is_no_expression_is_found() -> None:
    with pytest.raises(ValueError, match="unclosed"):
        _ = list(complaints("sum(perdure_executions"))


def test_each_alert_says_what_happened_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)
    assert {"WorkflowStalled", "DLQSurge", "CounterDivergence"} <= {rule["alert"] for rule in ALERTS}
    for rule in ALERTS:
        assert rule["labels"]["severity"] in ("critical", "warning") and {"summary", "action"} <= rule["annotations"].keys()
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert all(re.search(rf"by \([^)]*\b{label}\b", rule["expr"]) for label in used), rule["alert"]


def test_the_panels_of_the_dashboard_do_not_overlap_and_have_labels_that_there_are() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in DASHBOARD["panels"]})
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            used = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert all(re.search(rf"by \([^)]*\b{label}\b", target["expr"]) for label in used), panel["title"]
    assert {one["name"] for one in DASHBOARD["templating"]["list"]} == {"datasource", "workflow"}
    (query,) = (one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query")
    assert query.removeprefix("label_values(").partition(",")[0] in BY_SERIES


def test_the_guide_has_each_metric_as_the_table_has_it_and_each_alert() -> None:
    told = (DEPLOY.parent / "docs" / "guides" / "observability.md").read_text()
    for metric in METRICS:
        name = metric.series[0] if metric.type == "counter" else metric.name
        assert f"| `{name}` | {metric.type} | {', '.join(metric.labels) or '–'} | {metric.help} |" in told
    assert [rule["alert"] for rule in ALERTS if f"`{rule['alert']}`" not in told] == []


def test_the_guide_names_the_commands_that_show_metrics_and_send_traces() -> None:
    told = (DEPLOY.parent / "docs" / "guides" / "observability.md").read_text()
    (sentence,) = re.findall(r"`--metrics-listen` and `--otel` are options of (.*?);", told)
    context = click.Context(root)
    for option in ("--metrics-listen", "--otel"):
        found = {name for name in root.list_commands(context) if (one := root.get_command(context, name)) and any(option in given.opts for given in one.params)}
        assert found == set(re.findall(r"`(?:perdure )?(\w+)`", sentence))
