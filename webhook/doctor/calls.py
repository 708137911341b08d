"""Whether genguard is called, what it says of itself, and whether the clocks agree."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from webhook import __version__
from webhook.doctor.facts import Facts
from webhook.doctor.line import Level, Line, fail, warn, well
from webhook.install.registering import is_limited

_QUIET_SECONDS: Final = 3600
_SKEW_SECONDS: Final = 30
_STORES: Final = {
    "memory": "memory: each replica remembers its own",
    "sqlite": "a file: findings survive a restart",
    "valkey": "shared by the replicas",
}
_LOST: Final = "the shared store is lost: each replica remembers its own until it is back"
_FAIL_OPEN: Final = "kubectl get --raw /metrics | grep 'webhook_fail_open_count.*genguard'"


def reached(facts: Facts) -> Iterator[Line]:
    """The only proof from end to end: a dry run that every phase has seen."""
    asked = [
        phase for phase, found in facts.registered.items() if not is_limited(found.registration)
    ]
    missing = [phase for phase in asked if phase not in facts.probe]
    seen = next(iter(facts.probe.values()), None)

    def look() -> Iterator[Line]:
        if missing and facts.refusal:
            told = f"not seen by {', '.join(missing)}: a dry run is refused: {facts.refusal}"
            yield warn("reached", told, f"{facts.install} --dry-run")
        elif missing:
            told = f"a dry run passed without {', '.join(missing)} having seen it"
            yield fail("reached", f"{told}: install tries it, and says why", facts.install)
        elif seen and seen.facts.get("version") != __version__:
            told = f"the server is of version {seen.facts.get('version')}, and this {__version__}"
            yield warn("reached", told, facts.install)

    mode = seen.facts.get("mode", "") if seen else ""
    if asked:
        yield from well("reached", f"a dry run was seen in every phase, {mode}", look())


def last_seen(facts: Facts) -> Iterator[Line]:
    """When somebody's real write was seen, by the replica that was asked."""
    told = max((seen.facts.get("last", "") for seen in facts.probe.values()), default="")
    try:
        ago = int((facts.at - datetime.fromisoformat(told)).total_seconds())
    except ValueError:
        if told:
            message = "no write yet, since this replica was started"
            yield Line(Level.OK, "last-seen", message)
        return
    message = f"the last write was seen {max(ago, 0)} s ago"
    lines = [warn("last-seen", message, _FAIL_OPEN)] if ago > _QUIET_SECONDS else []
    yield from well("last-seen", message, lines)


def store(facts: Facts) -> Iterator[Line]:
    """Where intents are remembered."""
    for seen in list(facts.probe.values())[:1]:
        kind = seen.facts.get("store", "unknown")
        lines = [warn("store", _LOST, facts.logs("store"))] if kind == "valkey-lost" else []
        yield from well("store", _STORES.get(kind, kind), lines)


def clock(facts: Facts) -> Iterator[Line]:
    """Certificates and Leases live by it."""
    told = f"this clock is {abs(facts.skew):.0f} s {'ahead of' if facts.skew > 0 else 'behind'} "
    told += "the API server's"
    far = abs(facts.skew) > _SKEW_SECONDS
    lines = [warn("clock", told, "sudo timedatectl set-ntp true")] if far else []
    return well("clock", "this clock and the API server's agree", lines)
