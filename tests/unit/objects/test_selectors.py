"""Label selectors as the API server matches them, also where not all labels are known."""

import pytest

from genguard.objects.selectors import Truth, every, matches_labels, parse_label_selector
from tests.cases_loader import table

T, F, U = Truth.TRUE, Truth.FALSE, Truth.UNKNOWN
LABELS = {"a_b": {"a": "b"}, "a_c": {"a": "c"}, "none": {"x": "b"}}


@table("selectors/labels.yaml", "selector", *LABELS, "unknown")
def test_a_selector_matches_what_it_asks_for(case):
    selector = case["selector"]
    for key, labels in LABELS.items():
        found = matches_labels(selector, labels, complete=True)
        assert found.value == case[key], case.because
    assert matches_labels(selector, {"x": "b"}, complete=False).value == case["unknown"]


@pytest.mark.parametrize(
    ("answers", "together"), [((), T), ((T, T), T), ((T, U), U), ((U, F), F), ((F, T), F)]
)
def test_one_that_is_false_decides(answers, together):
    assert every(answers) is together


@table("selectors/command_line.yaml", "text", *LABELS)
def test_a_selector_of_a_command_line_is_read_as_kubectl_reads_it(case):
    wanted = parse_label_selector(case["text"])
    for key, labels in LABELS.items():
        assert all(one.fits(labels) for one in wanted) is case[key], case.because
    assert {one.key for one in wanted} <= {"a"}


@pytest.mark.parametrize("text", ["=b", "a=b=c", "a in b", "a b", "a,?"])
def test_what_is_no_selector_is_refused_with_the_part_that_is_wrong(text):
    with pytest.raises(ValueError, match="unable to parse requirement"):
        parse_label_selector(text)
