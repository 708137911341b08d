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


@table("trace/clobbers.yaml", "before", "after", "clobber")
def test_what_clobbers(case):
    found = effects(view(case["before"]), view(case["after"]), status=True)
    clobber = {case["clobber"]} if case.get("clobber") else set()
    assert {one.clobber for one in found if one.clobber} == clobber, case.because


def test_status_in_a_write_of_the_object_counts_only_where_there_is_no_subresource():
    before, after = view(GOOD, subresource=""), view(BAD, subresource="")
    (one,) = effects(before, after, status=True)
    assert one.discarded
    assert not one.clobber
    (one,) = effects(before, after, status=False)
    assert one.clobber


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


def test_of_several_webhooks_in_one_configuration_the_configuration_is_certain():
    plan = make_plan([configuration("a", hooks=2)], WEB, "abcd")
    found = report(plan, (0, view(GOOD)), (1, view(BAD)))
    (culprit,) = found["culprits"]
    assert (culprit["name"], culprit["webhooks"]) == ("a", ["h0.example.org", "h1.example.org"])
    assert "cannot tell which of its webhooks" in shown(found, plan)


def test_when_configurations_changed_meanwhile_nobody_is_certain():
    plan = planned("a")
    found = make_report(watched(plan, (0, view(GOOD)), (1, view(BAD))), ["b"], values=False)
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


def test_on_a_terminal_of_80_columns_the_table_is_not_cut_off(monkeypatch):
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    user = "system:serviceaccount:kube-system:deployment-controller"
    views = view(GOOD, user=user), view(BAD, user=user), view(BAD, user=user)
    lines = shown(report(planned("a", "b"), *enumerate(views)), planned("a", "b")).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("request of deployment-controller") for line in lines)
