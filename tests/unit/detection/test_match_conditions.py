"""What becomes of matchConditions, whoever evaluates them."""

import pytest

from genguard.detection.detection import Detection
from genguard.detection.evidence import ResourceKind
from genguard.detection.matching import read_policies, reads_object
from genguard.detection.suspects import Suspects, read_configurations
from tests.unit.detection.builders import INTENT, reviewed, update
from tests.unit.detection.evaluating import CONDITIONS
from tests.unit.detection.policies import binding, policy
from tests.unit.detection.test_called_webhooks import only_if
from tests.unit.detection.test_suspects import OWN, hook

HERE, ELSE = ResourceKind("apps", "deployments", ""), ResourceKind("apps", "deployments", "status")
ERROR = "object.nope == 1"
ELSEWHERE = "authorizer.path('/').check('get').allowed()"


def unmet(expressions, conditions):
    configurations = read_configurations([*OWN, hook("aaa", ("*",), **only_if(*expressions))])
    suspects = Suspects(configurations, conditions=conditions)
    suspects.changed(HERE)
    return suspects.unmet_in(reviewed(update({"spec": 1}, {"spec": 2}), INTENT).request)


@pytest.mark.parametrize(
    ("expressions", "is_unmet"),
    [
        (("true", "true"), False),
        (("true", ERROR), False),
        ((ERROR, "false"), True),
        ((ELSEWHERE, "false"), True),
        (("false", "true"), True),
    ],
)
def test_one_false_condition_decides_whatever_is_unknown(expressions, is_unmet):
    assert bool(unmet(expressions, CONDITIONS)) is is_unmet


@pytest.mark.parametrize(
    ("documents", "place", "is_slow", "because"),
    [
        ([hook("aaa", ("*",), **only_if("true"))], HERE, True, "a webhook has a condition"),
        ([hook("aaa", ("*",), **only_if("true"))], ELSE, False, "nobody changes writes here"),
        ([hook("aaa", ("*",))], HERE, False, "no webhook has a condition"),
        ([policy(conditions=("true",)), binding()], ELSE, True, "a policy has a condition"),
        ([policy(), binding()], HERE, False, "no policy has a condition"),
    ],
)
def test_a_review_is_slow_where_conditions_may_be_evaluated(documents, place, is_slow, because):
    configurations = read_configurations([*OWN, *documents])
    suspects = Suspects(configurations, read_policies(documents), CONDITIONS)
    suspects.changed(place)
    request = reviewed(update({"spec": 1}, {"spec": 2}), INTENT).request
    assert Detection(suspects).is_slow(request) is is_slow, because


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
