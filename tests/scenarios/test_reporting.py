"""Whether Kubernetes' own controllers, and others, raise observedGeneration honestly."""

import pytest

from genguard.detection.detection import Detection
from genguard.detection.questions.numbers import GenerationReporting
from tests.scenarios.test_shared import reviews
from tests.unit.detection.builders import see

CORE = {
    "daemonsets",
    "deployments",
    "poddisruptionbudgets",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
}


def writers(name: str) -> list[GenerationReporting]:
    detection = Detection()
    for phase, one, now in reviews(name):
        see(detection, phase, one, now)
    return detection.reporting.writers()


@pytest.mark.parametrize(
    "name",
    [
        "observed-generation-of-the-core-controllers",
        "rollback-and-again",
        "rollouts",
        "scaled-up-and-down",
        "stateful-and-daemon-sets",
        "thirty-pods-at-once",
    ],
)
def test_the_core_controllers_come_out_clean(name: str) -> None:
    found = [one for one in writers(name) if one.user.startswith("system:")]
    assert found
    assert [(one.early, one.never, one.backwards) for one in found] == [(0, 0, 0)] * len(found)


def test_all_six_of_them_raise_it() -> None:
    found = writers("observed-generation-of-the-core-controllers")
    assert {one.resource for one in found if one.raised} == CORE
