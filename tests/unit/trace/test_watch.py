"""From views to a verdict: who changed what, and what cannot be told."""

from typing import Any

import click

from genguard.trace.passes import Passes, Watch, effects, status_as_reported
from genguard.trace.plan import Plan, make_plan
from genguard.trace.report import as_table, make_report
from tests.cases_loader import table
from tests.unit.trace.samples import WEB, configuration, planned, view
from webhook.cli import output

GOOD, BAD = {"observedGeneration": 3, "replicas": 2}, {"replicas": 2}
STATUSES = {"good": GOOD, "bad": BAD}


def watched(plan: Plan, *views: tuple[int, Any], **ends: Any) -> Watch:
    watch = Watch(plan, writes=ends.get("writes"), each=ends.get("each", False))
    for position, one in views:
        watch.see(position, one)
    return watch


def report(plan: Plan, *views: tuple[int, Any], values: bool = False) -> dict[str, Any]:
    return make_report(watched(plan, *views), [], values=values)


def shown(found: dict[str, Any], plan: Plan) -> str:
    """What the verb prints into a pipe."""
    return "\n".join(map(click.unstyle, output.lines(as_table(found, plan))))


def fields(found: dict[str, Any], name: str) -> list[str]:
    rows = [one for one in found["webhooks"] if one["configurations"][0]["name"] == name]
    return [f"{one['change']} {one['pointer']}" for row in rows for one in row["fields"]]


@table(
    "trace/verdicts.yaml",
    *("configurations", "views", "changed", "culprits", "verdict", "fields", "told"),
)
def test_who_changed_it_is_named_as_surely_as_it_was_seen(case):
    documents = [
        configuration(name, *of.get("resources", ()), hooks=of.get("hooks", 1))
        for name, of in case["configurations"].items()
    ]
    plan = make_plan(documents, WEB, "abcd")
    views = [
        (
            one["at"],
            view(
                STATUSES[one["status"]],
                old=STATUSES.get(one.get("old")),
                **({"spec": one["spec"]} if "spec" in one else {}),
            ),
        )
        for one in case["views"]
    ]
    found = make_report(watched(plan, *views), case.get("changed", []), values=False)
    culprits = {one["name"]: one["confidence"] for one in found["culprits"]}
    assert culprits == case.get("culprits", {}), case.because
    assert found["verdict"] == case.get("verdict", "clobbered"), case.because
    for name, changed in case.get("fields", {}).items():
        assert fields(found, name) == changed
    told = shown(found, plan)
    assert [text for text in case.get("told", ()) if text not in told] == [], case.because


@table("trace/clobbers.yaml", "before", "after", "clobber")
def test_what_clobbers(case):
    found = effects(view(case["before"]), view(case["after"]), status=True)
    clobber = {case["clobber"]} if case.get("clobber") else set()
    assert {one.clobber for one in found if one.clobber} == clobber, case.because


def test_values_of_an_item_of_a_list_are_those_of_the_item_of_its_name():
    items = [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]
    after = [{"name": "b", "image": "z"}, items[0]]
    before, left = (
        view({"phase": "Up"}, subresource="", spec={"containers": one}) for one in (items, after)
    )
    assert ("y", "z") in effects(before, left, status=True).values()


def test_status_in_a_write_of_the_object_counts_only_where_there_is_no_subresource():
    before, after = view(GOOD, subresource=""), view(BAD, subresource="")
    (one,) = effects(before, after, status=True)
    assert one.discarded
    assert not one.clobber
    (one,) = effects(before, after, status=False)
    assert one.clobber


def test_a_write_denied_half_way_and_sent_again_is_two_passes():
    passes = Passes(frozenset({0, 1, 2}))
    for position in (0, 1, 0, 1, 2):
        assert passes.see(position, view(GOOD)) is not None
    passes.close()
    assert (passes.complete.total(), passes.broken, passes.mixed) == (1, 1, 0)


def test_writes_at_the_same_time_that_look_alike_are_not_told_apart():
    passes = Passes(frozenset({0, 1}))
    assert passes.see(0, view(GOOD)) is not None
    assert passes.see(0, view(BAD)) is not None
    assert passes.see(1, view(BAD)) is None
    assert passes.see(1, view(BAD)) is not None  # begins one of its own: nothing is compared
    assert (passes.complete.total(), passes.mixed) == (0, 2)


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
    poked = watched(plan, (0, view(BAD)), (1, view(BAD)), each=True)
    found = make_report(poked, [], values=False)
    assert (found["verdict"], found["dryRuns"]) == ("not-shown", True)
    assert "gone before the first webhook was called" in shown(found, plan)


@table("trace/dry_runs.yaml", "generation", "status", "no_subresource", "patch")
def test_a_dry_run_carries_what_the_stored_object_has_lost(case):
    document = {"metadata": {"generation": case["generation"]}}
    if "status" in case.values:
        document["status"] = case["status"]
    has_status = not case.get("no_subresource")
    assert status_as_reported(document, status=has_status) == case["patch"], case.because


def test_no_name_of_a_user_or_a_field_moves_a_terminals_cursor():
    hostile = "x\x1b[2J\x9b31m\u202e\n"
    views = view(GOOD, user=hostile), view({**GOOD, hostile: 1}, user=hostile)
    table = shown(report(planned("a"), *enumerate(views)), planned("a"))
    assert [sign for sign in table if not sign.isprintable() and sign != "\n"] == []
    assert r"request of x\x1b[2J\x9b31m\u202e\n" in table
