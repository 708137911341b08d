"""Numbers of any length in the line of `genguard status -f`."""

import pytest

from genguard.status.assessment import assess


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
