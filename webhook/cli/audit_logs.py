"""Recordings and audit logs that are given as files: their flags, and their events in order."""

import heapq
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import click
import msgspec

from genguard.audit.event import (
    UNFINISHED,
    Event,
    audit_kind,
    is_unfinished,
    read_event,
    see_events,
    why_unreadable,
)
from genguard.formats.documents import Line, LongLine, bounded
from genguard.generation.table import DEFAULT_SERVER_VERSION
from webhook.cli.files import open_unpacked
from webhook.cli.options import F, with_flags
from webhook.cli.output import tell
from webhook.serve.flags import FILE


def read_audit_logs(take: Callable[[Event], None], files: Iterable[str], max_line: int) -> int:
    """Give each event of these logs to `take`, in the order of their times.

    Each API server has a log of its own, and rotates it: the files are read side by side.

    Return how many lines and events could not be read; each is reported on standard error. Raises
    click.ClickException for a file that cannot be read.
    """
    unread = 0

    def report(where: str, trouble: str) -> None:
        nonlocal unread
        unread += 1
        tell(f"{where}: {trouble}")

    each = [_events(name, max_line, report) for name in files]
    for event in heapq.merge(*each, key=lambda one: one.time):
        try:
            take(event)
        except Exception as error:  # noqa: BLE001 - one bad event must not end the others
            report(f"an event of {event.time:.0f} s", why_unreadable(error))
    return unread


def _events(name: str, max_line: int, report: Callable[[str, str], None]) -> Iterator[Event]:
    try:
        with open_unpacked(name) as (stream, _):
            for number, line in enumerate(bounded(stream, max_line), start=1):
                found: list[Event] = []
                for trouble in _read_line(found, line):
                    report(f"{name}:{number}", trouble)
                yield from found
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "is no whole gzip file"
        raise click.ClickException(f"{name}: {reason}") from error


def _read_line(found: list[Event], line: Line) -> Iterator[str]:
    """Read the events of one line; yield what is wrong with it, or with each of them."""
    if isinstance(line, LongLine):
        yield f"{line}: raise --max-line to read it"
        return
    if not line or line.isspace():
        return
    try:
        kind = audit_kind(line)
        if kind:
            troubles = see_events(line, kind, lambda text: found.append(read_event(text)))
            yield from (one for one in troubles if one != UNFINISHED)
        else:
            yield "no event of an audit log (audit.k8s.io/v1)"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if not is_unfinished(line, error):
            yield f"no event of an audit log that can be read: {why_unreadable(error)}"


_RECORDED: Final = (
    click.option(
        "--server-version",
        default=DEFAULT_SERVER_VERSION,
        show_default=True,
        help="Whose rules held when it was recorded.",
    ),
    click.option(
        "--crds",
        type=FILE,
        help="CustomResourceDefinitions of the recorded cluster, JSON or YAML.",
    ),
    click.option(
        "--webhooks",
        type=FILE,
        help="The cluster's webhook configurations and MutatingAdmissionPolicies with their "
        "bindings, JSON or YAML: findings then name the culprit.",
    ),
)


def of_recording(verb: F) -> F:
    """Add the flags to a verb."""
    return with_flags(verb, _RECORDED)
