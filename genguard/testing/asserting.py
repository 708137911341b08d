"""Assertions for the tests of a controller: that it comes to an end, and that nothing loops."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from genguard.detection.finding import Finding, Severity
from genguard.formats.documents import LONGEST_LINE, Line, bounded
from genguard.replay import Replay, as_row
from genguard.review_setup import ReviewOptions
from genguard.status.evaluate import evaluate
from genguard.testing.fake import FakeApiServer
from genguard.testing.writes import Write

_SHOWN: Final = 10
_PAUSE: Final = 0.02
_OBSERVED: Final = "observedGeneration"
_RANKS: Final = list(Severity)

Recording = FakeApiServer | Path | str | Iterable[bytes]
"""A fake API server, whose log is examined; a file of `genguard serve --record`, or an audit log;
or its lines."""


class NotConvergedError(AssertionError):
    """Writes do not end, or an object is not settled; the message names both."""


class LoopError(AssertionError):
    """Detectors of genguard found a loop.

    findings  what they found, as `genguard findings -o json` prints it
    """

    def __init__(self, message: str, findings: tuple[Finding, ...]) -> None:
        """Keep the findings, for tests that look at them."""
        super().__init__(message)
        self.findings = findings


def assert_quiet(
    cluster: FakeApiServer | Path | str | None = None, *, for_: float = 60.0, namespace: str = ""
) -> None:
    """Assert that nobody writes an object again and again: call it once all has converged.

    cluster    a fake API server, or the kubeconfig of a cluster; without one that of kubectl. A
               cluster is watched by the command `genguard`: pipx install genguard-webhook
    for_       for so many seconds
    namespace  look at no other one, but also at what is in no namespace. Everything of a cluster is
               watched but Secrets and what is never at rest, such as events and leases

    A finding takes three writes of an object: what is slower takes a longer time to be found.

    Raises LoopError, an AssertionError that names who writes which field of which object;
    RuntimeError where the cluster cannot be watched.
    """
    if isinstance(cluster, FakeApiServer):
        before = cluster.writes
        time.sleep(for_)
        known = set(map(id, before))
        new = [write for write in cluster.writes if id(write) not in known]
        asked = [write for write in new if namespace in ("", write.target.namespace)]
        found = _find_in_fake(cluster, asked, at_rest=True) if asked else ()
    else:
        found = tuple(_watch(cluster, for_, namespace))
    _refuse([finding for finding in found if finding.severity is not Severity.INFO])


def _watch(kubeconfig: Path | str | None, seconds: float, namespace: str) -> Iterator[Finding]:
    """Yield what `genguard watch` finds in a cluster."""
    beside = Path(sys.executable).parent  # where it is not on PATH if nobody activated it
    paths = os.pathsep.join((str(beside), os.environ.get("PATH", os.defpath)))
    command = shutil.which("genguard", path=paths)
    if command is None:
        raise RuntimeError("a cluster is watched by genguard: pipx install genguard-webhook")
    words = [command, "watch", "--all", "--at-rest", "-o", "json", "--timeout", f"{seconds}s"]
    words += ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    words += ["-n", namespace] if namespace else []
    done = subprocess.run(words, capture_output=True, check=False)  # noqa: S603 - no shell
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        raise RuntimeError(said.strip())
    print(said, end="", file=sys.stderr)  # noqa: T201 - what was not watched
    lines = [msgspec.json.decode(line, type=Finding) for line in done.stdout.splitlines()]
    yield from {line.id: line for line in lines}.values()  # as each was at last


def assert_converges(
    server: FakeApiServer,
    resource: str,
    name: str = "",
    namespace: str = "default",
    *,
    step: Callable[[], object] | None = None,
    rounds: int = 20,
    quiet: float = 0.5,
    timeout: float = 10.0,
    ready: bool = True,
) -> None:
    """Assert that writes come to an end, and that objects are settled then.

    resource, name, namespace  what must be settled: one object or, without a name, all objects of
                               a resource in a namespace: at least one must exist
    step                       calls the controller once, for controllers that are functions. It is
                               called until a call writes nothing, at most `rounds` times
    quiet, timeout             without `step` a controller runs beside the test: `quiet` seconds
                               without a write must come within `timeout` seconds
    ready                      False: it is enough that the generation of the objects is
                               observed, for tests in which a controller reports a failure

    Where status is a subresource, somebody must have written it: an object that no controller has
    looked at is not settled. A write that changes nothing is no write: the API server does not
    store it.

    Raises NotConvergedError, an AssertionError that names the last writes and what blocks;
    LookupError for a resource that is not served.
    """

    def find_blocking() -> tuple[str, ...]:
        return _find_blocking(server, resource, name, namespace, ready=ready)

    if step:
        is_calm = _call_until_calm(server, step, rounds)
        blocking = find_blocking()
        problem = f"it still writes after {rounds} rounds"
    else:
        is_calm, blocking = _wait_until_settled(server, quiet, timeout, find_blocking)
        problem = f"{timeout:g} s have no {quiet:g} s without a write"
    if is_calm and not blocking:
        return
    said = [f"not settled: {line}" for line in blocking]
    if not is_calm:
        last = [f"  {write}" for write in _stored(server)[-_SHOWN:]]
        said = [problem, *said, "the last writes:", *last]
    raise NotConvergedError("\n".join(said))


def _call_until_calm(server: FakeApiServer, step: Callable[[], object], rounds: int) -> bool:
    """Call a controller until a call writes nothing; return whether one did."""
    for _ in range(rounds):
        before = len(_stored(server))
        step()
        if len(_stored(server)) == before:
            return True
    return False


def _wait_until_settled(
    server: FakeApiServer,
    quiet: float,
    timeout: float,
    find_blocking: Callable[[], tuple[str, ...]],
) -> tuple[bool, tuple[str, ...]]:
    """Wait for a controller that runs beside the test; return whether it is quiet, what blocks."""
    since = time.monotonic()
    count, end = len(_stored(server)), since + timeout
    while True:
        time.sleep(_PAUSE)
        now, found = time.monotonic(), len(_stored(server))
        if found != count:
            count, since = found, now
        is_calm, is_over = now - since >= quiet, now >= end
        if is_calm or is_over:
            blocking = find_blocking()
            if is_over or not blocking:
                return is_calm, blocking


def _stored(server: FakeApiServer) -> list[Write]:
    return [write for write in server.writes if write.is_stored]


def _find_blocking(
    server: FakeApiServer, resource: str, name: str, namespace: str, *, ready: bool
) -> tuple[str, ...]:
    """Return what keeps the objects from being settled; () where nothing does."""
    found = [
        document
        for document in server.list(resource)
        if name in ("", document["metadata"]["name"])
        and document["metadata"].get("namespace", namespace) == namespace
    ]
    if not found:
        return (f"no {resource} {name} in {namespace}".replace("  ", " "),)
    blocking = []
    reports = server.has_status(resource)
    for document in found:
        where = f"{resource} {document['metadata']['name']}"
        if reports and not document.get("status"):
            blocking.append(f"{where}: no controller wrote its status")
            continue
        view = evaluate(document, at=time.time())
        if view.settled and view.ready is not False:
            continue
        reasons = [
            str(reason)
            for reason in view.reasons
            if (reason.against_settled or reason.against_ready)
            and (ready or reason.path.endswith(_OBSERVED))
        ]
        if not ready and not reasons:
            continue
        blocking.append(f"{where}: {'; '.join(reasons)}")
    return tuple(blocking)


def assert_no_loop(
    recording: Recording,
    *,
    at_least: Severity | str = Severity.WARNING,
    ignore: Collection[str] = (),
) -> None:
    """Assert that genguard's detectors find nothing in what was written.

    recording  a fake API server, whose log is examined; a file that `genguard serve --record` has
               written, or an audit log; or the lines of such a file
    at_least   `info`, `warning` or `critical`: what is less severe is no failure
    ignore     names of detectors, such as `spec-fight`: docs/findings.md lists them

    Raises LoopError, an AssertionError with one line for each finding; ValueError for a recording
    in which nothing was written or a line cannot be read, and for an audit log of a level that does
    not show what is stored; OSError for a file.
    """
    wanted = _RANKS.index(Severity(at_least))
    found = [finding for finding in find_loops(recording) if finding.detector not in ignore]
    _refuse(finding for finding in found if _RANKS.index(finding.severity) >= wanted)


def _refuse(found: Iterable[Finding]) -> None:
    """Raise LoopError where there are findings."""
    worst = tuple(found)
    if worst:
        rows = [as_row(msgspec.to_builtins(finding)) for finding in worst]
        raise LoopError("\n".join([f"{len(worst)} found:", *rows]), worst)


def find_loops(recording: Recording) -> tuple[Finding, ...]:
    """Return what genguard's detectors find in what was written; see assert_no_loop."""
    if isinstance(recording, FakeApiServer):
        return _find_in_fake(recording, recording.writes)
    replay = Replay(ReviewOptions(audit_only=True))
    if isinstance(recording, Path | str):
        with Path(recording).open("rb") as stream:
            return _replay(bounded(stream, LONGEST_LINE), str(recording), replay)
    return _replay(recording, "the recording", replay)


def _find_in_fake(
    server: FakeApiServer, writes: Iterable[Write], *, at_rest: bool = False
) -> tuple[Finding, ...]:
    """Return what detectors find in writes of a fake API server."""
    options = ReviewOptions(
        audit_only=True,
        server_version=server.server_version,
        custom_resources=server.custom_resources,
    )
    replay = Replay(options, server.mutators, at_rest=at_rest)
    return _replay(server.recording(writes), "the log of the fake API server", replay)


def _replay(lines: Iterable[Line], name: str, replay: Replay) -> tuple[Finding, ...]:
    for line in replay.lines(lines, name):
        if line["type"] == "error":
            raise ValueError(f"{line['where']}: {line['message']}")
    if replay.is_empty:
        raise ValueError(f"{name}: nothing was written")
    if replay.is_blind:
        reasons = [entry["message"] for entry in replay.summary()["notExamined"]]
        raise ValueError(f"{name}: {'; '.join(reasons)}")
    return tuple(msgspec.convert(finding, Finding) for finding in replay.findings())
