"""Whatever an object holds, the three views answer, and what they answer is one line."""

from hypothesis import given
from hypothesis import strategies as st

from genguard.status.assessment import assess
from genguard.status.views.argo import ArgoHealth, argo
from genguard.status.views.kstatus import RULES, Kstatus, kstatus
from genguard.status.views.rollout import Rollout, rollout
from tests.cases_loader import load
from tests.property.strategies import JSON, OBJECTS, optional

CASES = [
    case["object"] for case in load("status/views", "object", "at", "kstatus", "argo", "rollout")
]
KINDS = sorted({(case.get("apiVersion", ""), case["kind"]) for case in CASES})
AT = 1_767_225_600.0


@st.composite
def broken(draw):
    """A case in which one field, anywhere, holds anything."""
    return _replaced(draw, draw(st.sampled_from(CASES)))


def _replaced(draw, value):
    steps = (
        list(value)
        if isinstance(value, dict)
        else range(len(value or ()) if isinstance(value, list) else 0)
    )
    if not steps or draw(st.integers(0, 4)) == 0:
        return draw(JSON)
    step = draw(st.sampled_from(list(steps)))
    copy = value.copy()
    copy[step] = _replaced(draw, value[step])
    return copy


@st.composite
def of_a_kind(draw):
    version, kind = draw(st.sampled_from(KINDS))
    return {**draw(OBJECTS), "apiVersion": version, "kind": kind}


DOCUMENTS = (
    of_a_kind()
    | broken().filter(lambda value: isinstance(value, dict))
    | optional(
        apiVersion=JSON,
        kind=JSON | st.sampled_from(sorted(RULES)),
        metadata=JSON,
        spec=JSON,
        status=JSON,
    )
)


@given(DOCUMENTS)
def test_no_document_makes_a_view_raise(document):
    said = kstatus(document, AT), argo(document), rollout(document)
    assert isinstance(said[0], Kstatus)
    assert said[1] is None or isinstance(said[1], ArgoHealth)
    assert said[2] is None or isinstance(said[2], Rollout)
    told = assess(document, at=AT).disagreement
    assert told is None or len(told.splitlines()) == 1


@given(DOCUMENTS)
def test_what_no_view_knows_of_changes_no_view(document):
    more = {**document, "unknown": document}
    assert (kstatus(document, AT), argo(document), rollout(document)) == (
        kstatus(more, AT),
        argo(more),
        rollout(more),
    )
