"""Nothing of a cluster is in what is handed over, and the finding is still made."""

import json
from pathlib import Path

import pytest
import yaml

from genguard.reproduce.anonymous import Anonymous
from genguard.reproduce.recorded import encode, writes_of
from genguard.reproduce.reproducer import folder_of
from tests.reproduce.making import made_of
from tests.reviews import make_review

CANARY = "kanarienvogel"
_MAPS = ("labels", "annotations", "matchLabels", "data")
_FREE = (*_MAPS, "env", "image", "command", "message")


def with_canaries(line: bytes) -> bytes:
    """The line with a canary in each name of a user and in each free text.

    The namespace has the name of the scenario, which is one as well.
    """
    document = json.loads(line)
    request = document["review"]["request"]
    request["userInfo"]["username"] = named(request["userInfo"]["username"])
    for shown in filter(None, (request.get("object"), request.get("oldObject"))):
        for key, value in shown.items():
            if key not in ("apiVersion", "kind"):
                shown[key] = planted(value, is_free=False)
    return json.dumps(document).encode()


def named(user: str) -> str:
    return user if user.startswith("system:") else f"{CANARY}-{user}"


def planted(value, *, is_free: bool, is_map: bool = False):
    if isinstance(value, dict):
        return {
            (f"{CANARY}-{key}" if is_map and "/" not in key else key): planted(
                one, is_free=is_free or key in _FREE, is_map=key in _MAPS
            )
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [planted(one, is_free=is_free) for one in value]
    is_text = isinstance(value, str) and not value.isdecimal()  # a resourceVersion is none
    return f"{CANARY}-{value}" if is_free and is_text else value


@pytest.mark.parametrize(
    "name",
    [
        "deployment-status-zeroed",
        "pod-template-stamped",
        "replicas-pinned",
        "label-of-two-wills",
        "annotation-of-two-wills",
        "environment-sorted-by-a-webhook",
        "a-random-password-with-each-render",
        "a-secret-and-its-configmap-are-kept-alike",
        "two-replicators-copy-to-each-other",
        "update-refused-by-a-policy",
    ],
)
def test_no_name_and_no_value_of_a_cluster_is_handed_over(name):
    made, writes = made_of(name, with_canaries)
    assert CANARY in str(writes)
    for file, content in folder_of(made).items():
        assert CANARY.encode() not in content, file
        assert name.encode() not in content, file


POD = yaml.safe_load(Path(__file__).with_name("pod.yaml").read_text())


@pytest.mark.parametrize("resource", ["pods", "secrets", "backups.kanarienvogel.example"])
def test_whatever_an_object_and_a_request_say_is_replaced(resource):
    document = {**POD, "data": {CANARY: CANARY}, "stringData": {CANARY: "Kanarienvogel"}}
    if "." in resource:  # all but a few fields of a custom resource are free
        document |= {
            "kanarienvogel": 1,
            "apiVersion": "kanarienvogel.example/v1kanarienvogel",
            "spec": {"kanarienvogel": {"kanarienvogel": "Kanarienvogel"}},
        }
    review = make_review("UPDATE", resource, document, document, name=CANARY, user=CANARY)
    request = review["request"]
    request["namespace"] = CANARY
    request["resource"]["version"] = CANARY if "." in resource else "v1"
    request["options"] = {"kind": "UpdateOptions", "fieldManager": f"helm-{CANARY}"}
    request["userInfo"]["groups"] = [CANARY]
    request["userInfo"]["extra"] = {
        f"{CANARY}.example/tenant": [CANARY],
        "authentication.kubernetes.io/pod-name": [CANARY],
    }
    line = {"time": "2026-01-01T00:00:00Z", "phase": "mutate", "review": review}
    writes, _ = writes_of([json.dumps(line).encode()])
    (text,) = encode(Anonymous(writes).writes)
    assert CANARY not in text.decode().lower()
    assert "kubernetes.io/os" in text.decode() or "." in resource


@pytest.mark.parametrize(
    "user",
    [
        CANARY,
        f"system:serviceaccount:kube-system:{CANARY}",
        f"system:serviceaccount:{CANARY}:{CANARY}",
        f"system:node:{CANARY}",
        f"system:{CANARY}",
    ],
)
def test_users_are_replaced_but_those_of_kubernetes(user):
    known = "system:serviceaccount:kube-system:deployment-controller"
    for name, stays in ((user, False), (known, True)):
        review = make_review("UPDATE", "pods", {}, {}, user=name)
        line = {"time": "2026-01-01T00:00:00Z", "phase": "mutate", "review": review}
        (text,) = encode(Anonymous([(line,)]).writes)
        assert (name in text.decode()) is stays
