"""`genguard status -f`: one line an object, and nothing that stops the rest."""

import json
import re
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.cli import main

KEYS = [
    "kind", "namespace", "name", "ready", "settled", "health", "progress", "tableReady", "kstatus",
    "argo", "rollout", "reconciledGeneration", "terminatingReplicas", "reasons", "apiVersion",
    "group", "uid", "trafficReady", "applicationQualified",
]  # fmt: skip
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "generation": 4, "uid": "1"},
    "spec": {"replicas": 3},
    "status": {
        "observedGeneration": 4,
        "replicas": 3,
        "updatedReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "terminatingReplicas": 0,
        "conditions": [{"type": "Available", "status": "True"}],
    },
}
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


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(WEB) + "\n" + json.dumps(POD),
        json.dumps(WEB) + json.dumps(POD),
        json.dumps(WEB, indent=2) + "\n" + json.dumps(POD, indent=2),
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [WEB, POD]}, indent=1),
        yaml.safe_dump_all([WEB, POD]),
        yaml.safe_dump(WEB) + "---\n" + json.dumps(POD),
    ],
    ids=["a line each", "end to end", "indented", "a List", "YAML", "both"],
)
def test_however_they_are_written_the_objects_keep_their_order(text):
    result = status("-f", "-", "-o", "json", stdin=text)
    assert [line["name"] for line in lines(result)] == ["web", "web-1-x"]
    assert result.exit_code == 0


def test_several_files_and_one_that_is_not_there(tmp_path):
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(WEB))
    (tmp_path / "b.json").write_text(json.dumps(POD))
    files = [tmp_path / "a.yaml", tmp_path / "missing", tmp_path, tmp_path / "b.json", "-"]
    arguments = [word for file in files for word in ("-f", file)]
    result = status(*arguments, "-o", "json", stdin=json.dumps(WEB))
    names = ["web", "web", "web-1-x", "web-1-x", "web"]  # the folder holds both
    assert [line["name"] for line in lines(result)] == names
    assert result.exit_code == 1
    assert f"{tmp_path / 'missing'}: No such file or directory" in result.stderr


def test_one_malformed_object_is_told_once_and_never_stops_the_rest():
    text = "\n".join([json.dumps(WEB), '{"secret": "hunter2"', "", json.dumps(POD), "5"])
    result = status("-f", "-", "-o", "json", stdin=text)
    assert [line["name"] for line in lines(result)] == ["web", "web-1-x"]
    what = ["neither JSON nor YAML at line 2", "a number where an object is expected at line 5"]
    assert result.stderr.splitlines() == [
        f"standard input: {one} was left out; correct it and try again" for one in what
    ]
    assert result.exit_code == 1


def test_numbers_and_times_keep_their_types_in_yaml():
    time = "2026-01-01T00:00:00Z"
    pod = {**POD, "metadata": POD["metadata"] | {"creationTimestamp": "@"}}
    text = yaml.safe_dump(pod).replace("'@'", time)
    assert f"creationTimestamp: {time}" in text
    (line,) = lines(status("-f", "-", "-o", "json", stdin=text))
    assert line["kstatus"] == "Failed", "long unschedulable, by a time that was read as a text"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
WRONG = st.fixed_dictionaries(
    {},
    optional={
        "apiVersion": JSON | st.just("apps/v1"),
        "kind": JSON | st.sampled_from(["Deployment", "Pod", "Job"]),
        "metadata": JSON | st.fixed_dictionaries({"name": JSON, "generation": JSON, "uid": JSON}),
        "spec": JSON | st.fixed_dictionaries({"replicas": JSON, "template": JSON}),
        "status": JSON | st.fixed_dictionaries({"conditions": JSON, "observedGeneration": JSON}),
    },
)


@pytest.mark.slow
@settings(max_examples=60)  # each is two runs of the whole program
@given(st.lists(WRONG, min_size=1, max_size=3))
def test_an_object_with_wrong_types_inside_still_gets_its_line(objects):
    text = "\n".join(map(json.dumps, objects))
    result = status("-f", "-", "-o", "json", stdin=text)
    assert [list(line) for line in lines(result)] == [KEYS] * len(objects), result.stderr
    assert result.exit_code == 0
    assert status("-f", "-", "-o", "wide", stdin=text).exit_code == 0


def test_a_table_is_a_tree_of_owners_that_names_the_leaf_that_blocks():
    text = yaml.safe_dump_all([POD, REPLICA_SET, SHORT])
    result = status("-f", "-", stdin=text)
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["OBJECT", "READY", "SETTLED", "HEALTH", "PROGRESS", "WHY"]
    assert tree(result) == ["Deployment/web", "└─ReplicaSet/web-1", "  └─Pod/web-1-x"]
    leaf = "ReplicaSet/web-1 › Pod/web-1-x › status.conditions[PodScheduled] False, want True"
    assert leaf in rows[0]


def test_where_tools_disagree_one_line_says_what_they_answer():
    paused = WEB | {"spec": {"replicas": 3, "paused": True}}
    rows = status("-f", "-", stdin=json.dumps(paused)).stdout.splitlines()
    assert len(rows) == 3
    assert (
        rows[2].strip() == "≠ kstatus says Current, Argo CD says Suspended, kubectl says complete"
    )


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


def test_names_cannot_forge_a_row_or_colours():
    forged = WEB | {"metadata": {"name": "a\n\x1b[32mb"}}
    out = status("-f", "-", stdin=json.dumps(forged)).stdout
    assert len(out.splitlines()) == 2
    assert "\x1b" not in out


def test_owners_in_a_circle_are_still_told():
    one = below(POD, "Pod", "one")
    other = below(one, "Pod", "other")
    one["metadata"]["ownerReferences"][0]["uid"] = "other"
    result = status("-f", "-", stdin=yaml.safe_dump_all([one, other]))
    assert tree(result) == ["Pod/one", "└─Pod/other"]


def test_it_needs_no_client_of_the_api_and_no_server():
    program = (
        "import sys; from webhook.cli import main; "
        "main(['status', '-f', '/dev/null'], standalone_mode=False)"
    )
    check = f"try: {program.split('; ')[2]}\nexcept SystemExit: pass\n"
    code = f"import sys\nfrom webhook.cli import main\n{check}print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"aiohttp", "kubernetes", "cryptography"}.isdisjoint(done.stdout.split())
