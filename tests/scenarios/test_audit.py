"""The audit log of every recorded run: it shows what the reviews of the run show."""

import pytest

from tests.scenarios import recording
from tests.scenarios.catalogue import catalogue
from tests.scenarios.expecting import complaints, examine, expectations

EXPECTED = expectations()
LOOPS = [name for name, one in EXPECTED.items() if one.find]
QUIET = [name for name, one in EXPECTED.items() if not one.find]
_LARGEST = 62_000


def test_every_scenario_has_an_audit_log():
    missing = [name for name in catalogue() if not recording.audit_of(name).exists()]
    assert not missing, f"record them: python -m tests.scenarios.record {' '.join(missing)}"


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_found_in_the_audit_log_in_time_and_with_the_same_actor(name):
    result = examine(recording.read_audit(name), recording.webhooks_of(name))
    assert not list(complaints(result, EXPECTED[name], is_of_audit_log=True))


@pytest.mark.parametrize("name", QUIET)
def test_the_audit_log_of_a_quiet_scenario_has_no_warning(name):
    result = examine(recording.read_audit(name), recording.webhooks_of(name))
    assert not list(complaints(result, EXPECTED[name], is_of_audit_log=True))


@pytest.mark.parametrize("name", LOOPS)
def test_a_webhook_is_named_by_its_patches_when_none_are_given(name):
    result = examine(recording.read_audit(name), None)
    wanted = [one for one in EXPECTED[name].find if _names_a_webhook(one)]
    for one in wanted:
        found = [it["actors"][0] for it in result.findings if it["detector"] == one["detector"]]
        assert (one["actor"]["name"], "certain") in [(it["name"], it["confidence"]) for it in found]


_NOT_TOLD = (
    *(b"managedFields", b"sourceIPs", b"/tmp/", b"/home/", b"/root/", b"Bearer"),
    *(b'"subresource":"token"', b'"eyJ', b"BEGIN CERTIFICATE", b"caBundle"),
)


def test_an_audit_log_is_small_and_tells_nothing_of_the_machine(subtests):
    for name in EXPECTED:
        with subtests.test(name):
            assert recording.audit_of(name).stat().st_size < _LARGEST
            text = b"\n".join(recording.read_audit(name)).replace(b"/tmp/0", b"")
            assert [word for word in _NOT_TOLD if word in text] == []


def _names_a_webhook(wanted):
    return isinstance(wanted.get("actor"), dict) and wanted["actor"]["type"] == "webhook"
