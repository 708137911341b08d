"""A kind cluster, made by kind.sh as users make theirs, and everything that tests ask of it."""

import base64
import json
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.controlplane.client import Client, Endpoint, wait_until
from tests.kind.commands import KIND_SH, CommandError, Done, environment, run
from webhook.cluster.standby import ACTIVE

NAME = "genguard"
SYSTEM = "genguard-system"
PAUSE = "registry.k8s.io/pause:3.10"
"""An image that every kind node has: a pod of it needs no registry and hardly any memory."""
_PODS = ("pod", "-l", "app.kubernetes.io/name=genguard")
_REPLACEMENTS = (
    ("delete", *_PODS),
    ("rollout", "restart", "deployment/genguard"),
    ("delete", *_PODS, "--force", "--grace-period=0"),
)
_FORWARDING = "Forwarding from 127.0.0.1:"
_ACCOUNT = "kind-test"

Json = dict[str, Any]
Figure = Callable[[str], None]
"""Takes what was measured."""


class Cluster:
    """The cluster named genguard. Every command uses a kubeconfig of its own.

    flags    what `kind.sh up` hands to `genguard install`, besides the mode
    """

    def __init__(self, kubeconfig: Path, flags: Sequence[str] = ()) -> None:
        self.environment = environment(kubeconfig)
        self.flags = tuple(flags)

    def run(self, *words: str, **options: Any) -> Done:
        """Run any command."""
        return run(*words, env=self.environment, **options)

    def kubectl(self, *words: str, **options: Any) -> str:
        """What kubectl prints."""
        return self.run("kubectl", *words, **options).stdout

    def genguard(self, *words: str, **options: Any) -> Done:
        """Run the genguard of this checkout."""
        return self.run("genguard", *words, **options)

    def get(self, *words: str) -> Json:
        """What `kubectl get` finds."""
        found: Json = json.loads(self.kubectl("get", *words, "-o", "json"))
        return found

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Apply these objects."""
        self.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(documents))

    def apply_file(self, name: str, **values: str) -> None:
        """Apply a file of this folder, with these values in place of $NAME."""
        text = Template(Path(__file__).with_name(name).read_text()).substitute(values)
        self.kubectl("apply", "-f", "-", text=text)

    def up(self, *, audit_only: bool) -> Done:
        """Install genguard in this mode by kind.sh."""
        mode = ("--audit-only",) if audit_only else ()
        return self.run(KIND_SH, "up", *mode, *self.flags)

    def install(self, *flags: str, audit_only: bool) -> None:
        """Install this mode by `genguard install` alone: the image is that which runs."""
        mode = ("--audit-only",) if audit_only else ()
        image = self.container()["image"]
        self.genguard("install", "--yes", "--image", image, *mode, *self.flags, *flags)

    def ensure(self, *, audit_only: bool) -> None:
        """Install genguard in this mode by kind.sh, unless it is."""
        if self.mode() != ("audit-only" if audit_only else "enforcing"):
            self.up(audit_only=audit_only)

    def mode(self) -> str:
        """What the Deployment says, and "" where there is none or it is not registered."""
        try:
            self.kubectl("get", "validatingwebhookconfiguration", "zzzzzz-genguard-outcome")
            arguments = self.container()["args"]
        except CommandError:
            return ""
        return "audit-only" if "--audit-only" in arguments else "enforcing"

    def container(self) -> Json:
        """The container that genguard's Deployment asks for."""
        found = self.get("-n", SYSTEM, "deployment", "genguard")
        (container,) = found["spec"]["template"]["spec"]["containers"]
        return dict(container)

    def pods(self) -> list[Json]:
        """Pods of genguard that are ready and not on their way out."""
        found = self.get("-n", SYSTEM, *_PODS)["items"]
        return [one for one in found if _is_ready(one) and not _ends(one)]

    def answering(self) -> Json:
        """A pod behind the Service: the active one, or the first of those that all answer."""
        found = self.pods()
        active = [one for one in found if one["metadata"]["labels"].get(ACTIVE) == "true"]
        return (active or found)[0]

    def rolled_out(self, namespace: str = SYSTEM, deployment: str = "genguard") -> None:
        """Wait until the Deployment's rollout is done."""
        self.kubectl("-n", namespace, "rollout", "status", f"deployment/{deployment}")

    def replace_pods(self, number: int) -> str:
        """Replace genguard's pods, each time in another way; what was done."""
        words = _REPLACEMENTS[number % len(_REPLACEMENTS)]
        self.kubectl("-n", SYSTEM, *words)
        self.rolled_out()
        return " ".join(words)

    def load(self, image: str) -> None:
        """Make an image of this machine known to every node."""
        self.run("kind", "load", "docker-image", image, "--name", NAME)

    def nodes(self, label: str = "!node-role.kubernetes.io/control-plane") -> list[str]:
        """Names of the nodes with this label: by default the workers."""
        return [one["metadata"]["name"] for one in self.get("nodes", "-l", label)["items"]]

    def namespace(self, name: str) -> None:
        """Make a namespace."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = ("-n", name, "get", "serviceaccount", "default")
        wait_until(lambda: self.run("kubectl", *account, check=False).returncode == 0)

    @cached_property
    def client(self) -> Client:
        """A client of the API server that may do everything."""
        binding = f"{_ACCOUNT}-cluster-admin"
        whom = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": "default"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        self.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ACCOUNT}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": binding},
                "roleRef": {**role, "name": "cluster-admin"},
                "subjects": [whom],
            },
        )
        token = self.kubectl("create", "token", _ACCOUNT, "--duration=12h").strip()
        words = ("config", "view", "--raw", "--minify", "-o", "json")
        (entry,) = json.loads(self.kubectl(*words))["clusters"]
        server = urlsplit(entry["cluster"]["server"])
        ca = base64.b64decode(entry["cluster"]["certificate-authority-data"]).decode()
        return Client(Endpoint(server.hostname or "", server.port or 443, ca, token))

    @contextmanager
    def forwarded(
        self, target: str = "deployment/genguard", port: int = 0, namespace: str = SYSTEM
    ) -> Iterator[str]:
        """`kubectl port-forward` to the ops port, by default from a free one; the URL."""
        words = ("kubectl", "-n", namespace, "port-forward", target, f"{port or ''}:8080")
        process = subprocess.Popen(
            words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(_FORWARDING):
                assert process.stderr is not None
                raise CommandError(f"{' '.join(words)}: {line}{process.stderr.read()}")
            yield f"http://127.0.0.1:{line.removeprefix(_FORWARDING).split()[0]}"
        finally:
            process.terminate()
            process.communicate()

    def findings(self, **filters: str) -> list[Json]:
        """What the ready pods of genguard know; a finding that several know is told once."""
        query = "&".join(f"{name}={value}" for name, value in {"state": "all", **filters}.items())
        found: dict[str, Json] = {}
        for pod in self.pods():
            with self.forwarded(f"pod/{pod['metadata']['name']}") as url:
                answer = json.loads(fetch(f"{url}/api/findings?{query}"))
            found |= {one["id"]: one for one in answer["findings"]}
        return list(found.values())

    def doctor(self) -> dict[str, Json]:
        """The lines of doctor by what they are about; the worst where there are several."""
        words = ("doctor", "-o", "json")
        lines = [json.loads(one) for one in self.genguard(*words, check=False).stdout.splitlines()]
        lines = [one for one in lines if one["type"] == "check"]
        lines.sort(key=lambda one: ("ok", "warn", "fail").index(one["level"]))
        return {one["id"]: one for one in lines}

    def faults(self) -> dict[str, str]:
        """What doctor finds not well: the line's name and its level."""
        return {name: one["level"] for name, one in self.doctor().items() if one["level"] != "ok"}

    def leftovers(self) -> list[str]:
        """Whatever has genguard in its name, of any kind but Events: nodes have it in theirs."""
        listed = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        kinds = ",".join(one for one in listed if not one.startswith("events"))
        every = self.kubectl("get", kinds, "-A", "--ignore-not-found", "-o", "name").split()
        nodes = [one.removeprefix("node/") for one in every if one.startswith("node/")]
        return [one for one in every if NAME in one and not any(node in one for node in nodes)]


def exists() -> bool:
    """Whether there is a cluster of this name."""
    return NAME in run("kind", "get", "clusters").stdout.split()


def fetch(url: str) -> str:
    """GET; the text of the answer."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def is_free(port: int) -> bool:
    """Whether nobody listens here."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _ends(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"]
