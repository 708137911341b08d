"""Which objects' writes are compared leaf by leaf; of the others it is known that they differ."""

import pytest

from genguard.detection import detection as module
from genguard.detection.detection import COUNTED_WRITES
from tests.unit.detection.builders import (
    INTENT,
    MUTATE,
    OUTCOME,
    Judging,
    feed,
    reviewed,
    spec,
    status,
    update,
)


@pytest.fixture(autouse=True)
def suspects_alone_are_compared(monkeypatch, every_write_is_compared):
    monkeypatch.setattr(module, "COUNTED_WRITES", COUNTED_WRITES)


def write(detection, number, user="controller", **more):
    """One write of an object, in all phases; the number makes it different from the others."""
    new, old = spec(replicas=number + 1), spec(replicas=number)
    asked = update(new, old, str(number), user=user, **more)
    for phase in (INTENT, MUTATE, OUTCOME):
        feed(detection, phase, asked, 100.0 + number)


def compared(detection):
    return [one.content.admitted.is_compared for one in detection.writes]


def test_the_first_writes_of_an_object_are_counted_and_the_later_ones_compared():
    detection = Judging()
    for number in range(5):
        write(detection, number)
    assert compared(detection) == [False, False, False, True, True]
    assert all(one.content.admitted.differs for one in detection.writes)


def test_a_second_writer_makes_an_object_suspect():
    detection = Judging()
    for number, user in enumerate(["controller", "operator", "controller"]):
        write(detection, number, user)
    assert compared(detection) == [False, True, True]


ASKED, LEFT, OLD = status(observedGeneration=1), status(a=1), status(a=0)


def clear(detection):
    """A webhook clears what was sent: from now on the kind is suspect, and the object damaged."""
    for phase, new in ((INTENT, ASKED), (MUTATE, LEFT), (OUTCOME, LEFT)):
        feed(detection, phase, update(new, OLD, subresource="status"), 100.0)


def is_compared(detection, asked, uid):
    for one in (asked["request"]["object"], asked["request"]["oldObject"]):
        one["metadata"]["uid"] = uid
    return detection.fact(OUTCOME, reviewed(asked, OUTCOME), 101.0).compared.diff.is_compared


def test_a_webhook_that_changes_writes_makes_every_object_of_the_kind_suspect():
    detection = Judging()
    clear(detection)
    assert is_compared(detection, update(ASKED, OLD, subresource="status"), "another")
    assert not is_compared(detection, update(spec(n=1), spec(n=2)), "another")


def test_an_object_with_damage_is_suspect():
    detection = Judging()
    clear(detection)
    uid = detection.findings()[0].object.uid
    assert is_compared(detection, update(spec(n=1), spec(n=2)), uid)


def test_where_facts_are_shared_every_write_is_compared():
    detection = Judging(compares_all=True)
    write(detection, 0)
    assert compared(detection) == [True]
