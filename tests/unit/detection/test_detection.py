"""What is known of a write before it is examined, and what is learnt of it afterwards."""

import pytest

from genguard.admission.matching import ResourceKind, read_configurations, read_policies
from genguard.detection.detection import Detection
from genguard.detection.mutators import Mutators
from genguard.detection.observation import Observation
from tests.unit.detection.builders import INTENT, MUTATE, OUTCOME, reviewed, status, update
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.policies import binding, policy, rule
from tests.unit.detection.test_actors import only_if
from tests.unit.detection.test_mutators import hook

HERE = ResourceKind("apps", "deployments", "status")
OLD, SENT, LEFT = status(n=0), status(n=1), status(n=2)
AAA = "aaa/h.example.org"


class Noting(Mutators):
    """Remembers what it is told."""

    def __init__(self) -> None:
        never = hook("aaa", ("*/status",), **only_if("false"))
        super().__init__(read_configurations([never]), read_policies(ALWAYS), CONDITIONS)
        self.told = []

    def changed(self, where):
        self.told.append(("changed", where))
        super().changed(where)

    def record_unchanged(self, names, where):
        self.told.append(("acquitted", tuple(names), where))
        super().record_unchanged(names, where)


ALWAYS = [policy(rules=[rule("*/*")]), binding()]
CHANGED = [("changed", HERE)]


def asked(new, base="7"):
    return update(new, OLD, base, subresource="status")


def shown(detection: Detection, phase, new, base="7") -> Observation:
    found = detection.observe(phase, reviewed(asked(new, base), phase), 100.0)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("phases", "told", "because"),
    [
        ([(INTENT, SENT), (OUTCOME, SENT)], [], "nobody saw what webhooks left"),
        (
            [(INTENT, SENT), (MUTATE, SENT), (OUTCOME, SENT)],
            [("acquitted", (AAA,), HERE)],
            "who was called left it alone",
        ),
        ([(INTENT, SENT), (MUTATE, LEFT), (OUTCOME, LEFT)], CHANGED, "somebody changed it"),
        (
            [(INTENT, SENT), (MUTATE, SENT), (MUTATE, LEFT), (OUTCOME, LEFT)],
            CHANGED,
            "somebody changed it in round 1",
        ),
        ([(INTENT, OLD), (MUTATE, OLD), (OUTCOME, OLD)], [], "there was nothing to change"),
        ([(MUTATE, SENT), (OUTCOME, SENT)], [], "nobody saw what was asked"),
    ],
)
def test_what_a_write_says_of_webhooks(phases, told, because):
    mutators = Noting()
    detection, elsewhere = Detection(mutators), Detection(mutators)
    for phase, new in phases:
        detection.see(shown(elsewhere, phase, new))
    assert list(dict.fromkeys(mutators.told)) == told, because


def test_a_phase_that_comes_by_itself_is_not_taken_for_one_that_is_not_registered():
    """Of widened registrations calls come before the cluster has shown the new rules."""
    narrow = [hook(f"{name}-genguard", ("pods",), f"/{name}") for name in (INTENT, MUTATE)]
    detection = Detection(Mutators(read_configurations(narrow)))
    for base in map(str, range(4)):
        for phase, new in ((INTENT, SENT), (MUTATE, SENT), (MUTATE, LEFT), (OUTCOME, LEFT)):
            detection.see(shown(detection, phase, new, base))
    assert [one.detector for one in detection.findings()] == ["unstable-mutation"]


def test_what_is_taken_waits_to_be_examined_all_of_it_and_once():
    mutators = Noting()
    detection = Detection(mutators)
    for base in ("7", "8"):
        for phase in (INTENT, MUTATE, OUTCOME):
            detection.take(shown(detection, phase, SENT, base))
    assert (mutators.told, detection.unexamined) == ([], 2)
    for _ in range(2):
        detection.detect()
        assert detection.unexamined == 0
    assert mutators.told == [("acquitted", (AAA,), HERE)] * 2
