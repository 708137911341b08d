"""Label selectors as the API server matches them, also where not all labels are known."""

import pytest

from genguard.objects.selectors import Truth, every, matches_labels, parse_label_selector

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


@pytest.mark.parametrize(
    ("text", "with_b", "with_c", "without"),
    [
        ("", True, True, True),
        (" , ", True, True, True),
        ("a=b", True, False, False),
        ("a == b", True, False, False),
        ("a!=b", False, True, True),
        ("a in (b, d)", True, False, False),
        ("a notin (b,d)", False, True, True),
        ("a", True, True, False),
        ("!a", False, False, True),
        ("a,a!=c", True, False, False),
    ],
)
def test_a_selector_of_a_command_line_is_read_as_kubectl_reads_it(text, with_b, with_c, without):
    wanted = parse_label_selector(text)
    for labels, fits in (({"a": "b"}, with_b), ({"a": "c"}, with_c), ({}, without)):
        assert all(one.fits(labels) for one in wanted) is fits
    assert {one.key for one in wanted} <= {"a"}


@pytest.mark.parametrize("text", ["=b", "a=b=c", "a in b", "a b", "a,?"])
def test_what_is_no_selector_is_refused_with_the_part_that_is_wrong(text):
    with pytest.raises(ValueError, match="unable to parse requirement"):
        parse_label_selector(text)
