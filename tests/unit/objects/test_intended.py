"""What of a status is remembered to be put back, and what of another replica's word is believed."""

import msgspec
import pytest

from genguard.objects.intended import Intended, parse_restored
from genguard.objects.observed import NOTHING_OBSERVED, Condition, Observed

PHASE = parse_restored("status.phase")
PHASE_PATH = ("status", "phase")


@pytest.mark.parametrize(
    ("status", "fields", "because"),
    [
        ({"phase": "Up"}, ((PHASE_PATH, b'"Up"'),), "a value that was named is remembered"),
        ({"size": 3}, (), "an absent one is not"),
        ({"phase": ""}, (), "nor is an empty one"),
        ({"phase": "x" * 5_000}, (), "nor is one that is too long"),
    ],
)
def test_the_fields_that_the_user_named_are_read(status, fields, because):
    found = PHASE.read(msgspec.Raw(msgspec.json.encode(status)))
    assert found == Intended(NOTHING_OBSERVED, fields), because


@pytest.mark.parametrize(
    ("raw", "is_held", "because"),
    [
        (b'"Up"', True, "a value as it would be read here"),
        (b'""', False, "a cleared one is never read"),
        (b'"Up', False, "no JSON"),
        (b'"%s"' % (b"x" * 5_000), False, "a value that is too long"),
    ],
)
def test_of_another_replicas_intent_only_what_could_be_read_here_is_held(raw, is_held, because):
    sent = Intended(NOTHING_OBSERVED, ((PHASE_PATH, raw), (("status", "size"), b"3")))
    fields = ((PHASE_PATH, raw),) if is_held else ()
    assert PHASE.hold(sent) == Intended(NOTHING_OBSERVED, fields), because


@pytest.mark.parametrize(
    ("observed", "held"),
    [
        (Observed(5, ()), Observed(5, ())),
        (Observed(2**64, ()), NOTHING_OBSERVED),
        (Observed(5, (Condition("Ready", 2**64),)), Observed(5, ())),
    ],
    ids=["an int64", "no int64", "a condition of no int64"],
)
def test_a_value_that_is_no_generation_is_not_held(observed, held):
    every = parse_restored("status.observedGeneration,status.conditions[*].observedGeneration")
    assert every.hold(Intended(observed)) == Intended(held)
