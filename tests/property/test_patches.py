"""Every patch, whatever was reviewed: it applies, it is enough, and it touches its places alone."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from genguard.admission.review import Phase
from genguard.review import Dependencies, review
from genguard.review_setup import GenerationPatch
from tests.property.strategies import CUSTOM, JSON, STATUSES
from tests.property.writes import reviews
from tests.reviews import ask, changes, make_dependencies

OWNED = re.compile(
    "/metadata/generation"
    "|/status/observedGeneration"
    r"|/status/conditions/\d+/observedGeneration"
)


def everything(custom=(), *, audit_only: bool = False) -> Dependencies:
    return make_dependencies(
        generation_patch=GenerationPatch.ALWAYS, custom=custom, audit_only=audit_only
    )


def places(changed: dict) -> set[str]:
    """Pointers of the values that are new; a parent that was made for one is that one."""
    found = set()
    for pointer, value in changed.items():
        made = {"/status": "observedGeneration", "/metadata/annotations": "genguard.io~1generation"}
        if pointer in made:
            (key,) = value
            assert key.replace("/", "~1") == made[pointer]
            found.add(f"{pointer}/{made[pointer]}")
        else:
            found.add(pointer)
    return found


@given(reviews(), CUSTOM)
def test_a_patch_applies_and_touches_nothing_it_does_not_own(asked, custom):
    answer = ask(asked, everything(custom))  # checks the API server's contract too
    assert answer.result.dropped == ()
    for place in places(changes(answer)):
        assert OWNED.fullmatch(place), place


@given(reviews(), CUSTOM)
def test_what_is_patched_once_is_right(asked, custom):
    dependencies = everything(custom)
    first = ask(asked, dependencies)
    if asked["request"]["object"] is None:
        assert first.patch == []
        return
    again = {**asked, "request": {**asked["request"], "object": first.object}}
    assert ask(again, dependencies).patch == [], "in round 1"
    assert ask(again, everything(custom)).patch == [], "in another replica"


@given(reviews(), reviews(), CUSTOM)
def test_what_an_intent_made_is_right_too(sent, asked, custom):
    dependencies = everything(custom)
    ask({**asked, "request": {**asked["request"], "object": sent["request"]["object"]}}
        if asked["request"]["operation"] == sent["request"]["operation"] else sent,
        dependencies, phase=Phase.INTENT)  # fmt: skip
    first = ask(asked, dependencies)
    if first.patch:
        again = {**asked, "request": {**asked["request"], "object": first.object}}
        assert ask(again, dependencies).patch == []


@given(reviews(), STATUSES | JSON, CUSTOM)
def test_fields_that_the_user_names_are_put_back_and_no_other(asked, sent, custom):
    """Of status.a and status.a.b, too, which overlap."""
    named = "status.phase,status.a,status.a.b,status.observedGeneration"
    dependencies = make_dependencies(custom=custom, restore=named)
    if asked["request"]["object"] is None:
        return
    intent = {**asked["request"]["object"], "status": sent}
    ask({**asked, "request": {**asked["request"], "object": intent}}, dependencies,
        phase=Phase.INTENT)  # fmt: skip
    first = ask(asked, dependencies)
    assert first.result.dropped == ()
    for place, value in changes(first).items():
        allowed = re.match(r"/status(/(phase|a|conditions|observedGeneration)\b.*)?$", place)
        assert allowed, place
        if place == "/status":
            assert value.keys() <= {"phase", "a", "conditions", "observedGeneration"}
    again = {**asked, "request": {**asked["request"], "object": first.object}}
    assert ask(again, dependencies).patch == []


@given(reviews(), CUSTOM, st.sampled_from(Phase))
def test_the_same_bytes_in_are_the_same_bytes_out(asked, custom, phase):
    body = json.dumps(asked).encode()
    assert (
        review(body, phase, everything(custom), 0.0).body
        == review(body, phase, everything(custom), 5.0).body
    )


@given(reviews(), CUSTOM, st.sampled_from([Phase.INTENT, Phase.OUTCOME]))
def test_only_mutate_patches(asked, custom, phase):
    assert ask(asked, everything(custom), phase=phase).patch == []


@given(reviews(), CUSTOM)
def test_audit_only_patches_nothing_and_mends_the_same_places(asked, custom):
    told = ask(asked, everything(custom, audit_only=True))
    done = ask(asked, everything(custom))
    assert told.patch == []
    owned = {"preserve-observed-generation", "restore-intent"}
    assert {one.rule for one in told.result.repairs} & owned == {
        one.rule for one in done.result.repairs
    } & owned


@given(reviews(), CUSTOM)
def test_round_1_says_nothing_else_than_round_0(asked, custom):
    dependencies = everything(custom)
    first = ask(asked, dependencies)
    again = ask(asked, dependencies, now=1.0)
    assert again.annotations == first.annotations
