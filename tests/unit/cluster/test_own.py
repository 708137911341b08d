"""Whose writes are genguard's own, by the token of its pod."""

import base64
import json

import pytest

from webhook.cluster import connection as module
from webhook.cluster.connection import IN_CLUSTER, server_user

ASSUMED = "system:serviceaccount:default:genguard"


def token(claims: object) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"head.{part}.signature"


@pytest.mark.parametrize(
    ("content", "user"),
    [
        (token({"sub": "system:serviceaccount:guard:g"}), "system:serviceaccount:guard:g"),
        (token({"sub": "a"}), "a"),
        (token({}), ASSUMED),
        (token([]), ASSUMED),
        (token({"sub": 1}), ASSUMED),
        ("no token", ASSUMED),
        ("a.!.c", ASSUMED),
    ],
)
def test_it_is_the_subject_of_the_token(content, user, tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(content)
    monkeypatch.setattr(module, "_TOKEN", file)
    monkeypatch.setattr(module, "default_namespace", lambda _: "default")
    assert server_user(IN_CLUSTER) == user


def test_elsewhere_it_is_the_account_that_install_makes(tmp_path):
    file = tmp_path / "kubeconfig"
    context = {"cluster": "c", "user": "u", "namespace": "guard"}
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": context}],
        "clusters": [{"name": "c", "cluster": {}}],
        "users": [{"name": "u", "user": {}}],
    }
    file.write_text(json.dumps(config))
    assert server_user(str(file)) == "system:serviceaccount:guard:genguard"
