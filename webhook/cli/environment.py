"""Defaults of `genguard serve` that its environment decides."""

import os
from collections.abc import Callable
from pathlib import Path


def address_from(variable: str) -> Callable[[], str]:
    """The default of an address: what an environment variable says, else 127.0.0.1.

    It is a default, so that the command line and --config both win over the image's environment.
    """
    return lambda: os.environ.get(variable) or "127.0.0.1"


def cert_dir() -> Path:
    """The folder of a self-made certificate, after the XDG Base Directory Specification."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "genguard" / "certs"
