"""What genguard predicts is what is stored, on one Kubernetes after the other, old and new.

1.30, 1.36 and 1.37 are API servers built from source; those between are 1.36 that emulates them.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from genguard.generation import load_table
from tests.controlplane.client import wait_until
from tests.controlplane.discovery import ServedResource
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.differential.samples import definitions, notation
from tests.differential.tally import Reviews, Tally, check
from tests.differential.writes import WRITER
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered, rule
from tests.versions.contract import NAMESPACE, live, targets
from tests.versions.facts import FACTS, GUARDED, Server
from webhook.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "concepts.md"
RELEASES = {
    "1.30": Options(minor="1.30"),
    "1.33": Options(emulated_version="1.33"),
    "1.34": Options(emulated_version="1.34"),
    "1.35": Options(emulated_version="1.35"),
    "1.36": Options(),
    "1.37": Options(minor="1.37"),
}
_NOT_HIDDEN = {"failurePolicy": "Fail", "timeoutSeconds": 10}
"""A review that goes wrong fails the test."""
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True, slots=True)
class Release:
    """A control plane; what it stores by itself, and with the sample definitions."""

    version: str
    plane: ControlPlane
    stock: list[ServedResource]
    served: list[ServedResource]


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> Iterator[Release]:
    custom = {definition["metadata"]["name"] for definition in definitions()["items"]}
    with ControlPlane(RELEASES[request.param]) as plane:

        def stored() -> list[ServedResource]:
            return [one for one in plane.client.discover() if one.persisted]

        def with_custom() -> list[ServedResource] | None:
            found = stored()
            return found if custom <= {notation(one) for one in found} else None

        stock = stored()
        for definition in definitions()["items"]:
            plane.client.post(_DEFINITIONS, definition)
        plane.client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        served = wait_until(with_custom, what="the sample definitions served")
        yield Release(request.param, plane, stock, served)


def test_it_is_the_version_that_it_is_taken_for(release: Release) -> None:
    where = ["--kubeconfig", str(release.plane.kubeconfig), "--context", "genguard-tests"]
    result = CliRunner().invoke(main, ["explain", "widgets.example.org", "-o", "json", *where])
    told = json.loads(result.stdout)["serverVersion"]
    assert told.removeprefix("v").split(".")[:2] == release.version.split(".")


def test_what_it_stores_without_a_flag_is_what_the_table_says(release: Release) -> None:
    table = load_table(release.version)
    known = {
        row.name for row in table.rows if row.persisted and table.serves(row) and table.enables(row)
    }
    assert {notation(one) for one in release.stock} == known


def test_every_prediction_is_what_is_stored(release: Release, tmp_path: Path) -> None:
    plane, recording = release.plane, tmp_path / "recording.ndjson"
    ours = f"request.userInfo.username.startsWith('{WRITER}') || request.name.startsWith('probe-')"
    written = targets(plane.client, release.served)
    with (
        Genguard("--audit-only", f"--record={recording}") as guard,
        registered(
            plane,
            NAMESPACE,
            guard,
            rules=[rule(["*/*"])],
            namespaceSelector={},
            **_NOT_HIDDEN,
            matchConditions=[{"name": "ours", "expression": ours}],
        ),
        ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(live, written))
        assert guard.stop(at_once=True) == 0  # what is recorded is whole then
    reviews, tally = Reviews(recording, release.version), Tally()
    for target in written:
        for one in target.written:
            tally.add(one, check(one, reviews, alone=True))
    refused = sum(target.refused for target in written)
    print(
        f"\n{release.version}: {tally.checked} writes of {len(tally.by_resource)} resources, "
        f"{len(tally.disagreements)} disagreements; {refused} writes refused"
    )
    assert not tally.disagreements, "\n".join(tally.disagreements)
    assert set(tally.by_resource) == {notation(one) for one in release.served}


def test_the_table_in_the_documents_is_right(release: Release) -> None:
    plane = release.plane
    plane.client.post("/api/v1/namespaces", {"metadata": {"name": GUARDED}})
    server = Server(plane.client, release.stock)
    with (
        Genguard(f"--kubeconfig={plane.kubeconfig}") as guard,
        registered(plane, GUARDED, guard, **_NOT_HIDDEN),
    ):
        measured = {name: ask(server) for name, ask in FACTS.items()}
    stale = f"the column {release.version} of the table in docs/concepts.md should be {measured}"
    assert measured == _column(release.version), stale


def _column(version: str) -> dict[str, str]:
    """What the table says of one version, by row."""
    lines = PAGE.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| Kubernetes |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    head, _, *body = rows
    at = head.index(version)
    return {cells[0]: cells[at] for cells in body}
