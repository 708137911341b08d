"""From views to a verdict: who changed what, and what cannot be told."""

from typing import Any

import click
import pytest

from genguard.trace.passes import Passes, effects, status_as_reported
from genguard.trace.plan import LONGEST, Plan, make_plan
from genguard.trace.registration import Watch
from genguard.trace.report import as_table
from tests.unit.trace.samples import WEB, configuration, planned, view
from webhook.cli import output

GOOD, BAD = {"observedGeneration": 3, "replicas": 2}, {"replicas": 2}


def watched(plan: Plan, *views: tuple[int, Any], **ends: Any) -> Watch:
    watch = Watch(plan, writes=ends.get("writes"), each=ends.get("each", False))
    for position, one in views:
        watch.see(position, one)
    return watch


def report(plan: Plan, *views: tuple[int, Any], values: bool = False) -> dict[str, Any]:
    return watched(plan, *views).report([], values=values)


def shown(found: dict[str, Any], plan: Plan) -> str:
    """What the verb prints into a pipe."""
    return "\n".join(map(click.unstyle, output.lines(as_table(found, plan))))


def fields(found: dict[str, Any], name: str) -> list[str]:
    rows = [one for one in found["webhooks"] if one["configurations"][0]["name"] == name]
    return [f"{one['change']} {one['pointer']}" for row in rows for one in row["fields"]]


def test_the_one_that_clobbers_is_named_and_nobody_else():
    plan = planned("a", "b", "c")
    found = report(
        plan, (0, view(GOOD)), (1, view(GOOD)), (2, view(BAD)), (3, view(BAD, spec={"a": 1}))
    )
    (culprit,) = found["culprits"]
    assert (culprit["name"], culprit["confidence"]) == ("b/h0.example.org", "certain")
    assert culprit["paths"] == ["/status/observedGeneration"]
    assert fields(found, "a") == []
    assert fields(found, "b") == ["removed /status/observedGeneration"]
    assert fields(found, "c") == ["added /spec/a"]
    assert found["webhooks"][2]["fields"][0]["discarded"]
    assert found["writes"] == {"whole": 1, "incomplete": 0, "mixed": 0}
    table = shown(found, plan)
    assert "b/h0.example.org clobbers /status/observedGeneration: certain" in table
    assert "added /spec/a (no effect: the API server discards it)" in table


@pytest.mark.parametrize(
    ("before", "after", "clobber"),
    [
        ({"observedGeneration": 3}, {}, "cleared"),
        ({"observedGeneration": 3}, {"observedGeneration": 0}, "cleared"),
        ({"observedGeneration": 3}, {"observedGeneration": None}, "cleared"),
        ({"observedGeneration": 3}, {"observedGeneration": 2}, "lowered"),
        ({"observedGeneration": 3}, {"observedGeneration": 4}, None),
        ({}, {"observedGeneration": 4}, None),
        ({"conditions": [{"type": "A", "observedGeneration": 2}, {"type": "B"}]},
         {"conditions": [{"type": "B"}, {"type": "A"}]}, "cleared"),
        ({"conditions": [{"type": "A", "observedGeneration": 2}, {"type": "B"}]},
         {"conditions": [{"type": "B"}]}, None),
        ({"conditions": [{"observedGeneration": 2}]}, {"conditions": [{"reason": "x"}]}, "cleared"),
    ],
)  # fmt: skip
def test_what_clobbers(before, after, clobber):
    found = effects(view(before), view(after), status=True)
    clobbers = {one.clobber.value for one in found if one.clobber}
    assert clobbers == ({clobber} if clobber else set())


def test_status_in_a_write_of_the_object_counts_only_where_there_is_no_subresource():
    before, after = view(GOOD, subresource=""), view(BAD, subresource="")
    (one,) = effects(before, after, status=True)
    assert one.discarded
    assert one.clobber is None
    (one,) = effects(before, after, status=False)
    assert one.clobber is not None


def test_a_request_that_clobbers_is_named_itself():
    found = report(planned("a"), (0, view(BAD, old=GOOD)), (1, view(BAD, old=GOOD)))
    (culprit,) = found["culprits"]
    assert (culprit["type"], culprit["name"], culprit["fieldManager"]) == (
        "user", "someone", "manager",
    )  # fmt: skip
    assert culprit["confidence"] == "likely"


def test_an_observer_that_was_not_reached_leaves_two_suspects():
    found = report(planned("a", "b"), (0, view(GOOD)), (2, view(BAD)))
    assert [(one["name"], one["confidence"]) for one in found["culprits"]] == [
        ("a/h0.example.org", "possible"), ("b/h0.example.org", "possible"),
    ]  # fmt: skip
    assert found["writes"]["incomplete"] == 1
    assert "possibly clobbers" in shown(found, planned("a", "b"))


def test_between_two_views_only_who_is_called_for_the_subresource_is_a_suspect():
    documents = [configuration("a", "deployments"), configuration("b", "deployments/status")]
    found = report(make_plan(documents, WEB, "abcd"), (0, view(GOOD)), (2, view(BAD)))
    (culprit,) = found["culprits"]
    assert (culprit["name"], culprit["confidence"]) == ("b/h0.example.org", "certain")


def test_neighbours_without_a_name_in_between_are_both_possible():
    names = "a" * LONGEST, "a" * (LONGEST - 1) + "b"
    found = report(planned(*names), (0, view(GOOD)), (1, view(BAD)))
    assert {one["confidence"] for one in found["culprits"]} == {"possible"}
    assert len(found["culprits"]) == 2


def test_of_several_webhooks_in_one_configuration_the_configuration_is_certain():
    plan = make_plan([configuration("a", hooks=2)], WEB, "abcd")
    found = report(plan, (0, view(GOOD)), (1, view(BAD)))
    (culprit,) = found["culprits"]
    assert (culprit["name"], culprit["webhooks"]) == ("a", ["h0.example.org", "h1.example.org"])
    assert "cannot tell which of its webhooks" in shown(found, plan)


def test_when_configurations_changed_meanwhile_nobody_is_certain():
    plan = planned("a")
    found = watched(plan, (0, view(GOOD)), (1, view(BAD))).report(["b"], values=False)
    assert [one["confidence"] for one in found["culprits"]] == ["likely"]
    assert "these changed during the trace: b" in shown(found, plan)


def test_values_are_told_only_when_asked_for():
    views = (0, view(GOOD)), (1, view({"observedGeneration": 1, "replicas": 2}))
    (row,) = report(planned("a"), *views)["webhooks"]
    assert "before" not in row["fields"][0]
    (row,) = report(planned("a"), *views, values=True)["webhooks"]
    assert (row["fields"][0]["before"], row["fields"][0]["after"]) == (3, 1)


def test_a_write_denied_half_way_and_sent_again_is_two_passes():
    passes = Passes(frozenset({0, 1, 2}))
    for position in (0, 1, 0, 1, 2):
        assert passes.see(position, view(GOOD)) is not None
    passes.close()
    assert (passes.whole.total(), passes.broken, passes.mixed) == (1, 1, 0)


def test_writes_at_the_same_time_that_look_alike_are_not_told_apart():
    passes = Passes(frozenset({0, 1}))
    assert passes.see(0, view(GOOD)) is not None
    assert passes.see(0, view(BAD)) is not None
    assert passes.see(1, view(BAD)) is None
    assert passes.see(1, view(BAD)) is not None  # begins one of its own: nothing is compared
    assert (passes.whole.total(), passes.mixed) == (0, 2)


def test_writes_at_the_same_time_on_other_versions_or_by_others_are_told_apart():
    passes = Passes(frozenset({0, 1}))
    ones = [view(GOOD), view(BAD, base="2"), view(BAD, user="other")]
    for position in (0, 1):
        for one in ones:
            assert passes.see(position, one) is not None
    assert (passes.whole.total(), passes.broken, passes.mixed) == (3, 0, 0)


def test_open_passes_are_bounded():
    passes = Passes(frozenset({0, 1}))
    for number in range(1000):
        passes.see(0, view(GOOD, base=str(number)))
    assert passes.broken > 900


def test_it_ends_after_so_many_writes_or_one_of_each_subresource():
    status = (0, view(GOOD)), (1, view(GOOD))
    main = (0, view(GOOD, subresource="")), (1, view(GOOD, subresource=""))
    plan = planned("a")
    assert not watched(plan, *status, *status).is_enough
    assert watched(plan, *status, *status, writes=2).is_enough
    assert not watched(plan, *status, *status, each=True).is_enough
    assert watched(plan, *status, *main, each=True).is_enough


def test_another_object_is_not_listened_to():
    found = report(planned("a", "b"), (7, view(GOOD)))
    assert not any(found["writes"].values())
    assert found["notSeen"] == ["a", "b"]


def test_nobody_is_acquitted_when_no_write_carried_a_value():
    plan = planned("a")
    found = report(plan, (0, view(BAD)), (1, view(BAD)))
    assert (found["verdict"], found["carried"], found["culprits"]) == ("not-shown", [], [])
    table = shown(found, plan)
    assert "nobody is cleared" in table
    assert "give --poke" in table
    assert "no observedGeneration was clobbered" not in table


def test_nobody_is_acquitted_when_no_write_of_the_status_was_seen():
    plan = planned("a")
    found = report(plan, *((n, view(GOOD, subresource="")) for n in (0, 1)))
    assert (found["verdict"], found["statusWrites"]) == ("not-shown", 0)
    assert "no write of the status was seen" in shown(found, plan)


def test_who_was_seen_with_the_value_and_left_it_is_acquitted_of_these_writes():
    plan = planned("a")
    conditions = [{"type": kind, "observedGeneration": 3} for kind in "ABC"]
    status = GOOD | {"conditions": conditions}
    found = report(plan, (0, view(status)), (1, view(status)))
    assert found["verdict"] == "not-clobbered"
    assert found["carried"][-1] == {"path": "status.observedGeneration", "writes": 1}
    assert "status.conditions[C].observedGeneration and 1 more" in shown(found, plan)


def test_a_dry_run_that_lost_its_value_before_the_first_webhook_shows_nothing():
    plan = planned("a")
    found = watched(plan, (0, view(BAD)), (1, view(BAD)), each=True).report([], values=False)
    assert (found["verdict"], found["dryRuns"]) == ("not-shown", True)
    assert "gone before the first webhook was called" in shown(found, plan)


SEEN = {"type": "B", "observedGeneration": 3}


def stored(generation, status):
    return {"metadata": {"generation": generation}} | ({} if status is None else {"status": status})


@pytest.mark.parametrize(
    ("document", "has_status", "patch"),
    [
        (stored(4, {"replicas": 2}), True, {"status": {"observedGeneration": 4}}),
        (stored(4, {"observedGeneration": 0}), True, {"status": {"observedGeneration": 4}}),
        (stored(4, None), True, {"status": {"observedGeneration": 4}}),
        (stored(4, {"observedGeneration": 3}), True, {}),
        (stored(4, {"observedGeneration": "3"}), True, {}),
        (stored(None, {"replicas": 2}), True, {}),
        (stored(4, "a text"), True, {}),
        (stored(4, None), False, {}),
        (stored(4, {"replicas": 2}), False, {"status": {"observedGeneration": 4}}),
        (
            stored(4, {"observedGeneration": 4, "conditions": [{"type": "A"}, SEEN]}),
            True,
            {"status": {"conditions": [{"type": "A", "observedGeneration": 4}, SEEN]}},
        ),
        (stored(4, {"observedGeneration": 4, "conditions": ["odd"]}), True, {}),
    ],
)  # fmt: skip
def test_a_dry_run_carries_what_the_stored_object_has_lost(document, has_status, patch):
    assert status_as_reported(document, status=has_status) == patch


def test_no_name_of_a_user_or_a_field_moves_a_terminals_cursor():
    hostile = "x\x1b[2J\x9b31m\u202e\n"
    views = view(GOOD, user=hostile), view({**GOOD, hostile: 1}, user=hostile)
    table = shown(report(planned("a"), *enumerate(views)), planned("a"))
    assert [sign for sign in table if not sign.isprintable() and sign != "\n"] == []
    assert r"request of x\x1b[2J\x9b31m\u202e\n" in table


def test_on_a_terminal_of_80_columns_the_table_is_not_cut_off(monkeypatch):
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    user = "system:serviceaccount:kube-system:deployment-controller"
    views = view(GOOD, user=user), view(BAD, user=user), view(BAD, user=user)
    lines = shown(report(planned("a", "b"), *enumerate(views)), planned("a", "b")).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("request of deployment-controller") for line in lines)
