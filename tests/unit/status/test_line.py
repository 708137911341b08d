"""The line of `genguard status -f` is an interface: these keys, always, in this order."""

import msgspec

from tests.statuses import NOW, changed
from webhook.status.evaluate import evaluate
from webhook.status.line import line

KEYS = [
    "kind",
    "namespace",
    "name",
    "ready",
    "settled",
    "health",
    "progress",
    "tableReady",
    "kstatus",
    "argo",
    "rollout",
    "reconciledGeneration",
    "terminatingReplicas",
    "reasons",
]


def test_a_line_has_its_keys_whatever_is_known():
    for of in ("Deployment", "ConfigMap", "Node"):
        view = evaluate(changed(of), at=NOW)
        assert list(line(view, None, None, None)) == KEYS


def test_a_line_as_json():
    document = changed("Deployment", {"status.availableReplicas": 2})
    view = evaluate(document, at=NOW)
    told = msgspec.json.decode(msgspec.json.encode(line(view, "InProgress", None, "waiting")))
    assert told == {
        "kind": "Deployment",
        "namespace": "shop",
        "name": "web",
        "ready": False,
        "settled": False,
        "health": "Yellow",
        "progress": 0.67,
        "tableReady": False,
        "kstatus": "InProgress",
        "argo": None,
        "rollout": "waiting",
        "reconciledGeneration": None,
        "terminatingReplicas": None,
        "reasons": ["status.availableReplicas 2, want 3"],
    }


def test_what_is_cluster_scoped_has_an_empty_namespace():
    assert line(evaluate(changed("Node"), at=NOW), None, None, None)["namespace"] == ""
