"""The facts without which a number says nothing: what it was measured on, and with what."""

import os
import platform
import ssl
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path


def machine_facts() -> Mapping[str, str]:
    """Names and versions; nothing that tells one machine of a kind from another."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "cpu": _cpu_model(),
        "kernel": platform.release().partition("-")[0],
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("aiohttp", "msgspec")},
        "openssl": ssl.OPENSSL_VERSION.split()[1],
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "CPU part"):
            return value.strip()
    return platform.machine()
