"""Every command of every runbook and page does in a real cluster what its reader expects."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.controlplane.client import wait_until
from tests.kind.cluster import SYSTEM, Cluster, Figure
from tests.kind.commands import ROOT, run
from tests.kind.culprit import CONFIGURATION, Culprit
from tests.kind.draws import deployment
from tests.kind.images import build
from tests.runbook_commands import Command, commands
from tools.published import current

NAMESPACE = "pages"
PAGES = list(dict.fromkeys(one.page for one in commands()))
NOT_RUN = {
    r"make (demo|run|test)": "tests/demo and tests/readme run them, and CI all tests",
    r"curl -sS --cacert \.certs": "asks the server of `make run`: tests/readme",
    r"kubectl .*\btop\b": "needs metrics-server, which kind has not",
    r"manifests/kind/kind\.sh down": "the tests end with it",
    r"pipx ": "tests/supply/test_pipx.py, in an empty home",
    r".*(ghcr\.io/|/releases/download/)": "tests/supply, with the files of these sources",
}
"""Commands that are not run, with the reason."""
MAY_END_WITH_1 = re.compile(r"\| grep|\| genguard lint|^diff|^genguard doctor|^kubectl auth can-i")
"""Nothing is found, files differ, something warns, a right is missing: that is an answer, unless
an error is told."""
ERROR = re.compile(r"error|unable|not found", re.IGNORECASE)
NEEDS_GENGUARD = re.compile(r"genguard-system|delete -k|genguard doctor")
"""Another command of the same page may have taken it away: pages tell of alternatives."""
BEFORE = {r"kubectl .* create secret generic genguard-store": "delete secret genguard-store"}
"""What kubectl does first, in genguard's namespace: an alternative has made the same object."""
SECONDS = 420.0
ENDLESS_SECONDS = 4.0

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: pages}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}
  reinvocationPolicy: Never
  mutations:
    - patchType: ApplyConfiguration
      applyConfiguration:
        expression: 'Object{metadata: Object.metadata{labels: {"pages": "seen"}}}'
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


class Desk:
    """A copy of the checkout to type in, and the objects that commands are about."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self.folder = cluster, folder
        self._image = cluster.container()["image"]
        self._store = build("valkey")
        cluster.load(self._store)
        ignored = shutil.ignore_patterns(".git", ".venv", ".*_cache", "build", "__pycache__")
        shutil.copytree(ROOT, folder, ignore=ignored)
        (folder / "app.yaml").write_text(yaml.safe_dump(deployment("web", "default")))
        (folder / "objects.ndjson").write_text(json.dumps(deployment("web", "default")))
        (folder / "recording.ndjson").write_text(_review())
        (folder / "password").write_text("changed")
        (folder / "ca.crt").write_text("")
        released = current().image  # what `genguard install` takes without --image
        run("docker", "tag", self._image, released)
        cluster.load(released)

    def typed(self, command: Command) -> str:
        """The command with its names filled in, and agreed to where it asks."""
        values = {
            "NAMESPACE": NAMESPACE,
            "KIND": "deployment",
            "RESOURCE": "deployments.apps",
            "NAME": "web",
            "FILE": "recording.ndjson" if "replay" in command.text else "app.yaml",
            "IMAGE": self._image,
            "OWNER": "owner",
            "WEBHOOK_CONFIGURATION": CONFIGURATION,
            "POLICY": "pages",
            "CUSTOM_RESOURCE_DEFINITION": "widgets.example.org",
            "CONDITION": "Available",
            "PATCH": '{"spec":{"replicas":2}}',
            "SERVICEACCOUNT": "default",
            "USER": "system:admin",
        }
        text = command.filled(values)
        text = re.sub(r"(genguard install .*--ha)\b", rf"\1 --store-image {self._store}", text)
        if text.startswith("genguard trace"):
            return f"{text} --yes --poke"  # nobody else writes the object meanwhile
        asks = re.match(r"genguard (un)?install\b", text) and "--dry-run" not in text
        return f"{text} --yes" if asks else text

    def run(self, text: str) -> str:
        """Run it to its end; what is wrong with it, "" where nothing is."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", text],
            cwd=self.folder,
            env=self._cluster.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        is_answer = done.returncode == 1 and MAY_END_WITH_1.search(text)
        if done.returncode == 0 or (is_answer and not ERROR.search(done.stderr)):
            return ""
        return f"{text}: {done.returncode}\n{done.stdout}{done.stderr}"

    def prepare(self, text: str) -> None:
        """Make what a command expects, where another one of its page has changed it."""
        if NEEDS_GENGUARD.search(text) and not self._cluster.mode():
            self._cluster.up(audit_only=True)
        for pattern, words in BEFORE.items():
            if re.match(pattern, text):
                self._cluster.kubectl("-n", SYSTEM, *words.split(), "--ignore-not-found")

    @contextmanager
    def running(self, text: str) -> Iterator[str]:
        """Start what does not end; what is wrong with it, "" when it still runs after a while."""
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", f"exec {text.removesuffix('&')}"],
            cwd=self.folder,
            env=self._cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        time.sleep(ENDLESS_SECONDS)
        ended = process.poll() is not None
        try:
            yield f"{text}: it ended\n{process.communicate()[0]}" if ended else ""
        finally:
            if not ended:
                os.killpg(process.pid, signal.SIGINT)
                process.communicate()


@pytest.fixture(scope="module")
def desk(
    cluster: Cluster, culprit: Culprit, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    cluster.ensure(audit_only=True)
    for namespace in (NAMESPACE, "default"):
        cluster.namespace(namespace)
    cluster.apply(yaml.safe_load(POLICY), yaml.safe_load(DEFINITION))
    cluster.apply(deployment("web", "default"))
    for turn in range(3):  # generation 4, which README waits for
        annotation = {"spec": {"template": {"metadata": {"annotations": {"turn": str(turn)}}}}}
        words = ("-n", "default", "patch", "deployment", "web", "-p", json.dumps(annotation))
        cluster.kubectl(*words)
    with culprit.clearing("deployments/status", NAMESPACE):
        cluster.apply(deployment("web", NAMESPACE))
        yield Desk(cluster, tmp_path_factory.mktemp("desk") / "genguard")


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_works(
    cluster: Cluster, desk: Desk, figure: Figure, page: str
) -> None:
    if cluster.mode() != "audit-only" or cluster.faults():
        cluster.up(audit_only=True)
        wait_until(lambda: not cluster.faults(), 120, every=2, what="all well before")
    typed, left_out, wrong = 0, 0, []
    with ExitStack() as stack:
        for command in (one for one in commands() if one.page == page):
            text = desk.typed(command)
            if any(re.match(one, text) for one in NOT_RUN):
                left_out += 1
                continue
            typed += 1
            desk.prepare(text)
            if not command.is_endless:
                wrong.append(desk.run(text))
            elif text.endswith("&"):
                wrong.append(stack.enter_context(desk.running(text)))
            else:
                with desk.running(text) as trouble:
                    wrong.append(trouble)
    figure(f"{typed} commands, {sum(map(bool, wrong))} failed, {left_out} not run")
    assert not any(wrong), "\n\n".join(filter(None, wrong))


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_what_is_not_run_is_on_a_page(pattern: str) -> None:
    assert any(re.match(pattern, one.text) for one in commands()), NOT_RUN[pattern]


def _review() -> str:
    """One line of a recording: an update of a Deployment's status."""
    where = {"group": "apps", "version": "v1", "resource": "deployments"}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "UPDATE",
        "subResource": "status",
        "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
        "resource": where,
        "name": "web",
        "namespace": "default",
        "userInfo": {"username": "deployment-controller"},
        "oldObject": {"metadata": {"name": "web", "generation": 4}, "status": {}},
        "object": {"metadata": {"name": "web", "generation": 4}, "status": {"replicas": 3}},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review) + "\n"
