"""The recorded loops of webhooks, policies and two appliers, predicted before they run.

The webhooks and policies of a scenario are registered on a real control plane, and `genguard
converge` is given the manifests alone: what somebody asks for, and goes on asking for. Static
webhooks, which no API lists, are left out.
"""

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from genguard.blame.field_paths import path_of_pointer, show
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.converge.asked import Asked, asked_in
from tests.nightly import by_day
from tests.scenarios.catalogue import Scenario, catalogue
from tests.scenarios.expecting import EXPECTATIONS
from tests.scenarios.stage import define, disturbed
from webhook.cli import main

EXPECTED = yaml.load(EXPECTATIONS.read_text(), yaml.CSafeLoader)
MISSED = {
    "phase-overwritten": "another scenario has this webhook, and its controller is content: a note",
    "label-of-a-policy-and-an-operator": "a policy acts on the writes of one, and harms the other",
    "label-that-one-sets-and-another-takes-away": "who takes it away has no manifest",
    "finalizer-added-and-removed-by-turns": "the same",
}
"""Loops that manifests do not show, and why."""
_MOST_MISSED = 0.1
ACTING = {name: one for name, one in catalogue().items() if one.hooks or one.policies}
APPLYING = {
    name: one
    for name, one in catalogue().items()
    if not (one.hooks or one.policies)
    and EXPECTED[name].get("find")
    and len({each.user for each in asked_in(one) if each.is_change}) > 1
}


@pytest.fixture(scope="module")
def plane(apiserver: ControlPlane) -> ControlPlane:
    define(apiserver)
    return apiserver


def contested(plane: ControlPlane, namespace: str, *asked: Asked) -> list[dict[str, Any]]:
    """What `genguard converge` says of manifests that are applied by the user of the first."""
    flags = ("-n", namespace, f"--kubeconfig={plane.kubeconfig}", "-o", "json")
    who = (f"--as={asked[0].user}", "--as-group=system:masters")
    given = "".join(f"{json.dumps(one.manifest)}\n" for one in asked)
    done = CliRunner().invoke(main, ["converge", "-f", "-", *flags, *who], input=given)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    found = [json.loads(line) for line in done.stdout.splitlines()]
    is_refused = "the API server refuses it" in done.stderr
    assert done.exit_code == int(is_refused or any(one["fights"] for one in found)), done.output
    return found


def fights(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for each in found for one in each["contested"] if one["level"] == "fight"]


def names_culprit(played: Scenario, found: list[dict[str, Any]]) -> bool:
    first = EXPECTED[played.name]["find"][0]["actor"]
    actors = {one["name"] for one in (first if isinstance(first, list) else [first])}
    return any(one["name"] in actors for each in fights(found) for one in each["actors"])


@pytest.mark.parametrize("name", by_day(sorted(ACTING), every=4))
def test_a_loop_is_predicted_with_its_culprit_and_a_quiet_life_is_no_fight(
    plane: ControlPlane, namespace: NamespaceFactory, name: str
) -> None:
    where, played = namespace(plane), ACTING[name]
    is_loop = bool(EXPECTED[name].get("find"))
    # In a quiet life nobody insists on what is written later.
    asked = [one for one in asked_in(played) if is_loop or not one.is_change]
    with disturbed(plane, played, where):
        found = [each for one in asked for each in contested(plane, where, one)]
    if is_loop and name not in MISSED:
        assert names_culprit(played, found), found
    else:
        assert not fights(found)


@pytest.mark.parametrize("name", sorted(APPLYING))
def test_two_who_ask_for_different_values_of_a_field_are_told_so(
    plane: ControlPlane, namespace: NamespaceFactory, name: str
) -> None:
    asked = [one for one in asked_in(APPLYING[name]) if one.is_change]
    found = fights(contested(plane, namespace(plane), *asked))
    if name in MISSED:
        assert not found
        return
    pointer = EXPECTED[name]["find"][0]["path"]
    wanted = show(path_of_pointer(pointer, asked[-1].manifest) or ())
    assert any(one["field"].startswith(wanted) for one in found), (wanted, found)


def test_nine_of_ten_loops_are_predicted() -> None:
    loops = [name for name in (*ACTING, *APPLYING) if EXPECTED[name].get("find")]
    assert set(MISSED) <= set(loops)
    print(f"{len(loops) - len(MISSED)} of {len(loops)} loops are predicted from manifests")
    assert len(MISSED) <= _MOST_MISSED * len(loops)
