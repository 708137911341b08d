"""The command that makes an installation enforcing keeps all other choices of who installed it."""

import asyncio
import shlex
from http import HTTPStatus

import pytest
import yaml
from click.testing import CliRunner

import manifests
from webhook.cli import main
from webhook.cluster.installation import enforcing_command
from webhook.cluster.rest import RefusedError
from webhook.manifest.documents import AUDIT_ONLY, HEAL, arguments_of, path_of
from webhook.manifest.rendering import Choices, render

STORE = "valkey://valkey.stores.svc:6379/3"


class Cluster:
    """Answers with the objects of an installation."""

    def __init__(self, choices, *, forbids=()) -> None:
        documents = render(choices, manifests.read)
        self.documents = {path_of(one): one for one in documents}
        self.forbids = forbids

    async def get(self, path, **_):
        if any(word in path for word in self.forbids):
            raise RefusedError(HTTPStatus.FORBIDDEN, "forbidden")
        if path in self.documents:
            return self.documents[path]
        raise RefusedError(HTTPStatus.NOT_FOUND, "not found")

    async def list_all(self, path, params=None, **_):
        if any(word in path for word in self.forbids):
            raise RefusedError(HTTPStatus.FORBIDDEN, "forbidden")
        return [one for name, one in self.documents.items() if name.rpartition("/")[0] == path]

    def deployment(self):
        (found,) = (one for one in self.documents.values() if one["kind"] == "Deployment")
        return found


CHOICES = [
    {},
    {"namespace": "elsewhere"},
    {"image": "registry.example.org/genguard:1.2.3"},
    {"cert_manager": True},
    {"ha": True},
    {"ha": True, "replicas": 5, "store_image": "registry.example.org/valkey:8"},
    {"ha": True, "store": STORE},
    {"api_servers": ("10.0.0.0/24", "10.1.0.0/24")},
    {"alertmanagers": ("http://alertmanager.monitoring.svc:9093",)},
]


def installed_by(command):
    words = shlex.split(command)
    assert words[:2] == ["genguard", "install"]
    answer = CliRunner().invoke(main, [*words[1:], "-o", "yaml", "--registrations=follow"])
    assert answer.exit_code == 0, answer.output
    return [one for one in yaml.safe_load_all(answer.output) if one]


@pytest.mark.parametrize("given", CHOICES, ids=lambda one: " ".join(one) or "nothing")
def test_what_it_installs_differs_in_the_mode_alone(given):
    cluster = Cluster(Choices(audit_only=True, heal=False, **given))
    namespace = given.get("namespace", "genguard-system")
    command = asyncio.run(enforcing_command(cluster, namespace))
    assert AUDIT_ONLY not in command
    now = {path_of(one): one for one in installed_by(command)}
    wanted = Cluster(Choices(audit_only=False, **given)).documents
    # The Secret has another pair each time, and with it the registrations another bundle.
    same = ("Deployment", "StatefulSet", "NetworkPolicy", "ClusterRole", "Role", "Service")
    for path, document in wanted.items():
        if document["kind"] in same:
            assert now[path] == document
    (deployment,) = (one for one in now.values() if one["kind"] == "Deployment")
    before = set(arguments_of(cluster.deployment()))
    assert before - set(arguments_of(deployment)) == {AUDIT_ONLY}
    assert set(arguments_of(deployment)) - before == {HEAL}
