"""Counts by namespace and application: right after every change, and bounded."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from genguard.objects.fields import fields_of
from genguard.status.counts import Summaries, read_application
from genguard.status.tracking import MOST_OBJECTS, Tracking
from genguard.status.view import Health
from tests.cases_loader import table
from tests.unit.status.story import objects
from webhook.server.collectors import TrackedMetrics

PART_OF = "app.kubernetes.io/part-of"
INSTANCE = "app.kubernetes.io/instance"


@table("status/applications.yaml", "labels", "application")
def test_an_application_is_what_it_is_a_part_of_or_else_its_instance(case):
    labels = msgspec.Raw(msgspec.json.encode(case["labels"]))
    assert read_application(labels) == case["application"], case.because
    assert read_application(msgspec.UNSET) == ""


def tracked(most: int, most_objects: int = MOST_OBJECTS) -> tuple[Tracking, Summaries]:
    tracking = Tracking(most_objects, most_summaries=most)
    assert tracking.summaries is not None
    return tracking, tracking.summaries


def record(
    tracking: Tracking,
    name: str,
    *,
    ready: bool = True,
    namespace: str = "shop",
    version: int = 1,
    **labels: str,
) -> None:
    names = {"part_of": PART_OF, "instance": INSTANCE}
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}-{name}",
        "generation": 1,
        "resourceVersion": str(version),
        "labels": {names[key]: value for key, value in labels.items()},
    }
    document = {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": metadata,
        "status": {"observedGeneration": 1, "conditions": [condition]},
    }
    fields = fields_of(document)
    tracking.record_stored("example.org", "widgets", "Widget", fields, 1000.0 + version)


def told(summaries: Summaries) -> dict[str, tuple[int, int, int]]:
    """Objects, unready and unsettled ones of each set."""
    sets = [*summaries.namespaces(), *summaries.applications()]
    return {"/".join(key): (one.total, one.unready, one.unsettled) for key, one in sets}


def test_objects_count_for_their_namespace_and_their_application():
    tracking, summaries = tracked(10)
    record(tracking, "a", part_of="web")
    record(tracking, "b", part_of="web", ready=False)
    record(tracking, "c", instance="db")
    record(tracking, "d")
    assert told(summaries) == {"shop": (4, 1, 1), "shop/web": (2, 1, 1), "shop/db": (1, 0, 0)}
    (_, web), _ = summaries.applications()
    assert web.healths == {Health.GREEN: 1, Health.YELLOW: 1, Health.RED: 0}


def test_a_change_moves_an_object_and_a_set_without_objects_is_gone():
    tracking, summaries = tracked(10)
    record(tracking, "a", part_of="web", ready=False)
    record(tracking, "a", part_of="web", version=2)
    assert told(summaries) == {"shop": (1, 0, 0), "shop/web": (1, 0, 0)}
    record(tracking, "a", part_of="db", version=3)  # labels alone have changed
    assert told(summaries) == {"shop": (1, 0, 0), "shop/db": (1, 0, 0)}
    record(tracking, "a", version=4)
    assert told(summaries) == {"shop": (1, 0, 0)}
    tracking.forget("shop-a")
    assert told(summaries) == {}


def test_what_has_no_room_counts_as_other_until_there_is_room():
    tracking, summaries = tracked(1)
    for namespace in ("one", "two", "three"):
        record(tracking, "a", namespace=namespace, part_of="web", ready=False)
    both = {"one": (1, 1, 1), "other": (2, 2, 2)}
    assert told(summaries) == both | {"one/web": (1, 1, 1), "other/other": (2, 2, 2)}
    assert summaries.without_series() == (2, 2)
    tracking.forget("one-a")
    record(tracking, "a", namespace="two", part_of="web", version=2)
    assert told(summaries)["two"] == (1, 0, 0)
    assert summaries.without_series() == (1, 1)


NAMES = st.sampled_from("ab")
STEPS = st.tuples(NAMES, st.sampled_from(["one", "two", "three"]), st.sampled_from(["", "x", "y"]),
                  st.booleans(), st.booleans())  # fmt: skip


@given(st.lists(STEPS, max_size=30), st.integers(1, 3))
def test_whatever_happens_the_sums_are_those_of_the_tracked_objects(steps, most):
    tracking, summaries = tracked(most, 3)
    for version, (name, namespace, part_of, ready, forgotten) in enumerate(steps, start=1):
        labels = {"part_of": part_of} if part_of else {}
        record(tracking, name, namespace=namespace, ready=ready, version=version, **labels)
        if forgotten:
            tracking.forget(f"{namespace}-{name}")
        known = objects(tracking)
        sets = [one for _, one in summaries.namespaces()]
        assert sum(one.total for one in sets) == len(known)
        assert sum(one.unready for one in sets) == sum(not one.state.ready for one in known)
        assert len(sets) <= most + 1
        assert len(list(summaries.applications())) <= most + 1


def test_each_set_has_its_series():
    tracking, _ = tracked(10)
    record(tracking, "a", part_of="web", ready=False)
    samples = {
        (one.name, *one.labels.values()): one.value
        for family in TrackedMetrics(tracking, lambda *_: True).collect()
        for one in family.samples
    }
    assert samples["genguard_application_objects", "shop", "web", "Yellow"] == 1
    assert samples["genguard_application_objects", "shop", "web", "Green"] == 0
    assert samples["genguard_application_unready_objects", "shop", "web"] == 1
    assert samples["genguard_namespace_unsettled_objects", "shop"] == 1
    assert samples["genguard_summaries_without_series", "application"] == 0


def test_without_the_flag_no_namespace_is_a_label():
    tracking = Tracking()
    record(tracking, "a", part_of="web")
    families = TrackedMetrics(tracking, lambda *_: True).collect()
    samples = [one for family in families for one in family.samples]
    assert samples
    assert not any({"namespace", "application"} & one.labels.keys() for one in samples)
