"""The metrics and the alerts of seed 004, in what Perdure exposes and in the rules that it ships for Prometheus."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from perdure.observe.metric_table import METRICS

RULES = Path(__file__).parents[2] / "deploy/prometheus-rules.yaml"


def alerts() -> dict[str, Any]:
    """The rules by their names."""
    (group,) = YAML(typ="safe").load(RULES)["groups"]
    return {one["alert"]: one for one in group["rules"]}


def test_the_alerts_of_the_seed_have_its_thresholds_and_times() -> None:
    found = alerts()
    stalled, surge, divergence = found["WorkflowStalled"], found["DLQSurge"], found["CounterDivergence"]
    assert "workflow_tokens_consumed_total[5m]" in stalled["expr"] and stalled["for"] == "10m"
    assert "workflow_dlq_size[5m]" in surge["expr"] and surge["expr"].endswith("> 100") and surge["for"] == "2m"
    assert "workflow_counter_divergence" in divergence["expr"] and divergence["expr"].endswith("> 5") and divergence["for"] == "1m"


def test_the_metrics_of_the_seed_are_there_with_its_buckets() -> None:
    series = {name for metric in METRICS for name in metric.series}
    assert {
        "workflow_tokens_consumed_total",
        "workflow_tokens_emitted_total",
        "workflow_retries_total",
        "workflow_dlq_size",
        "workflow_hop_latency_ms_bucket",
        "workflow_counter_divergence",
        "workflow_counter_value",
    } <= series
    (latency,) = (metric for metric in METRICS if metric.name == "workflow_hop_latency_ms")
    assert latency.buckets == (10, 50, 100, 500, 1_000, 5_000)
