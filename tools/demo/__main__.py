"""The whole story on a real control plane, in three steps: `make demo`.

A webhook clears status.observedGeneration of every Deployment, so that a rollout that is done hangs
for ever. genguard, changing nothing, names the webhook; then it is let to repair, and the rollout
completes. On a terminal each step waits for Enter, and ^D or ^C ends it. No process is left behind,
however it ends. Before it starts, it says how long it takes and what it leaves on disk.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.controlplane.build import BuildError, binaries, cache_home, missing, provided
from tests.controlplane.client import wait_until
from tests.controlplane.options import FULL_CLUSTER, Options
from tests.controlplane.plane import ControlPlane, programs_of
from tests.controlplane.webhook_listener import WebhookListener
from tests.e2e.culprits import deployment, zeroes_observed_generation
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import registered
from tools.demo.played import DeploymentController

NAMESPACE = "shop"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_FULL = "a real API server, etcd, controllers, scheduler and three nodes without machines"
_SMALL = "a real API server and etcd; the demo itself plays the Deployment's controller"
_ASSETS = ("kube-apiserver", "etcd", "kubectl")
"""What setup-envtest puts into KUBEBUILDER_ASSETS."""
_MINUTES_EACH = 2
"""To build one program, on two cores."""
_ROLLOUT = ("rollout", "status", "deployment/web", "--timeout=5s")
_SEVERE = ("warning", "critical")


def main() -> int:
    """Tell the story. Exits with 0, with 130 when it was interrupted, or with 1 without Go."""
    options = chosen()
    try:
        announce(options)
        build(options)
        say("Starting the servers ...")
        with ControlPlane(options) as plane, controllers(plane):
            tell(plane)
    except KeyboardInterrupt:
        say("\nInterrupted; everything is stopped.")
        return 130
    except EOFError:  # ^D at a question
        say("\nEnded; everything is stopped.")
        return 0
    except BuildError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    say("Everything is stopped. To see it in a cluster of yours: README, Install.")
    return 0


def chosen() -> Options:
    """A whole cluster; what KUBEBUILDER_ASSETS has, where the rest would have to be built."""
    is_given = all(provided(name) for name in _ASSETS)
    return Options() if is_given and missing(programs_of(FULL_CLUSTER)) else FULL_CLUSTER


def announce(options: Options) -> None:
    """Before anything is done: what it is, how long it takes and what it leaves."""
    say(f"The demo runs {_FULL if options.controller_manager else _SMALL}.")
    say("It takes about a minute, and as long as you look at it.")
    if count := len(missing(needed(options))):
        say(f"First it builds {count} programs from source, once: about {_MINUTES_EACH * count}")
        say("minutes on two cores. README, Work on genguard, says how to do without.")
    own = [name for name in needed(options) if provided(name) is None]
    folder = str(cache_home()).replace(str(Path.home()), "~", 1)
    left = f"programs in {folder}, and packages in .venv" if own else "packages in .venv"
    say(f"It leaves {left}; `make clean-all` removes that.")


def needed(options: Options) -> list[str]:
    """The programs that have to be there."""
    return [*programs_of(options), "kubectl"]


def build(options: Options) -> None:
    """Build what is missing. What Go keeps for it goes when all is built."""
    go = shutil.which("go")
    if not missing(needed(options)) or go is None:
        binaries(needed(options))
        return
    folder = cache_home() / "go"
    os.environ["GOCACHE"], os.environ["GOMODCACHE"] = f"{folder}/build", f"{folder}/modules"
    binaries(needed(options))
    subprocess.run([go, "clean", "-cache", "-modcache"], check=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def controllers(plane: ControlPlane) -> Iterator[None]:
    """The namespace, with what a Deployment in it needs."""
    plane.client.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    if plane.options.controller_manager:
        account = f"{accounts}/default"
        wait_until(lambda: plane.client.get(account).body, what="the service account")
        yield
        return
    plane.client.post(accounts, {"metadata": {"name": "default"}})
    with DeploymentController(plane, NAMESPACE):
        yield


def tell(plane: ControlPlane) -> None:
    """The three steps."""
    with bad_webhook(plane):
        with serving(plane, "--audit-only") as guard:
            watch(plane, guard)
            pause("switch to enforcing")
            admission, ops = (urlsplit(url).port for url in (guard.url(""), guard.ops_url))
        with serving(plane, f"--secure-port={admission}", f"--ops-port={ops}") as guard:
            enforce(plane, guard)
            complete(plane, guard)
            pause("end the demo")


def watch(plane: ControlPlane, guard: Genguard) -> None:
    """Step 1: a rollout hangs, and genguard says why."""
    title("1/3  Watch the finding appear: genguard looks on (--audit-only)")
    plane.client.post(_DEPLOYMENTS, deployment("web", replicas=3))
    for image in ("image:1", "image:2"):
        kubectl(plane, "set", "image", "deployment/web", f"c={image}", quiet=image == "image:1")
        available(plane, image)
    say("All three replicas of image:2 are available. And yet:")
    kubectl(plane, *_ROLLOUT)
    found = wait_until(lambda: finding(guard), what="a finding")
    (actor, *_) = found["actors"]
    say(f"genguard knows who it is ({found['severity']}, {found['count']} times):")
    say(f"  {found['detector']}  {NAMESPACE}/{found['object']['name']}  {actor['name']}")
    say(f"  {actor['confidence']}: {found['message']}")
    say(f"The dashboard:   {guard.ops_url}/")
    say(f"Look around:     export KUBECONFIG={plane.kubeconfig}")


def enforce(plane: ControlPlane, guard: Genguard) -> None:
    """Step 2: from now on what is cleared is put back."""
    title("2/3  Switch to enforcing: genguard puts back what others clear")
    say(f"genguard serves again, without --audit-only, at {guard.ops_url}/")
    # The controller has gone quiet; any write of its object wakes it.
    kubectl(plane, "label", "deployment/web", "touched=yes")


def complete(plane: ControlPlane, guard: Genguard) -> None:
    """Step 3: the rollout that hung, and the next."""
    title("3/3  See the rollout complete")
    kubectl(plane, *_ROLLOUT)
    kubectl(plane, "set", "image", "deployment/web", "c=image:3")
    kubectl(plane, "rollout", "status", "deployment/web", "--timeout=60s")
    mended = guard.metric("genguard_mends_total", mode="did")
    say(f"genguard has put back {mended:.0f} values. The bad webhook is still there.")


@contextmanager
def bad_webhook(plane: ControlPlane) -> Iterator[None]:
    """What an old operator does: it writes a status through a type that does not know the field."""
    with (
        WebhookListener(plane.authority, zeroes_observed_generation) as culprit,
        culprit.registered(plane, NAMESPACE, ["deployments/status"], name="mmm-old-operator"),
    ):
        yield


@contextmanager
def serving(plane: ControlPlane, *flags: str) -> Iterator[Genguard]:
    """A registered genguard that knows the cluster."""
    with (
        Genguard(f"--kubeconfig={plane.kubeconfig}", *flags) as guard,
        registered(plane, NAMESPACE, guard),
    ):
        yield guard


def available(plane: ControlPlane, image: str) -> None:
    """Wait until three pods of this image are ready, and no other is there."""

    def is_so() -> bool:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        pods = plane.client.get(path).body["items"]
        images = [each["spec"]["containers"][0]["image"] for each in pods]
        web = plane.client.get(f"{_DEPLOYMENTS}/web").body
        return images == [image] * 3 and web["status"].get("availableReplicas") == 3

    wait_until(is_so, what=f"three available replicas of {image}")


def finding(guard: Genguard) -> dict[str, Any] | None:
    """The first that is no accident any more."""
    found = guard.findings()
    return next((one for one in found if one["severity"] in _SEVERE and one["actors"]), None)


def kubectl(plane: ControlPlane, *words: str, quiet: bool = False) -> None:
    """Run it, and show what was typed and what came of it."""
    done = plane.kubectl(*words, f"--namespace={NAMESPACE}", check=False)
    if not quiet:
        say(f"$ kubectl {shlex.join(words)}")
        for line, _ in groupby((done.stdout + done.stderr).splitlines()):
            say(f"  {line}")


def pause(what: str) -> None:
    """On a terminal, wait for the reader."""
    if sys.stdin.isatty():
        input(f"\n[Enter] to {what}, ^D to stop here ")


def title(text: str) -> None:
    """The name of a step."""
    bold, plain = ("\033[1m", "\033[0m") if _has_colour() else ("", "")
    say(f"\n{bold}{text}{plain}")


def say(text: str) -> None:
    """A line."""
    print(text, flush=True)


def _has_colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


if __name__ == "__main__":
    sys.exit(main())
