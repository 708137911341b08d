"""The line of `genguard status -f` is an interface: these keys, always, in this order."""

import msgspec
import pytest

from genguard.status.assessment import assess
from tests.statuses import NOW, changed

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
    "apiVersion",
    "group",
    "uid",
    "trafficReady",
    "applicationQualified",
]


def test_a_line_has_its_keys_whatever_is_known():
    for of in ("Deployment", "ConfigMap", "Node"):
        assert list(msgspec.to_builtins(assess(changed(of), at=NOW).to_line())) == KEYS


def test_a_line_as_json():
    document = changed("Deployment", {"status.availableReplicas": 2})
    told = msgspec.json.decode(msgspec.json.encode(assess(document, at=NOW).to_line()))
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
        "argo": "Progressing",
        "rollout": "waiting",
        "reconciledGeneration": None,
        "terminatingReplicas": None,
        "reasons": ["status.availableReplicas 2, want 3"],
        "apiVersion": "apps/v1",
        "group": "apps",
        "uid": document["metadata"].get("uid", ""),
        "trafficReady": None,
        "applicationQualified": None,
    }


def test_what_is_cluster_scoped_has_an_empty_namespace():
    assert assess(changed("Node"), at=NOW).to_line().namespace == ""


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Widget"])
@pytest.mark.parametrize(
    "replicas", [3, int("9" * 402)], ids=["few wanted", "ten times as many wanted"]
)
def test_counters_of_401_digits_are_numbers_as_others_are(kind, replicas):
    names = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
    names += ("updatedNumberScheduled", "numberReady", "numberAvailable")
    counters = dict.fromkeys(names, int("9" * 401)) | {"desiredNumberScheduled": replicas}
    document = {
        "apiVersion": "example.org/v1" if kind == "Widget" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "one", "generation": 1},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, **counters},
    }
    line = assess(document, at=0.0).to_line()
    assert line.progress in (0.1, 1.0)
