"""Every query of the dashboard and the rules, and what a query asks for."""

import json
import re
from typing import Any, NamedTuple

from tests.monitoring.rules import MONITORING, alerts

DASHBOARD = MONITORING / "grafana" / "genguard.json"
_METRIC = re.compile(r"\b(?:genguard|apiserver|kube)_[a-z0-9_]+|\bup(?=\{)")
_SELECTOR = re.compile(rf"(?:{_METRIC.pattern})(?:\{{[^}}]*\}})?")
_OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")
VARIABLES = {"$cluster": ".*", "$namespace": ".*", "$__rate_interval": "20s"}
"""What Grafana puts for them, with All chosen and a scrape each second."""


class Query(NamedTuple):
    """One query, and where it stands."""

    where: str
    expression: str


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def panels() -> list[dict[str, Any]]:
    """Those that show something; a row only heads them."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def dashboard_queries() -> list[Query]:
    return [
        Query(panel["title"], filled_in(target["expr"]))
        for panel in panels()
        for target in panel["targets"]
    ]


def filled_in(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def rule_selectors() -> list[Query]:
    """The series that alerts ask for; a whole expression answers only when the alert fires."""
    return [
        Query(rule["alert"], selector)
        for rule in alerts()
        for selector in sorted(set(_SELECTOR.findall(rule["expr"])))
    ]


def families(expression: str) -> set[str]:
    """The metrics of an expression, as /metrics calls them."""
    return {_OF_HISTOGRAM.sub("", name) for name in _METRIC.findall(expression)}
