"""matchConditions in CEL: right where they can be told, bounded whatever they say."""

import json

import pytest

from tests.cases_loader import table
from tests.reviews import make_review
from tests.unit.detection.builders import INTENT, reviewed
from webhook.admission.decode import decode_review
from webhook.detection.conditions import (
    LONGEST,
    MOST_BYTES,
    MOST_PROGRAMS,
    Conditions,
    is_bounded,
    reads_object,
)
from webhook.detection.view import View
from webhook.objects.selectors import Truth

STORED = {
    "metadata": {
        "name": "web",
        "generation": 3,
        "labels": {"app": "web", "team.example.org/x": "red"},
    },
    "spec": {
        "replicas": 3,
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "a",
                        "image": "reg.example.org/a",
                        "resources": {"limits": {"cpu": "1"}},
                    },
                    {"name": "b", "image": "elsewhere.example.org/b"},
                ]
            }
        },
    },
    "status": {"observedGeneration": 1},
}


def view(new=STORED | {"status": {"observedGeneration": 2}}, old=STORED):
    user = "system:serviceaccount:kube-system:deployment-controller"
    options = {"fieldManager": "kcm"}
    asked = make_review(new=new, old=old, subresource="status", user=user, options=options)
    return View(reviewed(asked, INTENT).request)


@table("conditions/holds.yaml", "expression", "holds")
def test_a_condition_holds_as_on_the_api_server(case):
    assert Conditions().hold([case["expression"]], view()).value == case["holds"], case.because


@pytest.mark.parametrize(
    ("expressions", "holds"),
    [
        ([], Truth.TRUE),
        (["true", "true"], Truth.TRUE),
        (["true", "object.nope == 1"], Truth.UNKNOWN),
        (["object.nope == 1", "false"], Truth.FALSE),
        (["authorizer.path('/').check('get').allowed()", "false"], Truth.FALSE),
    ],
)
def test_one_false_condition_decides_whatever_is_unknown(expressions, holds):
    assert Conditions().hold(expressions, view()) is holds


def test_of_an_object_of_the_cluster_the_namespace_is_null():
    asked = make_review(new=STORED, old=STORED)
    del asked["request"]["namespace"]
    for side in ("object", "oldObject"):
        asked["request"][side]["metadata"].pop("namespace", None)
    found = View(reviewed(asked, INTENT).request)
    assert Conditions().hold(["namespaceObject == null"], found) is Truth.TRUE


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5_000 + "true" + ")" * 5_000,
        "!" * 4_000 + "object.nope",
        "+".join(["1"] * 2_000) + " > 0",
        "object" + ".a" * 2_000 + " == 1",
        " || ".join(["object.nope"] * 300),
        "[1, 2, 3].all(a, " * 12 + "true" + ")" * 12,
        "''.matches('((((a{1,900}){1,900}){1,900}){1,900})')",
        "object.metadata.name == '\x00'",
        "object.metadata.name == '\ud800'",
        "size('\\ud800') == 1",
    ],
    ids=lambda one: ascii(one)[:16],
)
def test_no_expression_ends_the_process_or_takes_long(expression):
    assert Conditions().hold([expression], view()) in Truth


@pytest.mark.parametrize(
    ("expression", "bounded"),
    [
        ("object.list.all(x, x in [1, 2] && x != 3 && x > 0)", True),
        ("(object.a + object.b).all(c, has(c.x) && c.x)", True),
        ("['aaaa'].map(a, a + a + a + a).map(b, b + b + b + b).size() == 1", True),
        ("['aaaa'].map(a, a + a + a + a).map(b, b + b + b + b + b).size() == 1", False),
        ("[1].map(a, [a, a, a, a]).map(b, [b, b, b, b]).map(c, [c, c]) == []", False),
        (
            r"r'\'.size() > 0 && ['a'].map(a, a+a+a+a).map(a, a+a+a+a).size() == 1 || 'b' == ''",
            False,
        ),
        ("'// ' == '' || ['a'].map(a, a+a+a+a+a).map(b, b+b+b+b).size() == 1", False),
        ("object.a.replace('', object.a) == ''", False),
        ("object.list.join(object.a) == ''", False),
        ("'%s%s'.format([object.a, object.a]) == ''", False),
        ("strings.quote(strings.quote(object.a)) == ''", False),
        (f"'{'x' * LONGEST}' == ''", False),
        ("object.a == 'a.replace(b)' // .join(", True),
    ],
)
def test_values_that_may_grow_from_step_to_step_are_not_evaluated(expression, bounded):
    assert is_bounded(expression) is bounded


def test_large_objects_are_read_by_no_condition_but_the_request_still_is():
    large = STORED | {"spec": {"text": "x" * MOST_BYTES}}
    found = view(new=large, old=large)
    assert Conditions().hold(["object.spec != null"], found) is Truth.UNKNOWN
    assert Conditions().hold(["request.operation == 'CREATE'"], found) is Truth.FALSE


def test_numbers_that_no_api_server_sends_leave_a_condition_unknown():
    found = view(new=STORED | {"spec": {"replicas": 2**70}})
    assert Conditions().hold(["object.spec.replicas > 1"], found) is Truth.UNKNOWN


def test_an_expression_that_spent_its_budget_is_not_run_again():
    conditions = Conditions()
    spends = "object.spec.all(a, object.spec.all(b, object.spec.all(c, true)))"
    many = STORED | {"spec": {f"k{number}": number for number in range(40)}}
    assert conditions.hold([spends], view(new=many)) is Truth.UNKNOWN
    assert conditions.hold([spends], view()) is Truth.UNKNOWN
    assert Conditions().hold([spends], view()) is Truth.TRUE


def test_only_so_many_compiled_expressions_are_kept():
    conditions = Conditions()
    for number in range(MOST_PROGRAMS + 5):
        conditions.hold([f"{number} > 0"], view())
    assert len(conditions._programs) == MOST_PROGRAMS


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("object.a == 1", True),
        ("!has( object.a)", True),
        ("oldObject.a == 1", False),
        ("namespaceObject == null", False),
        ("request.object == 1", False),
    ],
)
def test_whether_a_condition_may_depend_on_the_new_object(expression, reads):
    assert reads_object([expression]) is reads


def test_an_object_that_cannot_be_decoded_leaves_a_condition_unknown():
    asked = make_review(new={"spec": "HERE"}, old={}, subresource="status")
    body = json.dumps(asked).replace('"HERE"', "1e999").encode()
    shown = View(decode_review(body))
    assert Conditions().hold(["object.spec == 1.0"], shown) is Truth.UNKNOWN
    assert Conditions().hold(["request.operation == 'UPDATE'"], shown) is Truth.TRUE


def test_of_a_creation_there_is_no_old_object():
    asked = make_review("CREATE", new={"spec": {"a": 1}})
    shown = View(decode_review(json.dumps(asked).encode()))
    assert Conditions().hold(["oldObject == null && object.spec.a == 1"], shown) is Truth.TRUE


def test_objects_of_just_the_bound_are_looked_at_and_larger_ones_are_not(monkeypatch):
    shown = view()
    for most, holds in ((shown.size, Truth.TRUE), (shown.size - 1, Truth.UNKNOWN)):
        monkeypatch.setattr("webhook.detection.conditions.MOST_BYTES", most)
        assert Conditions().hold(["object.spec.replicas == 3"], shown) is holds


CONTAINERS = "object.spec.template.spec.containers"


@pytest.mark.parametrize(
    ("expression", "holds", "because"),
    [
        (f"{CONTAINERS}.all(c, c.name != 'x')", Truth.TRUE, "one macro"),
        (
            f"{CONTAINERS}.all(c, c.name != 'x') && {CONTAINERS}.exists(c, c.name == 'a')",
            Truth.UNKNOWN,
            "a macro may stand inside another",
        ),
    ],
)
def test_where_macros_may_nest_objects_have_to_be_smaller(monkeypatch, expression, holds, because):
    monkeypatch.setattr("webhook.detection.conditions.MOST_BYTES_LOOPED", 10)
    assert Conditions().hold([expression], view()) is holds, because


def test_the_longest_unused_program_goes_first(monkeypatch):
    monkeypatch.setattr("webhook.detection.conditions.MOST_PROGRAMS", 2)
    conditions = Conditions()
    for expression in ("1 == 1", "2 == 2", "1 == 1", "3 == 3"):
        assert conditions.hold([expression], view()) is Truth.TRUE
    assert list(conditions._programs) == ["1 == 1", "3 == 3"]


def test_an_expression_of_just_the_longest_is_read():
    longest = "true" + " " * (LONGEST - 4)
    assert is_bounded(longest)
    assert not is_bounded(longest + " ")


def test_an_object_that_is_too_large_does_not_spoil_the_expression_for_others(monkeypatch):
    shown, conditions = view(), Conditions()
    monkeypatch.setattr("webhook.detection.conditions.MOST_BYTES", shown.size)
    larger = view(new=STORED | {"status": {"message": "x" * 1_000}})
    for one, holds in ((shown, Truth.TRUE), (larger, Truth.UNKNOWN), (shown, Truth.TRUE)):
        assert conditions.hold(["object.spec.replicas == 3"], one) is holds


def test_macros_that_use_what_they_build_once_make_nothing_grow():
    inner = "1 + 1"
    for name in "abcde":
        inner = f"[1].map({name}, {inner})"
    assert is_bounded(inner)
