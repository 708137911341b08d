"""The disk is full, takes no write any more, or is read-only, under load.

On it are the state, the recording and the certificate, which is due for renewal meanwhile. Failures
of genguard are fatal here, and none is seen: an admission writes nothing.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

import certs
from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import NamespaceFactory
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import ROOT, Genguard
from tests.e2e.registrations import registered
from tests.e2e.traffic import PATIENCE, Traffic
from tests.faults.apart import apart
from tests.faults.fleet import Fleet
from tests.store.loop import Loop, findings

LIFETIME = timedelta(seconds=100)
"""Of the certificate: it is looked at each twentieth, and due after two thirds."""
AGE = timedelta(seconds=55)
"""At the start, so that it is due some seconds later."""
OLD = timedelta(seconds=80)
MEBIBYTES = 16


class Disk(NamedTuple):
    """A small file system that one process sees as the folder `disk`."""

    ca: bytes
    script: str
    flags: tuple[str, ...] = ("--cert-dir=disk/certs", "--cert-lifetime=100s")


def made_disk(tmp_path: Path, age: timedelta) -> Disk:
    """With a certificate on it that is so old."""
    folder = tmp_path / "made"
    made = certs.ensure(
        folder, names=("localhost",), at=datetime.now(UTC) - age, leaf_lifetime=LIFETIME
    )
    assert made.pair.ca_pem is not None
    mount = f"mkdir disk; mount -t tmpfs -o size={MEBIBYTES}m none disk"
    return Disk(made.pair.ca_pem, f"{mount}; cp -R {folder} disk/certs")


def _seen_by(guard: Genguard) -> Path:
    """The disk, from outside."""
    return Path(f"/proc/{guard.pid}/root{guard.folder}/disk")


def _fill(guard: Genguard) -> None:
    with (_seen_by(guard) / "ballast").open("wb", buffering=0) as ballast:
        for size in (65536, 1):
            try:
                while ballast.write(b"x" * size):
                    pass
            except OSError as error:
                assert "No space left" in str(error)


def _empty(guard: Genguard) -> None:
    (_seen_by(guard) / "ballast").unlink()


def _refuse(guard: Genguard) -> None:
    """Every write to a file, which was opened long before, ends with EFBIG. Nor is there a log."""
    _, most = resource.prlimit(guard.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(guard.pid, resource.RLIMIT_FSIZE, (0, most))


def _allow(guard: Genguard) -> None:
    _, most = resource.prlimit(guard.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(guard.pid, resource.RLIMIT_FSIZE, (most, most))


class Trouble(NamedTuple):
    """`age`: of the certificate, which is due for renewal meanwhile or is not."""

    begin: Callable[[Genguard], None]
    end: Callable[[Genguard], None]
    age: timedelta


TROUBLES = {
    "full": Trouble(_fill, _empty, AGE),
    "no longer taking anything": Trouble(_refuse, _allow, timedelta(0)),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_no_write_fails_and_what_can_be_written_again_is_whole_while_a_disk_is(
    apiserver: ControlPlane, namespace: NamespaceFactory, tmp_path: Path, name: str
) -> None:
    begin, end, age = TROUBLES[name]
    where, disk = namespace(apiserver), made_disk(tmp_path, age)
    flags = (*disk.flags, "--store=sqlite:disk/state.db", "--record=disk/recording")
    with (
        Fleet(*flags, ca=disk.ca, replicas=1, within=apart(disk.script)) as fleet,
        registered(apiserver, where, fleet, failurePolicy="Fail", timeoutSeconds=PATIENCE),
    ):
        (guard,) = fleet.endpoints
        with Traffic(apiserver, where) as traffic:
            traffic.more(50)
            assert fleet.metric("genguard_store_save_failures") == 0
            begin(guard)
            for metric in ("genguard_store_save_failures", "genguard_recording_dropped"):
                wait_until(lambda metric=metric: fleet.metric(metric) > 0, what=metric)
            traffic.more(100)
            assert guard.ops("/readyz")[0] == 200
            if age:
                _wait_for_renewal_that_is_not_to_be(guard)
            end(guard)
            wait_until(lambda: guard.log_lines("state is saved again"), what="saved again")
            wait_until(lambda: _left(guard) > LIFETIME / 2, what="a certificate that is young")
            traffic.more(50)
        assert traffic.failures == []
        failures = fleet.metric("genguard_store_save_failures")
        _assert_readable(_seen_by(guard) / "recording", fleet.metric("genguard_reviews_total"))
        assert guard.stop() == 0
    print(f"{traffic.written} writes, none failed, {failures:g} saves did")


def _wait_for_renewal_that_is_not_to_be(guard: Genguard) -> None:
    wait_until(lambda: guard.log_lines("certificate due for renewal"), 60, what="due")
    assert _left(guard) < LIFETIME / 2, "renewed, though nothing can be written"


def _left(guard: Genguard) -> timedelta:
    """Of the certificate's life."""
    return timedelta(seconds=guard.metric("genguard_certificate_expiry_seconds"))


def _assert_readable(recording: Path, reviews: float) -> None:
    """Reviews are missing in it, and none is torn."""
    lines = recording.read_bytes().splitlines()
    assert 0 < len(lines) < reviews
    for line in lines:
        json.loads(line)


def test_on_a_disk_that_was_read_only_before_the_certificate_there_is_served(
    apiserver: ControlPlane, namespace: NamespaceFactory, tmp_path: Path
) -> None:
    where, disk = namespace(apiserver), made_disk(tmp_path, OLD)
    within = apart(f"{disk.script}; mount -o remount,ro disk")
    with (
        Fleet(*disk.flags, ca=disk.ca, replicas=1, within=within) as fleet,
        registered(apiserver, where, fleet, failurePolicy="Fail", timeoutSeconds=PATIENCE),
        Traffic(apiserver, where) as traffic,
    ):
        traffic.more(100)
        (guard,) = fleet.endpoints
        wait_until(lambda: guard.log_lines("certificate due for renewal"), 60, what="told")
        traffic.more(50)
    assert traffic.failures == []


def test_on_a_disk_that_is_full_from_the_start_it_serves_and_keeps_all_once_there_is_room() -> None:
    """The state, which is damaged too, and the recording; a full disk is what damages files."""
    script = (
        f"mkdir disk; mount -t tmpfs -o size={MEBIBYTES}m none disk; echo damaged > disk/state.db; "
        "dd if=/dev/zero of=disk/ballast bs=64k 2> /dev/null || true"
    )
    flags = ("--store=sqlite:disk/state.db", "--record=disk/recording")
    with Genguard(*flags, within=apart(script)) as guard:
        _fill(guard)
        loop = Loop()
        loop.until(guard, lambda: guard.metric("genguard_store_save_failures"), "not saved")
        assert findings(guard)
        assert guard.metric("genguard_recording_dropped") > 0
        assert guard.ops("/readyz")[0] == 200
        _empty(guard)
        loop.until(guard, lambda: guard.log_lines("state is saved again"), "saved again")
        assert guard.log_lines("a damaged file was moved aside")
        assert guard.stop() == 0


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--store=sqlite:disk/state.db", "cannot be opened"),
        ("--record=disk/recording", "Read-only file system"),
    ],
)
def test_what_cannot_be_kept_there_is_said_instead_of_starting(
    tmp_path: Path, flag: str, said: str
) -> None:
    """In a rolling update the old replicas go on, then."""
    disk = made_disk(tmp_path, AGE)
    flags = ("--secure-port=0", "--ops-port=0", *disk.flags, flag)
    command = (sys.executable, "-m", "webhook", "serve", *flags)
    script = f"cd {tmp_path}; {disk.script}; mount -o remount,ro disk"
    done = subprocess.run(
        [*apart(script), *command],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
