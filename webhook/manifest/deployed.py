"""What the Deployment of an installation says: its flags, and what follows from them.

A live Deployment may hold anything: what is not of the form of ours counts as absent.
"""

from collections.abc import Mapping
from typing import Any, Final

AUDIT_ONLY: Final = "--audit-only"
HEAL: Final = "--heal"
ALERTMANAGER: Final = "--alertmanager="
"""The flag that a URL follows; it may come several times."""


def arguments_of(workload: Mapping[str, Any]) -> tuple[str, ...]:
    """The arguments of the pods' containers."""
    return tuple(
        str(argument)
        for container in containers_of(workload)
        for argument in container.get("args") or ()
    )


def alertmanagers_of(workload: Mapping[str, Any]) -> tuple[str, ...]:
    """URLs that the pods send findings to."""
    flags = (one for one in arguments_of(workload) if one.startswith(ALERTMANAGER))
    return tuple(one.removeprefix(ALERTMANAGER) for one in flags)


def containers_of(workload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The containers of the template of a Deployment or StatefulSet."""
    spec = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    return list(spec.get("containers") or ())


def mode_of(deployment: Mapping[str, Any]) -> str:
    """In which mode its pods run: the word by which they answer probes."""
    return "audit-only" if AUDIT_ONLY in arguments_of(deployment) else "enforcing"
