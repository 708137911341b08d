"""Every verb as a process whose pipes, disk, terminal or user end it early, or are odd."""

import json
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.malformed.answering import places
from tests.malformed.forking import Ended, Forking
from tests.malformed.table import NOTHING_TO_WAIT_FOR, ROWS
from tests.malformed.test_clusters import config

pytestmark = pytest.mark.slow

PRINTS = [verb for verb, row in ROWS.items() if row.quick is not None]
WAITS = [verb for verb, row in ROWS.items() if row.waits is not None]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}}
HOOKS = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "hooks"},
    "webhooks": [],
}
EVENT = {
    "kind": "Event",
    "apiVersion": "audit.k8s.io/v1",
    "stage": "ResponseComplete",
    "verb": "create",
    "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z",
    "user": {"username": "me"},
    "objectRef": {
        "resource": "deployments", "apiGroup": "apps", "apiVersion": "v1",
        "namespace": "shop", "name": "web",
    },
    "responseObject": {"metadata": {"name": "web"}, "spec": {"replicas": 1}},
}  # fmt: skip


class Trial:
    """Runs verbs of the table, each time as a process."""

    def __init__(self, folder: Path, forking: Forking) -> None:
        self.folder = folder
        self._forking = forking
        (folder / "FILE").write_text(json.dumps(POD))
        (folder / "HOOKS").write_text(json.dumps(HOOKS))
        (folder / "LOG").write_text(json.dumps(EVENT) + "\n")

    def run(self, *words: str, **job: object) -> Ended:
        return self._forking(*(self._given(word) for word in words), **job)

    def quick(self, verb: str, **job: object) -> Ended:
        return self.run(verb, *(ROWS[verb].quick or ()), **job)

    def _given(self, word: str) -> str:
        for name in ("FILE", "HOOKS", "LOG", "CERTS", "CLUSTER"):
            word = word.replace(name, str(self.folder / name))
        return word


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("trial")
    with places(folder / "places") as known, Forking(folder) as forking:
        (folder / "CLUSTER").write_text(yaml.safe_dump(config(known.silent)))
        yield Trial(folder, forking)


def test_every_verb_is_tried():
    assert set(PRINTS) | set(WAITS) == set(ROWS)
    assert set(ROWS) - set(WAITS) == set(NOTHING_TO_WAIT_FOR)


def test_it_ends_well_and_prints(trial, subtests):
    """Or the trials below would show nothing."""
    for verb in PRINTS:
        with subtests.test(verb):
            done = trial.quick(verb)
            assert (done.code, done.err) == (0, "")
            assert done.out


def test_when_nobody_reads_its_output_it_ends_without_a_word(trial, subtests):
    for verb in PRINTS:
        with subtests.test(verb):
            done = trial.quick(verb, stdout="unread")
            assert (done.code, done.err) == (128 + signal.SIGPIPE, "")


def test_when_nobody_reads_its_help_it_ends_without_a_word(trial, subtests):
    for verb in ROWS:
        with subtests.test(verb):
            done = trial.run(verb, "--help", stdout="unread")
            assert (done.code, done.err) == (128 + signal.SIGPIPE, "")


def test_on_a_full_disk_it_says_so(trial, subtests):
    for verb in PRINTS:
        with subtests.test(verb):
            done = trial.quick(verb, stdout="/dev/full")
            assert (done.code, done.err.count("\n")) == (1, 1)
            assert "No space left on device" in done.err


def test_without_an_output_it_does_its_work(trial, subtests):
    for verb in PRINTS:
        with subtests.test(verb):
            done = trial.quick(verb, stdout="closed")
            assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    "words",
    [
        ("status", "-f", "-"), ("wait", "-f", "-"), ("lint", "-"), ("replay", "-"),
        ("blame", "deployments/web", "-f", "-"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_closed_input_is_told(words, trial):
    done = trial.run(*words, stdin="closed")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "Bad file descriptor" in done.err.splitlines()[0]


@pytest.mark.parametrize(
    "environment",
    [{"COLUMNS": "1", "LINES": "1"}, {"TERM": "dumb"}],
    ids=["1 column", "no terminal"],
)
def test_a_narrow_terminal_is_no_error(environment, trial, subtests):
    for verb in PRINTS:
        with subtests.test(verb):
            assert trial.quick(verb, environment=environment)[::2] == (0, "")
            assert trial.run(verb, "--help", environment=environment)[::2] == (0, "")


def test_it_can_be_interrupted(trial, subtests):
    for verb in WAITS:
        words, code = ROWS[verb].waits or (), ROWS[verb].ends
        says = {"says": '"serving"'} if verb == "serve" else {}
        with subtests.test(verb):
            done = trial.run(verb, *words, stdin="held", signal=signal.SIGINT, **says)
            assert done.code == code
            assert "Traceback" not in done.err
            assert verb == "serve" or done.err.count("\n") <= 1


@pytest.mark.parametrize(
    ("words", "job"),
    [
        (("serve", "--secure-port=0", "--ops-port=0", "--cert-dir=NEW"), {"limit": 0}),
        (("serve", "--secure-port=0", "--ops-port=0", "--cert-dir=/proc/certs"), {}),
        (("install", "-o", "yaml", "--cert-dir=NEW"), {"limit": 0}),
        (("install", "-o", "yaml", "--cert-dir=/proc/certs"), {}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_folder_that_cannot_be_written_is_told(words, job, trial):
    new = trial.folder / "new"
    shutil.rmtree(new, ignore_errors=True)
    words = [word.replace("NEW", str(new)) for word in words]
    # A limit of 0 bytes would hold for what is told, too: the terminal is no file.
    done = trial.run(*words, **({"err": "/dev/null"} if job else {}), **job)
    assert done.code == 1
    assert "Traceback" not in done.err
    assert job or done.err.count("\n") == 1
    assert job or "/proc/" in done.err


def test_a_port_that_is_taken_names_its_flag(trial):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for flag, other in (("--secure-port", "--ops-port"), ("--ops-port", "--secure-port")):
            done = trial.run("serve", f"{flag}={port}", f"{other}=0", "--cert-dir=CERTS")
            assert done.code == 1
            (line,) = [one for one in done.err.splitlines() if one.startswith("Error")]
            assert line.startswith(f"Error: {flag} {port}: Address already in use; give another")
    done = trial.run("serve", "--bind-address=192.0.2.1", "--ops-port=0", "--cert-dir=CERTS")
    assert (done.code, "--bind-address 192.0.2.1: Cannot assign" in done.err) == (1, True)


def test_a_file_that_may_not_be_read_is_told(trial):
    locked = trial.folder / "locked"
    locked.touch(mode=0)
    for words in (("lint",), ("replay",), ("status", "-f"), ("status", "--kubeconfig")):
        done = trial.run(*words, str(locked), obeys=True)
        assert (done.code, "Permission denied" in done.err) == (1, True)
