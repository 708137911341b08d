"""Who talks to the API server: static tokens, and a kubeconfig file for each of them."""

import base64
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Identity:
    """One line of the token file."""

    name: str
    user: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)


def identities(tokens: Mapping[str, str] | None = None) -> dict[str, Identity]:
    """The administrator and one identity for each program, with the names of a real cluster.

    `tokens`: of users that have one already.
    """
    every = (
        Identity(ADMIN, "kubernetes-admin", ("system:masters",)),
        Identity("kube-controller-manager", "system:kube-controller-manager"),
        Identity("kube-scheduler", "system:kube-scheduler"),
        # One kwok plays all the kubelets, so the Node authorizer, which ties a kubelet to its own
        # node, must not have the last word.
        Identity("kwok", "system:node:kwok", ("system:nodes", "system:masters")),
    )
    known = tokens or {}
    return {one.name: replace(one, token=known.get(one.user, one.token)) for one in every}


def token_file(every: Iterable[Identity]) -> str:
    """The content of --token-auth-file."""
    return "".join(f'{one.token},{one.user},{one.user},"{",".join(one.groups)}"\n' for one in every)


def tokens_of(file: str) -> dict[str, str]:
    """The token of each user in the content of --token-auth-file."""
    return {user: token for token, user, *_ in (line.split(",") for line in file.splitlines())}


def kubeconfig(server: str, ca: bytes, identity: Identity, namespace: str = "default") -> str:
    """A kubeconfig file, complete in itself; JSON is YAML."""
    context = {"cluster": "genguard-tests", "user": identity.name, "namespace": namespace}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "genguard-tests",
        "contexts": [_named("context", context)],
        "clusters": [
            _named(
                "cluster",
                {"server": server, "certificate-authority-data": base64.b64encode(ca).decode()},
            )
        ],
        "users": [{"name": identity.name, "user": {"token": identity.token}}],
    }
    return json.dumps(config, indent=1)


def _named(key: str, value: dict[str, str]) -> dict[str, Any]:
    return {"name": "genguard-tests", key: value}
