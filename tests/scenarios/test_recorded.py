"""Every recorded scenario through replay: what must be found is, and nothing else is said."""

import json

import pytest

from genguard.detection.questions import ALL, FINDINGS
from tests.converge.asked import asked_in
from tests.nightly import by_turns
from tests.scenarios import recording
from tests.scenarios.catalogue import catalogue
from tests.scenarios.expecting import complaints, examine, expectations

EXPECTED = expectations()
LOOPS = [name for name, one in EXPECTED.items() if one.find]
QUIET = [name for name, one in EXPECTED.items() if not one.find]
_LARGEST = 100_000
"""Bytes. The faster the machine, the more pods come and go in a fight over replicas."""


def test_every_scenario_is_recorded_and_has_its_expectation():
    recorded = recording.recorded()
    assert all(recording.reviews_of(name).exists() for name in recorded)
    assert sorted(catalogue()) == recorded == sorted(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_step_that_is_misspelt_is_an_error_before_there_is_a_cluster(name):
    """Each is taken until what comes next needs one."""
    assert all(one.user and one.manifest for one in asked_in(catalogue()[name]))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_loop_is_found_in_time_with_its_object_field_and_actor_and_nothing_else(name):
    result = examine(recording.read_lines(name), recording.webhooks_of(name))
    assert not list(complaints(result, EXPECTED[name]))


def test_each_question_has_a_loop_that_it_must_find():
    found = {one["detector"] for name in LOOPS for one in EXPECTED[name].find}
    assert found <= {*FINDINGS}
    assert all(found & {one.name for one in question.findings} for question in ALL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "phases"), by_turns(QUIET, [("mutate",), ("mutate", "outcome"), ("intent", "mutate")])
)
def test_a_quiet_scenario_is_quiet_with_fewer_registrations(name, phases):
    result = examine(_only(name, phases), recording.webhooks_of(name))
    assert not list(complaints(result, EXPECTED[name]))


@pytest.mark.parametrize("name", [n for n in LOOPS if n != "empty-ingress-put-again"])
def test_without_outcomes_nobody_innocent_is_blamed(name):
    result = examine(_only(name, ("intent", "mutate")), recording.webhooks_of(name))
    assert not [one for one in complaints(result, EXPECTED[name]) if one.startswith("blames")]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_an_older_version_of_the_server_makes_no_false_alarm(name):
    result = examine(recording.read_lines(name), recording.webhooks_of(name), "1.34")
    assert not list(complaints(result, EXPECTED[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_found_when_no_webhooks_are_given(name):
    result = examine(recording.read_lines(name), None)
    for one in result.findings:
        assert not [actor for actor in one["actors"] if actor["type"] == "webhook"]
    found = {(one["detector"], one["severity"] == "info") for one in result.findings}
    alone = {
        (one["detector"], one.get("severity") == "info")
        for one in EXPECTED[name].find
        if "causedBy" not in one
    }
    assert alone <= found


def test_a_recording_is_small_and_tells_nothing_of_the_machine(subtests):
    for name in EXPECTED:
        with subtests.test(name):
            assert recording.reviews_of(name).stat().st_size < _LARGEST
            text = b"\n".join(recording.read_lines(name))
            listed = recording.webhooks_of(name).read_bytes()
            for word in (b"caBundle", b"managedFields", b"/tmp/", b"/home/", b"/root/", b"Bearer"):
                assert word not in text.replace(b"/tmp/0", b"")
                assert word not in listed
            assert json.loads(listed)["kind"] == "List"


def _only(name, phases):
    for line in recording.read_lines(name):
        if json.loads(line)["phase"] in phases:
            yield line
