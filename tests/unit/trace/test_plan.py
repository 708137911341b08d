"""Which configurations are candidates, where observers stand, and what they are told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from genguard.trace.plan import (
    EXPIRES,
    LONGEST,
    RUN_LABEL,
    Traced,
    between,
    changed,
    has_expired,
    is_valid,
    make_plan,
    registrations,
)
from tests.cases_loader import table
from tests.unit.trace.samples import DEPLOYMENTS, WEB, configuration, planned


def test_an_observer_before_all_and_one_right_after_each_candidate():
    plan = planned("bbb", "aaa", "aaa-x")
    assert [[one.configuration for one in slot.candidates] for slot in plan.slots] == [
        [], ["aaa"], ["aaa-x"], ["bbb"],
    ]  # fmt: skip
    assert list(plan.observers.values()) == [
        "0-genguard-trace-abcd",
        "aaa-genguard-trace-abcd",
        "aaa-x-genguard-trace-abcd",
        "bbb-genguard-trace-abcd",
    ]
    names = [*plan.observers.values(), "aaa", "aaa-x", "bbb"]
    assert sorted(names)[1:3] == ["aaa", "aaa-genguard-trace-abcd"]


def test_candidates_between_which_nothing_sorts_share_an_observer():
    plan = planned("a" * LONGEST, "a" * (LONGEST - 1) + "b")
    assert [len(slot.candidates) for slot in plan.slots] == [0, 2]


@table("trace/candidates.yaml", "resources", "count", "settings", "hooks", "created")
def test_a_candidate_is_what_can_be_called_for_the_object_or_its_status(case):
    settings = case.get("settings", {})
    document = configuration(
        "a", *case.get("resources", ()), hooks=case.get("count", 1), **settings
    )
    plan = make_plan([document], WEB, "abcd")
    expected = [case["hooks"]] if case["hooks"] else []
    assert [one.webhooks for one in plan.candidates] == [
        {key: tuple(names) for key, names in one.items()} for one in expected
    ], case.because
    assert list(plan.at_creation) == case.get("created", []), case.because


def test_what_changes_meanwhile_matters_where_it_can_act_on_the_object():
    others, ours = configuration("a", "services"), configuration("b")
    edited = ours | {"metadata": ours["metadata"] | {"generation": 2}}
    observer = configuration("o", labels={RUN_LABEL: "abcd"})
    assert changed([ours], [ours, others, observer], WEB) == []
    assert changed([ours, others], [edited], WEB) == ["b"]
    assert changed([ours], [ours, configuration("a")], WEB) == ["a"]
    assert changed([configuration("a")], [others], WEB) == ["a"], "it acts there no longer"


def registered(traced: Traced = WEB):
    plan = make_plan([configuration("a")], traced, "abcd")
    end = datetime(2026, 1, 1, tzinfo=UTC)
    return list(registrations(plan, "https://h:1/s", "Q0E=", "me", end))


def test_an_observer_is_never_in_the_way_and_sees_one_object():
    for position, document in enumerate(registered()):
        (hook,) = document["webhooks"]
        assert hook["failurePolicy"] == "Ignore"
        assert hook["reinvocationPolicy"] == "Never"
        assert hook["sideEffects"] == "None"
        assert hook["timeoutSeconds"] <= 2
        assert hook["clientConfig"] == {"url": f"https://h:1/s/{position}", "caBundle": "Q0E="}
        assert hook["rules"][0]["resources"] == ["deployments", "deployments/status"]
        (condition,) = hook["matchConditions"]
        assert condition["expression"] == (
            'request.name == "thing" && oldObject.metadata.uid == "uid-1"'
            ' && request.namespace == "default"'
        )
        assert document["metadata"]["labels"] == {RUN_LABEL: "abcd"}
        assert document["metadata"]["annotations"][EXPIRES] == "2026-01-01T00:00:00Z"


def test_an_object_without_namespace_is_not_asked_for_one():
    node = Traced(replace(DEPLOYMENTS, has_status=False), "", 'a"b', "u")
    hook = registered(node)[0]["webhooks"][0]
    assert hook["namespaceSelector"] == {"matchLabels": {}}
    assert "request.namespace" not in hook["matchConditions"][0]["expression"]
    assert '"a\\"b"' in hook["matchConditions"][0]["expression"]
    assert hook["rules"][0]["resources"] == ["deployments"]


@table("trace/expiries.yaml", "text", "expired")
def test_a_registration_expires(case):
    document = {"metadata": {"annotations": {EXPIRES: case["text"]} if case["text"] else None}}
    now = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1)
    assert has_expired(document, now) is case["expired"], case.because


@table("trace/names.yaml", "after", "before", "name")
def test_the_nearest_telling_name_there_is(case):
    assert between(case["after"], case["before"], "id") == case.get("name"), case.because


def test_at_the_limit_of_length_a_shorter_name_is_found():
    full = "a" * LONGEST
    assert between("z" * LONGEST, None, "id") is None
    assert between(full, full[:-1] + "b", "id") is None
    assert between(full[:-2], None, "id") == full[:-2] + "-0"
    assert between(full[:-1], None, "id") == full[:-1] + "0"
    assert between(full, None, "id") == full[:-1] + "b"


_NAMES = st.from_regex(r"[ab0z]([-ab0z]{0,4}[ab0z])?(\.[ab0z])?", fullmatch=True)
_STEMS = st.sampled_from([0, LONGEST - 6, LONGEST - 3])


@given(_NAMES, _NAMES, _STEMS)
def test_what_is_found_is_valid_and_in_between(one, other, length):
    first, second = sorted(("a" * length + name)[:LONGEST].rstrip("-.") for name in (one, other))
    found = between(first, second, "id")
    if found is not None:
        assert is_valid(found)
        assert first.encode() < found.encode() < second.encode()
    elif first != second and max(len(first), len(second)) < LONGEST - 30:
        raise AssertionError((first, second))
