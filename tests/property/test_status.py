"""Laws of evaluate(): it answers whatever it is given, and never without a reason."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from genguard.status.aggregate import aggregate, summarize
from genguard.status.evaluate import evaluate
from genguard.status.kinds import KINDS
from genguard.status.published import conditions_of
from genguard.status.view import Blocks, Health, Past, StatusView
from tests.cases_loader import read_beside
from tests.property.strategies import GENERATIONS, JSON, ODD_STATUSES, SCALARS, SMALL, optional
from tests.statuses import GOOD, NOW

WORDS = read_beside(__file__, "words.yaml")
TIMES = st.sampled_from(["2027-01-15T07:59:59Z", "2027-01-15T06:00:00Z", "yesterday", ""])
CONDITIONS = st.lists(
    optional(
        type=st.sampled_from(WORDS["conditions"]),
        status=st.sampled_from(["True", "False", "Unknown", "Odd"]),
        reason=st.sampled_from(["NewReplicaSetAvailable", "ProgressDeadlineExceeded", "a b", ""]),
        observedGeneration=GENERATIONS,
        lastTransitionTime=TIMES,
    ),
    max_size=3,
)
COUNTS = st.fixed_dictionaries({}, optional=dict.fromkeys(WORDS["counts"], SMALL | SCALARS))
STANDARD = st.fixed_dictionaries(
    {},
    optional={
        "ready": SCALARS,
        "isReady": SCALARS,
        "isSettled": SCALARS,
        "health": st.sampled_from(["Red", "Yellow", "Green"]) | SCALARS,
        "progress": st.sampled_from(["45%", "100%"]) | SCALARS,
    },
)
STATUS = st.builds(
    lambda counts, standard, rest: {**counts, **standard, **rest},
    COUNTS,
    STANDARD,
    optional(
        observedGeneration=SMALL | GENERATIONS,
        conditions=CONDITIONS | JSON,
        phase=st.sampled_from(WORDS["phases"]),
        loadBalancer=JSON,
        meta=STANDARD | optional(conditions=CONDITIONS | JSON, observedGeneration=SMALL) | JSON,
    ),
)
SPEC = optional(
    replicas=SMALL | SCALARS,
    paused=SCALARS,
    suspend=SCALARS,
    type=st.sampled_from(["LoadBalancer", "ClusterIP", "Odd"]) | JSON,
    updateStrategy=optional(
        type=st.sampled_from(["OnDelete", "RollingUpdate"]),
        rollingUpdate=optional(partition=SMALL | SCALARS) | JSON,
    )
    | JSON,
    restartPolicy=st.sampled_from(["Always", "Never"]),
    progressDeadlineSeconds=SMALL,
    completions=SMALL,
    parallelism=SMALL,
)
METADATA = optional(
    name=st.sampled_from(["a", "b"]),
    namespace=SCALARS,
    generation=SMALL | SCALARS,
    deletionTimestamp=TIMES,
    finalizers=JSON,
)
KIND = st.sampled_from(
    [(f"{group}/v1".removeprefix("/"), kind) for group, kind in sorted(KINDS)]
    + [("example.org/v1", "Widget"), ("serving.knative.dev/v1", "Service")]
)
OBJECTS = st.builds(
    lambda kind, fields: {"apiVersion": kind[0], "kind": kind[1], **fields},
    KIND,
    optional(metadata=METADATA | JSON, spec=SPEC | JSON, status=STATUS | ODD_STATUSES),
)
ANYTHING = OBJECTS | st.dictionaries(
    st.sampled_from(["apiVersion", "kind", "metadata", "spec", "status"]), JSON
)
PASTS = st.none() | st.builds(
    Past,
    intent_since=st.sampled_from([NOW, NOW - 60, NOW - 3_600]),
    observed_since=st.none() | st.just(NOW - 1),
    reconciled_generation=st.none() | SMALL,
    ready_flips=st.sampled_from([0, 9]),
)
FAILED = {"type": "Failed", "status": "True"}
"""Not ready, and settled."""
VIEWS = st.builds(lambda document, past: evaluate(document, past, at=NOW), OBJECTS, PASTS)


def hold(view: StatusView) -> None:
    """What is true of every view."""
    against_ready = [reason for reason in view.reasons if reason.against_ready]
    against_settled = [reason for reason in view.reasons if reason.against_settled]
    assert (view.ready is True) == (not against_ready)
    assert view.settled == (not against_settled)
    assert view.progress is None or 0 <= view.progress <= 1
    if view.health is Health.GREEN:
        assert view.ready is True
        assert view.settled
    if view.failed:
        assert view.health is Health.RED
        assert view.ready is not True


@given(ANYTHING, PASTS)
def test_any_object_gets_an_answer_that_gives_its_reasons(document, past):
    view = evaluate(document, past, at=NOW)
    hold(view)
    assert all(str(reason) for reason in view.reasons)
    assert all(reason.want or not reason.blocks for reason in view.reasons)


@given(OBJECTS, PASTS)
@example({"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": [FAILED]}}, None)
def test_the_conditions_that_genguard_publishes_give_the_same_answer_when_they_are_read(
    document, past
):
    view = evaluate(document, past, at=NOW)
    conditions = [
        {"type": one.type, "status": one.status, "reason": one.reason}
        for one in conditions_of(view).values()
    ]
    published = {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"generation": 3},
        "status": {"conditions": conditions},
    }
    read = evaluate(published, at=NOW)
    assert (read.ready, read.settled) == (view.ready is True, view.settled)


@given(ANYTHING, PASTS)
def test_the_same_facts_get_the_same_answer_and_are_left_as_they_were(document, past):
    before = json.dumps(document)
    assert evaluate(document, past, at=NOW) == evaluate(json.loads(before), past, at=NOW)
    assert json.dumps(document) == before


@given(OBJECTS, PASTS, st.lists(VIEWS, max_size=3))
def test_children_only_take_away(document, past, children):
    alone = evaluate(document, past, at=NOW)
    whole = evaluate(document, past, children, at=NOW)
    order = list(Health)
    assert not (whole.ready is True and alone.ready is not True)
    assert not (whole.settled and not alone.settled)
    assert order.index(whole.health) >= order.index(alone.health)
    assert (whole.ready is True) == (not any(r.against_ready for r in whole.reasons))
    assert whole.settled == (not any(r.against_settled for r in whole.reasons))
    assert aggregate(whole, children) == whole


@given(st.lists(VIEWS, max_size=8))
def test_a_set_is_ready_when_each_is(views):
    summary = summarize(views)
    assert (summary.ready is True) == all(view.ready is True for view in views)
    assert summary.settled == all(view.settled for view in views)
    assert sum(summary.healths) == summary.total == len(views)
    if not (summary.ready and summary.settled):
        assert any(reason.blocks is not Blocks.NOTHING for reason in summary.reasons)


@given(st.sampled_from(sorted(GOOD)), st.text(min_size=1), st.sampled_from(["reason", "message"]))
def test_no_free_text_of_an_object_reaches_a_reason(of, text, field):
    document: dict[str, Any] = json.loads(json.dumps(GOOD[of]))
    secret = f"password {text}"
    for condition in document.get("status", {}).get("conditions", []):
        condition.update({"status": "False", field: secret})
    status = document.setdefault("status", {})
    status.update(phase=secret, reason=secret, observedGeneration=secret)
    status["containerStatuses"] = [{"name": secret, "state": {"waiting": {"reason": secret}}}]
    told = " ".join(str(reason) for reason in evaluate(document, at=NOW).reasons)
    assert "password" not in told
