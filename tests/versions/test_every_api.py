"""1.37 with every API that a gate or a flag turns on: each kind is stored as the table says."""

from collections.abc import Iterator

import pytest

from genguard.generation import load_table
from tests.controlplane.build import PROGRAMS, pinned
from tests.controlplane.discovery import ServedResource
from tests.controlplane.plane import ControlPlane
from tests.differential.samples import Filler, load_samples, notation
from tests.versions.contract import NAMESPACE
from tests.versions.probe import every_api, probe
from tools.versions.published import find_release

pytestmark = pytest.mark.slow

MINOR = "1.37"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    release = find_release(pinned("k8s.io/kubernetes", PROGRAMS[f"kube-apiserver-{MINOR}"]))
    with ControlPlane(every_api(release)) as running:
        running.client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        yield running


@pytest.fixture(scope="module")
def served(plane: ControlPlane) -> list[ServedResource]:
    return [one for one in plane.client.discover() if one.persisted]


def test_it_serves_what_the_table_says_in_the_versions_that_it_says(
    served: list[ServedResource],
) -> None:
    table = load_table(MINOR)
    told = {
        (row.name, version)
        for row in table.rows
        if row.persisted and table.serves(row)
        for version in table.versions(row)
    }
    assert {(notation(one), one.version) for one in served} == told


def test_every_kind_in_every_version_is_stored_as_predicted(
    plane: ControlPlane, served: list[ServedResource]
) -> None:
    probed = probe(plane.client, served, MINOR)
    print(f"\n{MINOR}, every API: {probed.writes} writes of {len(probed.kinds)} kinds")
    assert not probed.disagreements, "\n".join(probed.disagreements)
    assert (probed.without_sample, probed.refused) == ((), ())
    assert probed.kinds == {notation(one) for one in served}


@pytest.mark.parametrize(
    ("name", "is_refused"),
    [
        ("evictionrequests.lifecycle.k8s.io", True),
        ("evictions.lifecycle.k8s.io", True),
        ("horizontalpodautoscalers.autoscaling", False),
    ],
)
def test_a_status_that_clears_what_was_observed_is_refused_where_the_table_says(
    plane: ControlPlane, served: list[ServedResource], name: str, is_refused: bool
) -> None:
    resource = next(one for one in served if notation(one) == name)
    (row,) = (row for row in load_table(MINOR).rows if row.name == name)
    assert (row.observed_kept is not None and row.observed_kept.how == "refused") is is_refused
    body = Filler(3, NAMESPACE).fill(load_samples()[name].object(resource.version))
    document = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    document["metadata"] = {"name": f"observed-{resource.resource}"}
    plane.client.post(resource.path(NAMESPACE), document)
    status = resource.path(NAMESPACE, document["metadata"]["name"], "status")
    for number in (1, 2):
        plane.client.patch(status, {"status": {"observedGeneration": number}})
    for worse in (None, 1):
        answer = plane.client.patch(status, {"status": {"observedGeneration": worse}}, check=False)
        assert (answer.status == 422) is is_refused, (worse, answer.body)


def test_conditions_of_an_autoscaler_say_a_generation(
    plane: ControlPlane, served: list[ServedResource]
) -> None:
    for resource in served:
        if notation(resource) != "horizontalpodautoscalers.autoscaling" or resource.version != "v2":
            continue
        body = load_samples()[notation(resource)].object("v2")
        document = {"metadata": {"name": "conditions"}, **body}
        plane.client.post(resource.path(NAMESPACE), document)
        condition = {"type": "AbleToScale", "status": "True", "observedGeneration": 1}
        written = plane.client.patch(
            resource.path(NAMESPACE, "conditions", "status"),
            {"status": {"conditions": [condition]}},
        ).body
        assert written["status"]["conditions"][0]["observedGeneration"] == 1
        return
    raise AssertionError("no autoscaling/v2")


def test_the_generation_of_a_pool_is_not_that_of_its_slice(
    plane: ControlPlane, served: list[ServedResource]
) -> None:
    resource = next(
        one
        for one in served
        if notation(one) == "resourceslices.resource.k8s.io" and one.version == "v1"
    )
    body = Filler(5, NAMESPACE).fill(load_samples()[notation(resource)].object("v1"))
    pool = body["spec"]["pool"]
    document = {"metadata": {"name": "pool"}, **body}
    made = plane.client.post(resource.path(), document).body
    seen = []
    for number in (7, 8, 0):
        change = {"spec": {"pool": {**pool, "generation": number}}}
        made = plane.client.patch(resource.path(None, "pool"), change).body
        seen.append((made["spec"]["pool"]["generation"], made["metadata"]["generation"]))
    assert [number for number, _ in seen] == [7, 8, 0]
    assert [own for _, own in seen] == [2, 3, 4]
