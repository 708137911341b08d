"""Successive versions of one object, as a watch shows them."""

from datetime import UTC, datetime

import msgspec
import pytest

from genguard.admission.review import Phase
from genguard.detection.detection import Detection
from genguard.objects.fields import fields_of
from genguard.review_setup import ReviewOptions, ReviewSetup
from genguard.versions import Versions
from tests.unit.detection.builders import feed, update

HOOKS = "mutatingwebhookconfigurations"
NOW = 1_750_000_000.0


class Cluster:
    """One configuration; who writes takes over the fields that it changes."""

    def __init__(self) -> None:
        engine = ReviewSetup(ReviewOptions()).dependencies.engine
        self.detection = Detection()
        self.versions = Versions(lambda: engine, self.detection.see_version)
        self.now, self._version, self._generation = NOW, 0, 0
        self._entries = {}
        self.webhook = {"name": "h.example.org", "clientConfig": {"caBundle": ""}}

    def write(self, manager, uid="uid", operation="Update", *, gone=False, **fields):
        self.webhook = {**self.webhook, **fields}
        self._version += 1
        self._generation += 1
        at = datetime.fromtimestamp(self.now, UTC).isoformat().replace("+00:00", "Z")
        self._entries[manager] = {
            "manager": manager, "operation": operation, "time": at, "fieldsV1": {"f:webhooks": {}},
        }  # fmt: skip
        if gone:
            del self._entries[manager]
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": "mmm", "uid": uid, "generation": self._generation,
                "resourceVersion": str(self._version), "managedFields": [*self._entries.values()],
            },
            "webhooks": [self.webhook],
        }  # fmt: skip
        self.versions.see(HOOKS, fields_of(body), self.now)

    def fight(self, *managers: str, times=8, every=2.0):
        for turn in range(times):
            manager = managers[turn % len(managers)]
            self.write(manager, clientConfig={"caBundle": f"Y2E{turn % 2}"})
            self.now += every


def test_an_object_that_is_listed_again_is_no_new_version():
    cluster = Cluster()
    cluster.fight("cainjector", "helm", times=3)
    for _ in range(20):
        cluster._version -= 1
        cluster._generation -= 1
        cluster.write("helm", clientConfig={"caBundle": "Y2E0"})
    assert cluster.detection.findings() == ()


def test_versions_that_a_watch_has_missed_are_no_mismatch():
    """After a pause it lists again; and `rules: []` in place of no rules is counted, not shown."""
    cluster = Cluster()
    cluster.write("helm")
    cluster._generation += 3
    cluster.write("helm", clientConfig={"caBundle": "Y2E="})
    cluster.write("genguard")
    assert cluster.detection.findings() == ()


def test_an_object_that_is_gone_takes_no_memory():
    cluster = Cluster()
    cluster.fight("cainjector", "helm", times=3)
    assert cluster.versions.bytes
    cluster.versions.gone("uid")
    assert cluster.versions.bytes == 0


def test_five_thousand_objects_are_kept_in_less_than_thirty_mebibytes():
    cluster = Cluster()
    rules = [{"apiGroups": ["*"], "resources": [f"kind{number}"]} for number in range(40)]
    for number in range(5_000):
        cluster.write("helm", uid=f"uid-{number}", rules=rules, note=f"{number * 7919:x}")
    assert cluster.versions.bytes < 30 * 1024 * 1024


def test_what_cannot_be_decoded_is_refused_and_nothing_else_is_lost():
    cluster = Cluster()
    with pytest.raises((KeyError, msgspec.MsgspecError)):
        cluster.versions.see(HOOKS, fields_of({"metadata": {"managedFields": 7}}), NOW)
    cluster.fight("cainjector", "helm")
    assert cluster.detection.findings()


def test_of_what_is_also_reviewed_the_reviews_are_examined_and_no_version():
    cluster = Cluster()
    resource = f"{HOOKS}.admissionregistration.k8s.io"
    feed(cluster.detection, Phase.OUTCOME, update({"a": 1}, {"a": 2}, resource=resource), NOW)
    cluster.fight("cainjector", "helm")
    assert cluster.detection.findings() == ()


def test_who_writes_twice_in_a_second_has_written_both_times():
    cluster = Cluster()
    for turn in range(8):
        cluster.write("busy", clientConfig={"caBundle": f"Y2E{turn % 2}"})
        cluster.now += turn % 2  # managedFields has whole seconds
    (found,) = cluster.detection.findings()
    assert [one.name for one in found.actors] == ["busy"]


def test_who_takes_away_all_that_he_has_set_is_named_and_no_bystander():
    cluster = Cluster()
    cluster.write("helm")
    for turn in range(24):
        bundle = {"caBundle": f"Y2E{turn % 2}"}
        cluster.write("busy", gone=bool(turn % 2), clientConfig=bundle)
        cluster.now += 1
    (found,) = cluster.detection.findings()
    assert [one.name for one in found.actors] == ["busy"]
