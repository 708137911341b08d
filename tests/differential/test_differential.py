"""The engine against a real kube-every_api: what is predicted is what is stored, in every case.

genguard runs as users run it, registered for everything, and records what it is sent. Thousands of
seeded random writes go through the API server; then each prediction is held against the object
that the server answered with, which is what it stored.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path

import pytest

from genguard.generation import load_table
from tests.controlplane.client import wait_until
from tests.controlplane.discovery import ServedResource
from tests.controlplane.plane import ControlPlane
from tests.differential.samples import Filler, definitions, load_samples, notation
from tests.differential.tally import Reviews, Tally, check
from tests.differential.writes import SUBRESOURCE_WRITES, WRITER, Target, finish, random_write
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule

SEED = int(os.environ.get("GENGUARD_SEED", "1"))
WRITES_PER_OBJECT = 24
NAMESPACE = "differential"
# Every verb and subresource must have been drawn at least once.
WRITTEN_WORDS = {
    "create", "change", "change by put", "change by apply", "metadata", "no change", "dry run",
    "own generation", "status", "status by put", "status on main", "scale", "resize",
    "ephemeral containers", "bind", "evict", "approve", "finalize", "hold", "release",
    "change while deleting", "delete", "delete Orphan", "delete Foreground", "delete Background",
}  # fmt: skip


@pytest.fixture(scope="module")
def served(every_api: ControlPlane) -> Iterator[list[ServedResource]]:
    """Every stored resource in each of its versions, the sample definitions' included."""
    for definition in definitions()["items"]:
        every_api.client.post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition, check=False
        )
    custom = {definition["metadata"]["name"] for definition in definitions()["items"]}

    def discovered() -> list[ServedResource] | None:
        found = [one for one in every_api.client.discover() if one.persisted]
        return found if custom <= {notation(one) for one in found} else None

    yield wait_until(discovered, what="the sample definitions served")
    places = [f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{one}" for one in custom]
    for place in places:
        every_api.client.delete(place, check=False)

    def are_gone() -> bool:
        return all(
            every_api.client.get(one, check=False).status == HTTPStatus.NOT_FOUND for one in places
        )

    # Whoever defines them next would be refused while they are being deleted.
    wait_until(are_gone, what="the end of the sample definitions")


def served_samples() -> set[str]:
    """The names of the samples that this API server serves; some are of newer ones."""
    table = load_table()
    newer = {row.name for row in table.rows if not table.serves(row)}
    return set(load_samples()) - newer


@pytest.fixture(scope="module")
def recording(
    every_api: ControlPlane, served: list[ServedResource], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """What genguard is sent: it is called for every write of this module's users, and no other."""
    del served
    every_api.client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}, check=False)
    # Controllers inside the API server write too; the registrations are probed by configmaps.
    ours = f"request.userInfo.username.startsWith('{WRITER}') || request.name.startsWith('probe-')"
    path = tmp_path_factory.mktemp("differential") / "recording.ndjson"
    with (
        Genguard("--audit-only", f"--record={path}") as running,
        registered(
            every_api,
            NAMESPACE,
            running,
            rules=[rule(["*/*"])],
            namespaceSelector={},
            failurePolicy="Fail",  # a review that goes wrong must fail the test, not hide
            matchConditions=[{"name": "ours", "expression": ours}],
        ),
    ):
        yield path


def test_every_stored_resource_has_a_sample_and_a_row(served: list[ServedResource]):
    names = {notation(one) for one in served}
    assert names == served_samples(), "discovery and samples.yaml disagree"
    stored = {row.name for row in load_table().rows if row.persisted}
    custom = {definition["metadata"]["name"] for definition in definitions()["items"]}
    assert names - custom <= stored, "the table lacks a stored resource"
    assert len(names - custom) >= 66


def test_two_thousand_random_writes_are_predicted_exactly(
    every_api: ControlPlane, served: list[ServedResource], recording: Path
):
    lived = (one for one in served for _ in range(_lives(one)))
    targets = [
        _target(every_api, resource, SEED * 1_000 + index) for index, resource in enumerate(lived)
    ]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(_life_of, targets))
    reviews = _recorded(recording)
    tally = Tally()
    for target in targets:
        for written in target.written:
            tally.add(written, check(written, reviews, alone=True))
    print(
        f"\nseed {SEED}: {tally.checked} writes of {len(tally.by_resource)} resources, "
        f"{reviews.count} reviews, {len(tally.disagreements)} disagreements; "
        f"{sum(t.refused for t in targets)} writes refused by the API server\n"
        f"{dict(tally.by_kind_of_write.most_common())}"
    )
    assert not tally.disagreements, "\n".join(tally.disagreements)
    assert tally.checked >= 2_000
    unwritten = WRITTEN_WORDS - tally.by_kind_of_write.keys()
    assert not unwritten, f"no write of {unwritten}: choose another seed"
    assert set(tally.by_resource) == served_samples()
    assert not [t.resource for t in targets if not t.written], "a resource without a write"


@pytest.mark.nightly
def test_predictions_hold_when_many_write_one_object_at_once(
    every_api: ControlPlane, served: list[ServedResource], recording: Path
):
    names = ("deployments.apps", "pods", "widgets.example.org", "gadgets.example.org", "configmaps")
    resources = [one for one in served if notation(one) in names]
    crowds: list[list[Target]] = []
    for index, resource in enumerate(resources):
        first = _target(every_api, resource, SEED * 1_000 + 500 + index)
        first.create()
        others = [_target(every_api, resource, SEED * 7_000 + number) for number in range(5)]
        for other in others:
            other.name = first.name
        crowds.append([first, *others])

    def write(target: Target) -> None:
        for _ in range(15):
            random_write(target)

    with ThreadPoolExecutor(6) as pool:
        for crowd in crowds:
            list(pool.map(write, crowd))
    reviews = _recorded(recording)
    tally = Tally()
    for crowd in crowds:
        for target in crowd:
            for written in target.written:
                tally.add(written, check(written, reviews, alone=False))
    print(f"\n{tally.checked} concurrent writes, {len(tally.disagreements)} disagreements")
    assert not tally.disagreements, "\n".join(tally.disagreements)
    assert tally.checked >= 200


def _target(plane: ControlPlane, resource: ServedResource, seed: int) -> Target:
    sample, filler = load_samples()[notation(resource)], Filler(seed, NAMESPACE)
    return Target(plane.client, resource, sample, filler, NAMESPACE)


def _lives(resource: ServedResource) -> int:
    """Kinds with many subresources live more often, so that each is written to."""
    return 1 + 2 * len({*SUBRESOURCE_WRITES, "eviction"} & resource.subresources.keys())


def _life_of(target: Target) -> None:
    draw = target.filler.random
    target.create(generation=draw.choice((None, None, 1, 7)), finalizer=draw.random() < 0.2)
    for _ in range(WRITES_PER_OBJECT):
        random_write(target)
    finish(target)


def _recorded(recording: Path) -> Reviews:
    """What was recorded by now: the recorder writes behind the answers."""
    size = -1

    def still() -> bool:
        nonlocal size
        before, size = size, recording.stat().st_size
        return before == size

    wait_until(still, every=0.3, what="the recording complete")
    return Reviews(recording)
