"""When conditions are written into an object, when not, and how often after a refusal."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from genguard.objects.served import Served
from genguard.status.assessment import assess
from genguard.status.published import MANAGER, without_published
from tests.statuses import NOW
from webhook.cluster.rest import RefusedError
from webhook.cluster.status_publisher import REFUSED_SECONDS, SHORTEST_SECONDS, StatusPublisher

WIDGETS = Served("example.org", "v1", "widgets", "widget", "Widget", (), True, True, True)
CONDITIONS = {
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {"x-kubernetes-preserve-unknown-fields": True},
}
STATUS = {"properties": {"status": {"properties": {"conditions": CONDITIONS}}}}
VERSION = {"name": "v1", "subresources": {"status": {}}, "schema": {"openAPIV3Schema": STATUS}}
DEFINITION = {"metadata": {"name": "widgets.example.org"}, "spec": {"versions": [VERSION]}}
PATH = "/apis/example.org/v1/namespaces/shop/widgets/one"


class Api:
    """Answers each PATCH with the next of `answers`, an error or a resourceVersion."""

    def __init__(self) -> None:
        self.answers: list[Exception | int] = []
        self.applied: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.stored: dict[str, Any] | Exception = RefusedError(404, "gone")
        self.seconds = 0.0

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        if method == "GET" and path.endswith("customresourcedefinitions/widgets.example.org"):
            return DEFINITION
        if method == "GET":
            assert path == PATH
            if isinstance(self.stored, Exception):
                raise self.stored
            return self.stored
        if method == "POST":
            assert path == "/apis/events.k8s.io/v1/namespaces/shop/events"
            return self.events.append(body)
        assert (method, path) == ("PATCH", f"{PATH}/status")
        assert params == {"fieldManager": MANAGER}, "without force"
        assert content_type == "application/apply-patch+yaml"
        self.applied.append(body)
        answer = self.answers.pop(0) if self.answers else 100
        if isinstance(answer, Exception):
            raise answer
        return {"metadata": {"resourceVersion": str(answer)}}


def widget(version: int = 1, *conditions: dict[str, Any], observed: int = 1, **owned: Any):
    fields = {f'k:{{"type":"{name}"}}': leaves for name, leaves in owned.items()}
    entry = {
        "manager": MANAGER,
        "operation": "Apply",
        "fieldsV1": {"f:status": {"f:conditions": fields}},
    }
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {
            "name": "one",
            "namespace": "shop",
            "uid": "u1",
            "generation": 1,
            "resourceVersion": str(version),
            "managedFields": [entry] if owned else [],
            "labels": {"genguard.io/publish-status": "true"},
        },
        "status": {"observedGeneration": observed, "conditions": list(conditions)},
    }


LEAVES = {f"f:{leaf}": {} for leaf in ("type", "status", "reason", "observedGeneration")}
BOTH = {"Ready": LEAVES, "Settled": LEAVES}


def condition(name: str, status: str = "True") -> dict[str, Any]:
    return {"type": name, "status": status, "reason": name, "observedGeneration": 1}


def published(version: int, **fields: Any) -> dict[str, Any]:
    return widget(version, condition("Ready"), condition("Settled"), **BOTH, **fields)


class Run:
    """A publisher that sees states of one object."""

    def __init__(self) -> None:
        self.api = Api()
        moment = datetime(2027, 1, 15, 8, tzinfo=UTC)
        self.publisher = StatusPublisher(self.api, lambda: self.api.seconds, lambda: moment)
        asyncio.run(self.publisher.learn(WIDGETS))

    def see(self, *documents: dict[str, Any]) -> int:
        """Each state is evaluated and published; return how many writes that made."""
        before = len(self.api.applied)
        for document in documents:
            self.publisher.see(WIDGETS, "u1", document)
            asyncio.run(self.publisher.publish(assess(without_published(document), at=NOW)))
        return len(self.api.applied) - before


def test_a_state_from_before_the_own_write_is_not_taken_for_somebody_s_change():
    run = Run()
    run.see(widget(1))
    run.api.seconds += SHORTEST_SECONDS
    assert run.see(widget(2)) == 0  # older than version 100, which the write got
    assert run.see(published(100)) == 0
    assert run.api.events == []


def test_an_object_that_flaps_is_written_at_most_so_often():
    run = Run()
    run.see(widget(1))
    assert run.see(published(100), published(101, observed=0)) == 0
    run.api.seconds += SHORTEST_SECONDS
    assert run.see(published(101, observed=0)) == 1


def test_what_somebody_removes_is_given_up_at_once_and_an_event_says_so():
    run = Run()
    run.see(widget(1), published(100))
    run.api.seconds += SHORTEST_SECONDS
    assert run.see(widget(101, condition("Settled"), Settled=LEAVES)) == 0
    (event,) = run.api.events
    assert (event["reason"], event["type"]) == ("StatusNotPublished", "Warning")
    assert event["regarding"]["uid"] == "u1"
    assert run.see(widget(102, condition("Settled"), observed=0, Settled=LEAVES)) == 1
    (settled,) = run.api.applied[-1]["status"]["conditions"]
    assert (settled["type"], settled["status"]) == ("Settled", "False")
    assert len(run.api.events) == 1


def test_a_conflict_of_fields_ends_it_and_one_of_versions_does_not():
    run = Run()
    run.api.answers = [
        RefusedError(409, "Operation cannot be fulfilled on widgets: it has been modified"),
        RefusedError(409, 'Apply failed with 1 conflict: conflict with "other": .status'),
    ]
    assert run.see(widget(1)) == 1
    assert run.see(widget(2)) == 1
    run.api.seconds += 2 * REFUSED_SECONDS
    assert run.see(widget(3)) == 0


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (RefusedError(403, "forbidden"), REFUSED_SECONDS),
        (RefusedError(422, "invalid"), REFUSED_SECONDS),
        (RefusedError(503, "busy"), 30.0),
        (RefusedError(404, "gone"), 30.0),
        (TimeoutError(), 30.0),
    ],
)
def test_after_a_refusal_it_waits_and_tries_again(error, seconds):
    run = Run()
    run.api.answers = [error]
    run.see(widget(1))
    run.api.seconds += seconds - 1
    assert run.see(widget(2)) == 0
    run.api.seconds += 1
    assert run.see(widget(2)) == 1


@pytest.mark.parametrize(
    ("uid", "label", "writes"), [("u1", None, 1), ("u1", "true", 0), ("u2", None, 0)]
)
def test_who_opts_out_gets_the_conditions_removed_and_nobody_else(uid, label, writes):
    run = Run()
    run.see(widget(1), published(100))
    stored = published(101)
    stored["metadata"] |= {"uid": uid, "labels": {"genguard.io/publish-status": label}}
    run.api.stored = stored
    asyncio.run(run.publisher.keep_only(()))
    assert [one["status"] for one in run.api.applied[1:]] == [{}] * writes
