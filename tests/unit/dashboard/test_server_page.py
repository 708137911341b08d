"""Metrics for people: with units, in groups, and what is a sum with its parts."""

from types import SimpleNamespace

import pytest

from webhook.dashboard.server import _groups, shown_value
from webhook.telemetry import declarations
from webhook.telemetry.metrics import Metrics

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("genguard_event_loop_lag_seconds", 0.0123, "12 ms"),
        ("genguard_certificate_expiry_seconds", 2_592_000.0, "30 d"),
        ("genguard_last_review_timestamp_seconds", NOW - 90, "1 min ago"),
        ("genguard_last_review_timestamp_seconds", 0.0, "never"),
        ("genguard_store_up", 1.0, "yes"),
        ("genguard_leader", 0.0, "no"),
        ("genguard_open_connections", 12_345.0, "12,345"),
    ],
)
def test_a_value_has_the_unit_of_its_name(name, value, text):
    assert shown_value(name, value, NOW) == text


def groups(metrics):
    context = SimpleNamespace(sources=SimpleNamespace(metrics=metrics))
    return {one.title: {row.name: row for row in one.rows} for one in _groups(context, NOW)}


def test_metrics_stand_in_groups_and_sums_have_their_parts():
    metrics = Metrics(lambda _: True)
    metrics.counts(declarations.STORE_FACTS, lambda: iter([(("sent",), 7), (("read",), 9)]))
    metrics.gauge(declarations.STORE_UP, lambda: 1.0)
    found = groups(metrics)
    facts = found["Certificate, cluster and replicas"]["genguard_store_facts_total"]
    assert (facts.value, facts.parts) == ("16", (("read", "9"), ("sent", "7")))
    assert found["Certificate, cluster and replicas"]["genguard_store_up"].value == "yes"
