"""The details without which a number says nothing: what it was measured on, and with what."""

import os
import platform
import re
import shutil
import ssl
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.controlplane.build import PROGRAMS, pinned
from tools.bench.running import REPOSITORY

_LIBRARIES: Final = ("aiohttp", "msgspec", "uvloop")
_GO_MOD: Final = PROGRAMS["gowebhook"] / "go.mod"
_CONTROLLER_RUNTIME: Final = re.compile(r"sigs\.k8s\.io/controller-runtime v(\S+)")


def machine_details() -> Mapping[str, str]:
    """Names and versions; nothing that tells one machine of a kind from another."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "cpu": _cpu_model(),
        "kernel": platform.release().partition("-")[0],
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION.split()[1],
        **{name: version(name) for name in _LIBRARIES if find_spec(name) is not None},
        "controller-runtime": "".join(_CONTROLLER_RUNTIME.findall(_GO_MOD.read_text())),
        **_go(),
        "kube-apiserver": pinned("k8s.io/kubernetes"),
    }


def commit() -> str:
    """What is checked out, and whether it was changed; "" outside of a clone."""
    described = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]
    done = subprocess.run(described, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _go() -> Mapping[str, str]:
    """The compiler, where there is one: a cached program does without."""
    go = shutil.which("go")
    if go is None:
        return {}
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True)
    return {"go": said.stdout.strip().removeprefix("go")}


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "CPU part"):
            return value.strip()
    return platform.machine()
