"""GET /api/objects and the metrics of tracked objects: what users and Prometheus are shown."""

import pytest

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
    "conditions": [
        {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
    ]
}


async def stored(run: Running, name: str, status: object, **metadata: object) -> None:
    """A status write of a Deployment, as /outcome sees it."""
    named = {"metadata": {"generation": 1, "uid": f"uid-{name}", "name": name, **metadata}}
    named |= {"spec": {"replicas": 1}}
    asked = make_review(new=named | {"status": status}, old=named, subresource="status")
    await run.review(asked, "/outcome")


async def tracked(run: Running, query: str = "", *, most: int = 100) -> list[str]:
    """The names on all pages, once the queue is worked off."""
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
    await stored(running, "good", UP)
    await stored(running, "down", DOWN)
    await stored(running, "failed", FAILED, namespace="shop")
    await running.caught_up()
    return running


async def test_the_worst_come_first(several):
    assert await tracked(several) == ["failed", "down", "good"]


@pytest.mark.parametrize("limit", [1, 2, 3, 500])
async def test_every_object_is_on_one_page(several, limit):
    assert await tracked(several, f"limit={limit}") == ["failed", "down", "good"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("health=Red", ["failed"]),
        ("namespace=shop", ["failed"]),
        ("name=good", ["good"]),
        ("uid=uid-down", ["down"]),
        ("group=apps&kind=Deployment", ["failed", "down", "good"]),
        ("group=", []),
        ("uid=nobody", []),
        ("kind=Pod", []),
    ],
)
async def test_objects_are_found_by_what_they_are(several, query, names):
    assert await tracked(several, query) == names


async def test_an_object_says_all_that_is_known_of_it(running):
    created = {"metadata": {"uid": "uid-new", "name": "new", "generation": 1}}
    created |= {"spec": {"replicas": 1}}
    await running.review(make_review("CREATE", new=created), "/outcome")
    await stored(running, "new", UP)
    await running.caught_up()
    (one,) = (await running.ops("/api/objects?uid=uid-new")).json["objects"]
    assert one.pop("since").endswith("Z")
    assert one.pop("intentSince").endswith("Z")
    assert 0 < one.pop("observationLagSeconds") == one.pop("reconcileDurationSeconds")
    assert one == {
        "group": "apps", "resource": "deployments", "kind": "Deployment", "namespace": "default",
        "name": "new", "uid": "uid-new", "generation": 1, "observedGeneration": 1,
        "reconciledGeneration": 1, "ready": True, "settled": True, "health": "Green",
        "readyFlips": 0, "stored": False, "openFindings": 0, "worstFinding": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("colour=red", "unknown parameter 'colour'; known are continue, group, health"),
        ("health=green", "health must be one of Green, Yellow, Red"),
        ("limit=0", "limit must be a number from 1 to 1000"),
        ("limit=1001", "limit must be a number"),
        ("limit=%D9%A3", "limit must be a number"),
        ("limit=-1", "limit must be a number"),
        ("continue=xyz", "continue must be the value from an earlier answer"),
        ("continue=7b7d", "continue must be the value from an earlier answer"),
    ],
)
async def test_a_bad_query_is_told_what_is_wrong(running, query, said):
    answer = await running.ops(f"/api/objects?{query}")
    assert answer.status == 400
    assert said in answer.json["error"]


async def test_a_deleted_object_is_gone(several):
    old = {"metadata": {"uid": "uid-good", "name": "good"}}
    await several.review(make_review("DELETE", old=old), "/outcome")
    await several.caught_up()
    assert await tracked(several) == ["failed", "down"]
    assert (await several.samples("genguard_objects"))[
        'group="apps",health="Green",kind="Deployment"'
    ] == 0


async def test_only_the_outcome_is_believed(running):
    named = {"metadata": {"uid": "u", "name": "n", "generation": 1}, "spec": {"replicas": 1}}
    asked = make_review(new=named | {"status": UP}, old=named, subresource="status")
    await running.review(asked, "/intent")
    await running.review(asked, "/mutate")
    await running.caught_up()
    assert await tracked(running) == []


async def test_what_is_tracked_is_counted_by_kind_and_health(several):
    labels = 'group="apps",health="%s",kind="Deployment"'
    found = await several.samples("genguard_objects")
    assert {found[labels % health] for health in ("Green", "Yellow", "Red")} == {1}
    await stored(several, "late", UP, generation=2)
    await several.caught_up()
    kind = 'group="apps",kind="Deployment"'
    assert (await several.samples("genguard_generation_lag_objects"))[kind] == 1
    assert (await several.samples("genguard_ready_flips_total"))[kind] == 0
    assert (await several.samples("genguard_tracked_bytes"))[""] > 4 * 300


async def test_an_intent_is_measured_from_its_write_to_the_status_that_fulfils_it(running):
    named = {"metadata": {"uid": "u", "name": "n", "generation": 1}, "spec": {"replicas": 1}}
    await running.review(make_review("CREATE", new=named), "/outcome")
    asked = make_review(new=named | {"status": UP}, old=named, subresource="status")
    await running.review(asked, "/outcome")
    await running.caught_up()
    kind = 'group="apps",kind="Deployment"'
    for family in ("genguard_observation_lag_seconds", "genguard_reconcile_duration_seconds"):
        assert (await running.samples(f"{family}_count"))[kind] == 1
        assert (await running.samples(f"{family}_sum"))[kind] > 0


async def test_kinds_that_nobody_has_described_share_a_label(running):
    for number in range(50):
        resource = f"things{number}.example.org"
        named = {"metadata": {"uid": f"u{number}", "generation": 1}, "spec": {}}
        asked = make_review(resource=resource, new=named | {"status": {}}, old=named)
        await running.review(asked, "/outcome")
    await running.caught_up()
    kinds = set(await running.samples("genguard_generation_lag_objects"))
    assert kinds == {'group="other",kind="other"'}
    assert len((await running.ops("/api/objects?kind=Things7")).json["objects"]) == 1
