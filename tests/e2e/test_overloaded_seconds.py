"""Ten overloaded seconds while five loops go on: home never says less than the audit log shows."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from subprocess import Popen
from typing import Any, Final, NamedTuple

from genguard.replay import Replay
from genguard.review_setup import ReviewOptions
from tests.beside import Again
from tests.controlplane.client import ApiError, wait_until
from tests.controlplane.options import Options
from tests.controlplane.plane import ControlPlane
from tests.e2e.audit import AuditTrail
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tests.scenarios import culprits
from tests.scenarios.catalogue import Scenario
from tests.scenarios.scene import Hook, Scene, Stored
from tests.scenarios.stage import CUSTOM, define, disturbed
from tests.waiting import PATIENCE

HOOKS: Final = (
    Hook("mmm-old-operator", culprits.removes_observed_generation, ("widgets/status",)),
    Hook("mmm-opinion", culprits.sets_status_field("phase", "Mine"), ("widgets/status",)),
)
OBJECTS: Final = {"cleared", "phase", "sized", "labelled", "noted"}
_OVERLOAD_SECONDS: Final = 10.0
_SECONDS_AFTER: Final = 75.0
"""Longer than a finding without a sign stays open."""
_OBSERVED: Final = "observedGeneration"
_LOST: Final = ("genguard_shed_total", "genguard_incomplete_writes_total")
_SURE: Final = ("certain", "likely")
_BUSY: Final = (sys.executable, "-c", "while True: pass")


def _status(one: Stored) -> Callable[[int], object]:
    """A controller that says what it has observed."""
    return lambda turn: one.put_status(
        "widget-controller",
        lambda status: status.update(
            observedGeneration=one.generation, phase="Ready", pass_=str(turn)
        ),
    )


def _turns(one: Stored, *bodies: dict[str, Any]) -> Callable[[int], object]:
    """Users who take turns."""
    return lambda turn: one.patch(f"user-{turn % len(bodies)}", bodies[turn % len(bodies)])


def _metadata(field: str, value: str) -> dict[str, Any]:
    return {"metadata": {field: {"example.org/tier": value}}}


def loops(scene: Scene) -> dict[str, Callable[[int], object]]:
    """What each writer does at each of its turns, by the object."""
    settings = {name: {"metadata": {"name": name}} for name in ("labelled", "noted")}
    maps = {name: scene.create("v1/configmaps", body) for name, body in settings.items()}
    return {
        "cleared": _status(scene.widget("cleared")),
        "phase": _status(scene.widget("phase")),
        "sized": _turns(scene.gauge("sized"), {"spec": {"size": 2}}, {"spec": {"size": 3}}),
        "labelled": _turns(
            maps["labelled"], _metadata("labels", "gold"), _metadata("labels", "lead")
        ),
        "noted": _turns(
            maps["noted"], _metadata("annotations", "gold"), _metadata("annotations", "lead")
        ),
    }


@contextmanager
def going_on(loops: dict[str, Callable[[int], object]]) -> Iterator[None]:
    """Each writer takes a turn every 0.4 s. What cannot be written now is at its next turn."""

    def trying(turn_of: Callable[[int], object]) -> Callable[[int], None]:
        def turn(number: int) -> None:
            with suppress(ApiError, OSError):
                turn_of(number)

        return turn

    with ExitStack() as stack:
        for one in loops.values():
            stack.enter_context(Again(trying(one), 0.4))
        yield


@contextmanager
def busy_processors() -> Iterator[None]:
    """Two processes take what time there is."""
    processes = [Popen(_BUSY) for _ in range(2)]
    try:
        yield
    finally:
        for one in processes:
            one.kill()
            one.wait()


class Said(NamedTuple):
    """What home says: its verdict, and the open warnings by object."""

    verdict: str
    open: dict[str, dict[str, Any]]


def home(guard: Genguard) -> Said:
    findings = guard.findings()
    verdict = json.loads(guard.ops("/api/broken")[1])["verdict"]
    return Said(
        verdict,
        {
            one["object"]["name"]: one
            for one in findings
            if one["state"] != "resolved" and one["severity"] != "info"
        },
    )


class Log:
    """What the audit log shows to be going on, as `genguard replay` reads it."""

    def __init__(self, trail: AuditTrail) -> None:
        self._trail, self._run, self._read = trail, Replay(ReviewOptions()), 0

    def open(self) -> set[str]:
        events = self._trail.all_events()
        for event in events[self._read :]:
            list(self._run.lines([json.dumps(event).encode()], "audit"))
        self._read = len(events)
        found = self._run._audit.open_findings()
        return {one.object.name for one in found if one.severity != "info"}


def overload(guard: Genguard) -> None:
    """For ten seconds genguard runs in a twentieth of the time, and the processors are busy."""
    with busy_processors():
        end = time.monotonic() + _OVERLOAD_SECONDS
        while time.monotonic() < end:
            guard.pause()
            time.sleep(0.95)
            guard.go_on()
            time.sleep(0.05)


def confidences(said: Said) -> dict[str, str]:
    """Return by object how sure it is who does it."""
    return {name: one["actors"][0]["confidence"] for name, one in said.open.items()}


def test_home_says_what_the_audit_log_shows_while_reviews_are_lost() -> None:
    name = "loops"
    with ExitStack() as undo:
        plane = undo.enter_context(ControlPlane(Options(audit_level="RequestResponse")))
        plane.client.post("/api/v1/namespaces", {"metadata": {"name": name}})
        define(plane)
        scene, log = Scene(plane, name), Log(AuditTrail(plane, name))
        hooks = undo.enter_context(ExitStack())
        hooks.enter_context(disturbed(plane, Scenario("", lambda _: None, HOOKS, ()), name))
        guard = undo.enter_context(Genguard("--audit-only", f"--kubeconfig={plane.kubeconfig}"))
        undo.enter_context(registered(plane, name, guard, rules=CUSTOM, timeoutSeconds=1))

        def check(before: Said | None = None) -> bool:
            """Home shows every loop that the audit log shows, and is as sure as it was before."""
            shown, said = log.open() & OBJECTS, home(guard)
            assert shown <= said.open.keys()
            assert said.verdict == "broken"
            if before is not None:
                was, now = confidences(before), confidences(said)
                unsure = {each for each in shown if was[each] in _SURE and now[each] not in _SURE}
                assert not unsure, (was, now)
            return shown == OBJECTS

        with going_on(loops(scene)):
            wait_until(check, what="five loops at home and in the audit log")
            before = home(guard)
            assert before.open.keys() >= OBJECTS
            overload(guard)
            lost = {each: guard.metric(each) for each in _LOST}
            assert all(lost.values()), lost
            end = time.monotonic() + _SECONDS_AFTER
            while time.monotonic() < end:
                assert check(before), "each loop goes on"
                time.sleep(1.0)
            hooks.close()
            widgets = scene.collection("example.org/v1/widgets")
            wait_until(
                lambda: plane.client.get(f"{widgets}/cleared").body["status"].get(_OBSERVED),
                what="a status that nobody clears",
            )
        wait_until(
            lambda: home(guard).verdict != "broken",
            timeout=2 * PATIENCE,
            what="a home page that is not red",
        )
