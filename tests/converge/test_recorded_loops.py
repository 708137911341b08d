"""The recorded loops in which a webhook or policy takes part, predicted before they run.

Each scenario's webhooks are registered on a real control plane, and `genguard converge` is given
the manifests alone: what somebody asks for and goes on asking for.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.converge.asked import asked_in
from tests.scenarios.catalogue import Scenario, catalogue
from tests.scenarios.judging import EXPECTATIONS
from tests.scenarios.stage import defined, disturbed
from webhook.cli import main

EXPECTED = yaml.safe_load(EXPECTATIONS.read_text())
TAKES_PART = {
    name: one
    for name, one in catalogue().items()
    if (one.hooks or one.policies) and not one.statics
}


@pytest.fixture(scope="module")
def plane(apiserver: ControlPlane) -> Iterator[ControlPlane]:
    with defined(apiserver):
        yield apiserver


def verdicts(plane: ControlPlane, played: Scenario, namespace: str) -> list[dict[str, Any]]:
    """What is said of each manifest of a scenario, each alone."""
    found = []
    is_quiet = not EXPECTED[played.name].get("find")
    with disturbed(plane, played, namespace):
        for user, manifest in asked_in(played, created_alone=is_quiet):
            flags = ("-f", "-", "-n", namespace, f"--kubeconfig={plane.kubeconfig}", "-o", "json")
            text = json.dumps(manifest)
            done = CliRunner().invoke(main, ["converge", *flags], input=text)
            assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
            print(user, done.stdout, done.stderr)
            found += [json.loads(line) for line in done.stdout.splitlines()]
            assert done.exit_code == int(any(one["fights"] for one in found[-1:])), done.output
    return found


@pytest.mark.parametrize("name", sorted(TAKES_PART))
def test_a_loop_is_predicted_and_a_quiet_life_is_no_fight(
    plane: ControlPlane, namespace: NamespaceFactory, name: str
) -> None:
    found = verdicts(plane, TAKES_PART[name], namespace(plane))
    fights = [
        one for each in found for one in each["contested"] if one["level"] == "fight"
    ]
    expected = EXPECTED[name].get("find")
    if not expected:
        assert not fights
        return
    first = expected[0]["actor"]
    actors = first if isinstance(first, list) else [first]
    assert {one["name"] for one in actors} & {one["name"] for f in fights for one in f["actors"]}
