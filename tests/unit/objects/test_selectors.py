"""Label selectors as the API server matches them, also where not all labels are known."""

import pytest

from genguard.objects.selectors import Truth, every, matches_labels

T, F, U = Truth.TRUE, Truth.FALSE, Truth.UNKNOWN


def requirement(operator: str, *values: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "with_b", "with_c", "without", "unknown"),
    [
        (None, T, T, T, T),
        ({}, T, T, T, T),
        ({"matchLabels": None, "matchExpressions": None}, T, T, T, T),
        ({"matchLabels": {"a": "b"}}, T, F, F, U),
        (requirement("In", "b"), T, F, F, U),
        (requirement("NotIn", "b"), F, T, T, U),
        (requirement("Exists"), T, T, F, U),
        (requirement("DoesNotExist"), F, F, T, U),
        (requirement("Gt", "b"), U, U, U, U),  # of node selectors; here nobody takes it
        ({"matchLabels": {"a": "b"}, **requirement("In", "c")}, F, F, F, U),
        ({"matchLabels": {"a": "b"}, **requirement("Exists")}, T, F, F, U),
    ],
)
def test_a_selector_matches_what_it_asks_for(selector, with_b, with_c, without, unknown):
    for labels, expected in (({"a": "b"}, with_b), ({"a": "c"}, with_c), ({"x": "b"}, without)):
        assert matches_labels(selector, labels, complete=True) is expected
    assert matches_labels(selector, {"x": "b"}, complete=False) is unknown


@pytest.mark.parametrize(
    ("answers", "together"),
    [((), T), ((T, T), T), ((T, U), U), ((U, F), F), ((F, T), F)],
)
def test_one_that_is_false_decides(answers, together):
    assert every(answers) is together
