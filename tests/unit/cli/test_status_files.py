"""`genguard status -f`: one line an object, and nothing that stops the rest."""

import json
import re
import subprocess
import sys

import yaml
from click.testing import CliRunner

from tests.cases_loader import read_beside
from webhook.cli import main

KEYS = [
    "kind", "namespace", "name", "ready", "settled", "health", "progress", "tableReady", "kstatus",
    "argo", "rollout", "reconciledGeneration", "terminatingReplicas", "reasons", "apiVersion",
    "group", "uid", "trafficReady", "applicationQualified",
]  # fmt: skip
WEB = read_beside(__file__, "web.yaml")
SHORT = WEB | {"status": WEB["status"] | {"readyReplicas": 2, "availableReplicas": 2}}


def below(owner, kind, name, **fields):
    reference = {"uid": owner["metadata"]["uid"], "controller": True}
    metadata = {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


REPLICA_SET = below(WEB, "ReplicaSet", "web-1", spec={"replicas": 3}) | {"apiVersion": "apps/v1"}
STUCK = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}
POD = below(REPLICA_SET, "Pod", "web-1-x", status=STUCK)


def status(*arguments: object, stdin=None):
    return CliRunner().invoke(main, ["status", *map(str, arguments)], input=stdin)


def tree(result):
    """The first column of a table: what leads to each object, and its name."""
    rows = result.stdout.splitlines()[1:]
    return [re.match(r"[ │├└─]*\S+/\S+", row)[0] for row in rows if "≠" not in row and "/" in row]


def lines(result):
    return [json.loads(line) for line in result.stdout.split("\n") if line]


def test_a_line_has_these_keys_in_this_order():
    result = status("-f", "-", "-o", "json", stdin=json.dumps(WEB))
    (line,) = lines(result)
    assert list(line) == KEYS
    assert line == {
        "kind": "Deployment", "namespace": "shop", "name": "web", "ready": True, "settled": True,
        "health": "Green", "progress": 1.0, "tableReady": True, "kstatus": "Current",
        "argo": "Healthy", "rollout": "complete", "reconciledGeneration": 4,
        "terminatingReplicas": 0, "reasons": [], "apiVersion": "apps/v1", "group": "apps",
        "uid": "1", "trafficReady": None, "applicationQualified": None,
    }  # fmt: skip
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_field_that_blocks_is_told_with_what_it_has_and_what_is_wanted():
    (line,) = lines(status("-f", "-", "-o", "json", stdin=json.dumps(SHORT)))
    assert (line["ready"], line["settled"], line["rollout"]) == (False, False, "waiting")
    assert "status.availableReplicas 2, want 3" in line["reasons"]


def test_a_table_is_a_tree_of_owners_that_names_the_leaf_that_blocks():
    text = yaml.safe_dump_all([POD, REPLICA_SET, SHORT])
    result = status("-f", "-", stdin=text)
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["OBJECT", "READY", "SETTLED", "HEALTH", "PROGRESS", "WHY"]
    assert tree(result) == ["Deployment/web", "└─ReplicaSet/web-1", "  └─Pod/web-1-x"]
    leaf = "ReplicaSet/web-1 › Pod/web-1-x › status.conditions[PodScheduled] False, want True"
    assert leaf in rows[0]


def test_a_set_has_a_last_line_and_namespaces_a_column():
    other = POD | {"metadata": {"name": "x", "namespace": "other"}}
    out = status("-f", "-", stdin=yaml.safe_dump_all([WEB, other])).stdout.splitlines()
    assert out[0].split()[0] == "NAMESPACE"
    assert out[-1] == "2 objects: 1 Green, 1 Yellow; not ready, not settled"


def test_wide_tells_what_the_others_say_and_yaml_is_json_for_them():
    text = json.dumps(WEB)
    wide = status("-f", "-", "-o", "wide", stdin=text).stdout.splitlines()
    assert wide[1].split() == [
        "Deployment/web", "yes", "yes", "Green", "100%", "4", "of", "4", "4", "0", "Current",
        "Healthy", "complete",
    ]  # fmt: skip
    as_json = lines(status("-f", "-", "-o", "json", stdin=text))
    assert list(yaml.safe_load_all(status("-f", "-", "-o", "yaml", stdin=text).stdout)) == as_json


def test_it_needs_no_client_of_the_api_and_no_server():
    program = (
        "import sys; from webhook.cli import main; "
        "main(['status', '-f', '/dev/null'], standalone_mode=False)"
    )
    check = f"try: {program.split('; ')[2]}\nexcept SystemExit: pass\n"
    code = f"import sys\nfrom webhook.cli import main\n{check}print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"aiohttp", "kubernetes", "cryptography"}.isdisjoint(done.stdout.split())
