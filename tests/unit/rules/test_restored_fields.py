"""Which fields `--restore` takes, and that their contents are told to nobody."""

import pytest

from genguard.admission.review import Phase
from genguard.objects.intended import NotRestorableError, parse_restored
from tests.cases_loader import table
from tests.reviews import ask, make_dependencies, make_review


@table("objects/not_restorable.yaml", "text")
def test_what_cannot_be_put_back_is_refused_with_what_can(case):
    with pytest.raises(NotRestorableError, match="name fields of status"):
        parse_restored(case["text"])


def test_blanks_and_order_do_not_matter():
    assert parse_restored(" status.phase , status.observedGeneration,") == parse_restored(
        "status.observedGeneration,status.phase"
    )


@pytest.mark.parametrize("field", ["message", "lastGeneration"])
def test_the_contents_of_a_field_are_put_back_and_told_to_nobody(field):
    dependencies = make_dependencies(restore=f"status.{field}")
    sent = {"status": {field: "canary-7f3a"}}
    request = {"operation": "UPDATE", "resource": "pods", "subresource": "status", "old": {}}
    ask(make_review(new=sent, **request), dependencies, phase=Phase.INTENT)
    answer = ask(make_review(new={"status": {}}, **request), dependencies)
    assert answer.object["status"] == {field: "canary-7f3a"}
    assert answer.annotations == {"restore-intent": f"set status.{field}=..."}


def test_a_value_too_long_to_remember_is_not_put_back():
    dependencies = make_dependencies(restore="status.message")
    sent = {"status": {"message": "x" * 5_000}}
    request = {"operation": "UPDATE", "resource": "pods", "subresource": "status", "old": {}}
    ask(make_review(new=sent, **request), dependencies, phase=Phase.INTENT)
    assert ask(make_review(new={"status": {}}, **request), dependencies).patch == []
