"""The first code of docs/testing.md, as it stands, beside operators on a real API server.

One is made with kopf, one with controller-runtime; of each there is a quiet and a restless one.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.controlplane.build import binary
from tests.controlplane.client import wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import ProcessGroup
from tests.e2e.custom import defined, definition
from tests.e2e.genguard import IMPORTS
from tests.library.test_documented import CODE, EXAMPLE, PAGE

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
GADGETS = definition("example.org", "gadgets", "Gadget", ANYTHING, status=True)
RESTLESS = Path(__file__).with_name("operators") / "restless.py"
NAMED = (
    "kopf (likely): backups.example.org default/one /status",
    "manager kopf writes status.conditions[Looked].status again and again",
    "gadgets (likely): gadgets.example.org default/one /status",
    "manager gadgets writes status.lastReconciled again and again",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        pytest.param(EXAMPLE / "backup_operator.py", (), ("1 passed",), id="quiet"),
        pytest.param(RESTLESS, ("restless",), ("1 failed", "2 found", *NAMED), id="restless"),
    ],
)
def test_the_page_asks_whether_two_operators_are_quiet(
    tmp_path: Path, program: Path, words: tuple[str, ...], said: tuple[str, ...]
):
    running = ProcessGroup(tmp_path)
    crd = yaml.safe_load((EXAMPLE / "crd.yaml").read_text())
    with ControlPlane() as plane, defined(plane, crd), defined(plane, GADGETS):
        environment = {**IMPORTS, "KUBECONFIG": str(plane.kubeconfig)}
        kopf = [sys.executable, "-m", "kopf", "run", "-A", "--standalone", program]
        running.start("kopf", kopf, environment)
        get = plane.client.get
        running.start("gadgets", [binary("gadgets"), "Gadget", *words], environment)
        for kind in ("Backup", "Gadget"):
            path = f"/apis/example.org/v1/namespaces/default/{kind.lower()}s"
            body = {"apiVersion": "example.org/v1", "kind": kind, "spec": {"volume": "data"}}
            plane.client.post(path, {**body, "metadata": {"name": "one"}})
            wait_until(lambda at=f"{path}/one": get(at).body.get("status"), what=path)
        (tmp_path / "test_page.py").write_text(CODE.findall(PAGE)[0])
        asked = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "test_page.py"],
            cwd=tmp_path,
            env={**environment, "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        running.check()
        running.stop()
    assert [one for one in said if one not in asked.stdout] == [], asked.stdout + asked.stderr
