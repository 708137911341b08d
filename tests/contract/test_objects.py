"""GET /api/objects and the metrics of tracked objects: what users and Prometheus are shown."""

import pytest

from genguard.objects.fields import fields_of
from tests.cases_loader import table
from tests.contract.service import Running
from tests.reviews import make_review

UP = {
    "observedGeneration": 1,
    "replicas": 1,
    "updatedReplicas": 1,
    "readyReplicas": 1,
    "availableReplicas": 1,
    "conditions": [{"type": "Available", "status": "True"}],
}
DOWN = UP | {"readyReplicas": 0, "availableReplicas": 0}
FAILED = DOWN | {
    "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]
}


def stored(run: Running, name: str, status: object, version: int = 1, **changes: object) -> None:
    """A Deployment, as a watch shows it."""
    metadata = {"generation": 1, "uid": f"uid-{name}", "name": name, "namespace": "default"}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata | {"resourceVersion": str(version)} | changes,
        "spec": {"replicas": 1},
        "status": status,
    }
    run.watching.seen("deployments.apps", fields_of(document))


async def tracked(run: Running, query: str = "", *, most: int = 100) -> list[str]:
    """The names on all pages."""
    names, token = [], ""
    for _ in range(most):
        answer = await run.ops(f"/api/objects?{query}&continue={token}")
        assert answer.status == 200, answer.body
        names += [one["name"] for one in answer.json["objects"]]
        if not (token := answer.json["continue"]):
            return names
    raise AssertionError("the pages do not end")


@pytest.fixture
async def several(running: Running) -> Running:
    stored(running, "good", UP)
    stored(running, "down", DOWN)
    stored(running, "failed", FAILED, namespace="shop")
    return running


async def test_the_worst_come_first(several):
    assert await tracked(several) == ["failed", "down", "good"]


@pytest.mark.parametrize("limit", [1, 2, 3, 500])
async def test_every_object_is_on_one_page(several, limit):
    assert await tracked(several, f"limit={limit}") == ["failed", "down", "good"]


@table("contract/object_queries.yaml", "query", "names")
async def test_objects_are_found_by_what_they_are(several, case):
    assert await tracked(several, case["query"]) == case["names"], case.because


async def test_an_object_says_all_that_is_known_of_it(running):
    running.watching.current("deployments.apps", is_current=True)
    stored(running, "new", {})
    stored(running, "new", UP, 2)
    (one,) = (await running.ops("/api/objects?uid=uid-new")).json["objects"]
    assert one.pop("since").endswith("Z")
    assert one.pop("intentSince").endswith("Z")
    assert 0 < one.pop("observationLagSeconds") == one.pop("reconcileDurationSeconds")
    assert one == {
        "group": "apps", "resource": "deployments", "kind": "Deployment", "namespace": "default",
        "name": "new", "uid": "uid-new", "generation": 1, "observedGeneration": 1,
        "reconciledGeneration": 1, "ready": True, "settled": True, "health": "Green",
        "readyFlips": 0, "openFindings": 0, "worstFinding": "", "blockedBy": "",
    }  # fmt: skip


@table("contract/bad_object_queries.yaml", "query", "said")
async def test_a_bad_query_is_told_what_is_wrong(running, case):
    answer = await running.ops(f"/api/objects?{case['query']}")
    assert answer.status == 400
    assert case["said"] in answer.json["error"], case.because


async def test_a_deleted_object_is_gone(several):
    several.watching.gone("uid-good")
    assert await tracked(several) == ["failed", "down"]
    assert (await several.samples("genguard_objects"))[
        'group="apps",health="Green",kind="Deployment"'
    ] == 0


async def test_reviews_say_nothing_of_status(running):
    named = {"metadata": {"uid": "u", "name": "n", "generation": 1}, "spec": {"replicas": 1}}
    asked = make_review(new=named | {"status": UP}, old=named, subresource="status")
    await running.review(asked, "/outcome")
    await running.caught_up()
    assert await tracked(running) == []


async def test_what_is_tracked_is_counted_by_kind_and_health(several):
    labels = 'group="apps",health="%s",kind="Deployment"'
    found = await several.samples("genguard_objects")
    assert {found[labels % health] for health in ("Green", "Yellow", "Red")} == {1}
    stored(several, "late", UP, 1, generation=2)
    kind = 'group="apps",kind="Deployment"'
    assert (await several.samples("genguard_generation_lag_objects"))[kind] == 1
    assert (await several.samples("genguard_ready_flips_total"))[kind] == 0


async def test_an_intent_is_measured_from_its_creation_to_the_status_that_fulfils_it(running):
    running.watching.current("deployments.apps", is_current=True)
    stored(running, "n", {})
    stored(running, "n", UP, 2)
    kind = 'group="apps",kind="Deployment"'
    for family in ("genguard_observation_lag_seconds", "genguard_reconcile_duration_seconds"):
        assert (await running.samples(f"{family}_count"))[kind] == 1
        assert (await running.samples(f"{family}_sum"))[kind] > 0


async def test_kinds_that_nobody_has_described_share_a_label(running):
    for number in range(50):
        metadata = {"uid": f"u{number}", "name": "n", "generation": 1}
        document = {"apiVersion": "example.org/v1", "kind": f"Things{number}", "spec": {}}
        found = fields_of({**document, "metadata": metadata, "status": {}})
        running.watching.seen(f"things{number}.example.org", found)
    kinds = set(await running.samples("genguard_generation_lag_objects"))
    assert kinds == {'group="other",kind="other"'}
    assert len((await running.ops("/api/objects?kind=Things7")).json["objects"]) == 1
