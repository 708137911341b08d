"""matchConditions in CEL: true, false, or unknown where genguard cannot tell."""

import json

from genguard.admission.decode import decode_review
from genguard.admission.review import AdmissionRequest
from genguard.objects.selectors import Truth
from tests.cases_loader import read_beside, table
from tests.reviews import make_review
from tests.unit.detection.builders import INTENT, reviewed
from webhook.cel.evaluator import reviewed_request
from webhook.cel.programs import MOST_CONDITIONS, condition
from webhook.cel.programs import holds as holds_of

STORED = read_beside(__file__, "stored.yaml")


def updated(new=STORED | {"status": {"observedGeneration": 2}}, old=STORED):
    user = "system:serviceaccount:kube-system:deployment-controller"
    options = {"fieldManager": "kcm"}
    asked = make_review(new=new, old=old, subresource="status", user=user, options=options)
    return reviewed(asked, INTENT).request


def holds(expression: str, request: AdmissionRequest) -> Truth:
    asked = reviewed_request(request)
    assert asked is not None
    return holds_of(expression, asked)


@table("conditions/holds.yaml", "expression", "holds")
def test_a_condition_holds_as_on_the_api_server(case):
    assert holds(case["expression"], updated()).value == case["holds"], case.because


def test_of_an_object_of_the_cluster_the_namespace_is_null():
    asked = make_review(new=STORED, old=STORED)
    del asked["request"]["namespace"]
    for side in ("object", "oldObject"):
        asked["request"][side]["metadata"].pop("namespace", None)
    found = reviewed(asked, INTENT).request
    assert holds("namespaceObject == null", found) is Truth.TRUE


def test_numbers_that_no_api_server_sends_leave_a_condition_unknown():
    found = updated(new=STORED | {"spec": {"replicas": 2**70}})
    assert holds("object.spec.replicas > 1", found) is Truth.UNKNOWN


def test_an_object_that_cannot_be_decoded_leaves_a_condition_unknown():
    asked = make_review(new={"spec": "HERE"}, old={}, subresource="status")
    body = json.dumps(asked).replace('"HERE"', "1e999").encode()
    shown = decode_review(body)
    assert holds("object.spec == 1.0", shown) is Truth.UNKNOWN


def test_compiled_conditions_are_bounded():
    for number in range(MOST_CONDITIONS + 5):
        assert holds(f"{number} == {number}", updated()) is Truth.TRUE
    assert condition.cache_info().currsize == MOST_CONDITIONS
