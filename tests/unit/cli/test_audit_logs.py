"""`genguard replay` without a FILE: it finds the log of an API server on this machine."""

import gzip
from pathlib import Path

import pytest

from tests.cases_loader import table
from tests.unit.audit.samples import CLEARS, as_lines, statuses
from tests.unit.cli.samples import lines, replay

DOCKER = """
case "$1" in
ps) [ "$2" != --filter=label=io.x-k8s.kind.role=control-plane ] || echo kind-control-plane;;
exec) [ "$3" != sh ] || exec /bin/cat $ROOT/node/stdout; /bin/$3 "$ROOT/node$4";;
esac
"""
EVENTS = as_lines(statuses(6, CLEARS, asked={"observedGeneration": 1}, kept={}))
CLEARED = "observed-generation-cleared"
MANIFEST = "etc/kubernetes/manifests/kube-apiserver.yaml"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root folder, with that of a node of kind in it."""
    (tmp_path / "bin").mkdir()
    programs = {one: f'exec /bin/{one} "$ROOT$1"' for one in ("cat", "ls")} | {"docker": DOCKER}
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text.replace('$ROOT', str(tmp_path))}")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@table("cli/audit_logs.yaml", "settings", "text", "log")
@pytest.mark.parametrize("host", ["", "node"])
def test_it_reads_the_log_and_what_was_rotated_before_it(machine, host, case):
    root = str(machine / host)
    write(Path(root + case["settings"]), case["text"])
    path = Path(root + case["log"])
    first, second = (f"{path.stem}-2026-11-2{day}T01-02-03.000{path.suffix}" for day in (1, 2))
    write(path.with_name(f"{first}.gz"), gzip.compress(b"".join(EVENTS[:2])))
    write(path.with_name(second), b"".join(EVENTS[2:4]))
    write(path.with_name(f"{path.stem}-notes{path.suffix}"), "no log")
    write(path, b"".join(EVENTS[4:]))
    result = replay("-o", "json")
    assert (result.exit_code, lines(result)[-1]["events"]) == (0, len(EVENTS))
    cat = "docker exec kind-control-plane cat " if host else "cat "
    at = Path(case["log"]).parent
    files = (f"{cat}{at / one}" for one in (f"{first}.gz", second, path.name))
    assert result.stderr == f"reading {', '.join(files)}\n"


def test_a_log_on_standard_output_is_asked_of_the_runtime_of_the_node(machine):
    write(machine / "node" / MANIFEST, "- --audit-log-path=-\n")
    write(machine / "node/stdout", b"".join(EVENTS))
    result = replay()
    assert result.stderr.startswith("reading docker exec kind-control-plane sh -c 'crictl logs ")
    (first, *_, last) = result.stdout.splitlines()
    assert first.split()[:2] == ["warning", CLEARED]
    assert ". Next: " in first
    assert "events, " in last


def test_of_two_logs_the_nearer_is_read_and_the_other_is_named(machine):
    for host in ("", "node"):
        write(machine / host / "var/log/kubernetes/audit/audit.log", EVENTS[0])
    told = replay().stderr.splitlines()
    path = "cat /var/log/kubernetes/audit/audit.log"
    others = f"not read: docker exec kind-control-plane {path} | genguard replay -"
    assert told == [f"reading {path}", others]


def test_a_log_that_may_not_be_read_is_told(machine):
    (machine / "var/log/kubernetes/audit/audit.log").mkdir(parents=True)
    result = replay()
    assert result.exit_code == 1
    assert "audit.log: exit code 1; where it is for root alone, try sudo" in result.stderr


def test_where_there_is_none_it_says_where_it_looked_and_what_to_do(machine):
    result = replay()
    assert (result.exit_code, result.stdout) == (2, "")
    for one in (
        MANIFEST,
        "/etc/rancher/k3s/config.yaml",
        "kind and minikube",
        "docs/audit-logs.md",
    ):
        assert one in result.stderr


def test_what_one_culprit_does_to_many_objects_is_one_line(tmp_path):
    sent = {"asked": {"observedGeneration": 1}, "kept": {}}
    each = [statuses(3, CLEARS, **sent, name=f"web-{number}") for number in range(30)]
    write(tmp_path / "audit.log", b"".join(as_lines([event for one in each for event in one])))
    first, *others = replay(tmp_path / "audit.log").stdout.splitlines()
    assert "30 deployments /status, 90x: " in first
    assert not any(CLEARED in one for one in others)
    assert any("partOf" in one for one in lines(replay("-o", "json", tmp_path / "audit.log")))
