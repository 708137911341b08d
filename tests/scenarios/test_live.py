"""A few scenarios once more on a real control plane: recordings must not have grown old."""

import pytest

from tests.cases_loader import read_beside
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.nightly import by_day
from tests.scenarios import recording
from tests.scenarios.catalogue import catalogue
from tests.scenarios.expecting import complaints, examine, expectations
from tests.scenarios.stage import define, play

LIVE = read_beside(__file__, "live.yaml")


@pytest.fixture(scope="module")
def served(cluster: ControlPlane) -> ControlPlane:
    define(cluster)
    return cluster


@pytest.mark.parametrize("name", by_day(LIVE, every=2))
def test_a_scenario_played_now_is_examined_as_its_recording(
    served: ControlPlane, namespace: NamespaceFactory, tmp_path, monkeypatch, name
):
    monkeypatch.setattr(recording, "FOLDER", tmp_path)
    played = play(served, catalogue()[name], namespace(served))
    recording.write(name, *played)
    result = examine(recording.read_lines(name), recording.webhooks_of(name))
    assert not list(complaints(result, expectations()[name]))
