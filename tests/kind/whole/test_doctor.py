"""doctor finds what somebody has broken in a real cluster, and its own command mends it."""

import shlex
import time
from typing import NamedTuple

import pytest

from tests.controlplane.client import wait_until
from tests.kind.cluster import SYSTEM, Cluster, Figure

MUTATE = "mutatingwebhookconfiguration zzzzzz-genguard-mutate"
OUTCOME = "validatingwebhookconfiguration zzzzzz-genguard-outcome"
DEPLOYMENT = f"-n {SYSTEM} deployment/genguard"
LATE = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: zzzzzzz-late
webhooks:
  - name: late.example.org
    rules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [UPDATE]}]
    clientConfig: {url: "https://127.0.0.1:9/"}
    failurePolicy: Ignore
    timeoutSeconds: 1
    sideEffects: None
    admissionReviewVersions: [v1]
"""


class Fault(NamedTuple):
    """What somebody types after `kubectl`, and the line of doctor that must not be ok."""

    words: str
    check: str
    level: str = "fail"
    text: str = ""


def patched(what: str, operation: str, pointer: str, value: str = "null") -> str:
    """A JSON Patch of one operation."""
    patch = f'[{{"op": "{operation}", "path": "{pointer}", "value": {value}}}]'
    return f"patch {what} --type=json -p {shlex.quote(patch)}"


TRIAL = '{"matchLabels": {"kubernetes.io/metadata.name": "genguard-test-0a1b2c3d"}}'
NEVER = '{"name": "never", "expression": "false"}'
SELECTOR = "/webhooks/0/namespaceSelector"
FAULTS = {
    "a registration is gone": Fault(f"delete {OUTCOME}", "registered"),
    "an installation did not get to its end": Fault(
        patched(MUTATE, "replace", SELECTOR, TRIAL), "registered"
    ),
    "a rule is gone": Fault(patched(MUTATE, "remove", "/webhooks/0/rules/9"), "rules"),
    "it makes writes fail": Fault(
        patched(MUTATE, "replace", "/webhooks/0/failurePolicy", '"Fail"'), "settings"
    ),
    "writes may wait long for it": Fault(
        patched(MUTATE, "replace", "/webhooks/0/timeoutSeconds", "30"), "settings", "warn"
    ),
    "it watches what it lives by": Fault(patched(OUTCOME, "replace", SELECTOR, "{}"), "settings"),
    "another webhook comes after it": Fault("apply -f -", "order", "warn", LATE),
    "it is never called": Fault(
        patched(MUTATE, "add", "/webhooks/0/matchConditions/-", NEVER), "reached"
    ),
    "it is scaled to nothing": Fault(f"scale {DEPLOYMENT} --replicas=0", "pods"),
    "its Service spreads connections": Fault(
        patched(f"-n {SYSTEM} service/genguard", "replace", "/spec/sessionAffinity", '"None"'),
        "phases",
    ),
    "its Service leads nowhere": Fault(
        patched(f"-n {SYSTEM} service/genguard", "add", "/spec/selector/app", '"none"'), "pods"
    ),
    "its rights are gone": Fault("delete clusterrolebinding genguard", "rights"),
    "its PodDisruptionBudget is gone": Fault(
        f"delete -n {SYSTEM} poddisruptionbudget genguard", "installed"
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_doctor_finds_a_planted_fault_and_its_own_command_mends_it(
    cluster: Cluster, figure: Figure, name: str
) -> None:
    cluster.ensure(audit_only=True)
    wait_until(lambda: not cluster.faults(), 120, every=2, what="all well before")
    fault = FAULTS[name]
    cluster.kubectl(*shlex.split(fault.words), text=fault.text)
    line = wait_until(lambda: _line(cluster, fault), 60, every=1, what=f"{fault.check} not ok")
    begin = time.monotonic()
    fix = line["fix"]
    agreed = f"{fix} --yes" if fix.startswith("genguard install") else fix
    cluster.run("bash", "-c", f"set -o pipefail; {agreed}")
    cluster.kubectl(
        "delete", "mutatingwebhookconfiguration", "m-zzzzzzz-late", "--ignore-not-found"
    )
    wait_until(lambda: not cluster.faults(), 120, every=2, what="all well again")
    figure(f"{line['level']} {line['id']}: {line['message']}; mended in {_seconds(begin)}")


def _line(cluster: Cluster, fault: Fault) -> dict[str, str]:
    """The line of the check, once it has the level that is expected."""
    line = cluster.doctor()[fault.check]
    return line if line["level"] == fault.level else {}


def _seconds(begin: float) -> str:
    return f"{time.monotonic() - begin:.0f} s"
