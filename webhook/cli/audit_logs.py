"""Reads audit logs of the API server that are given as files, event by event."""

import zlib
from collections.abc import Callable, Iterable, Iterator

import click
import msgspec

from genguard.audit.document import (
    UNFINISHED,
    audit_kind,
    is_unfinished,
    see_events,
    why_unreadable,
)
from genguard.formats.lines import Line, LongLine, bounded
from webhook.cli.files import open_unpacked
from webhook.cli.output import tell


def read_audit_logs(see: Callable[[bytes], None], files: Iterable[str], max_line: int) -> int:
    """Give each event of these logs to `see`, in their order.

    Return how many lines could not be read; each is reported on standard error. Raises
    click.ClickException for a file that cannot be read.
    """
    unread = 0
    for name in files:
        try:
            with open_unpacked(name) as (stream, _):
                for number, line in enumerate(bounded(stream, max_line), start=1):
                    for trouble in _read_line(see, line):
                        unread += 1
                        tell(f"{name}:{number}: {trouble}")
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or "is no whole gzip file"
            raise click.ClickException(f"{name}: {reason}") from error
    return unread


def _read_line(see: Callable[[bytes], None], line: Line) -> Iterator[str]:
    """Read one line; yield what is wrong with it, or with each of its events."""
    if isinstance(line, LongLine):
        yield f"{line}: raise --max-line to read it"
        return
    if not line or line.isspace():
        return
    try:
        kind = audit_kind(line)
        if kind:
            yield from (one for one in see_events(line, kind, see) if one != UNFINISHED)
        else:
            yield "no event of an audit log (audit.k8s.io/v1)"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if not is_unfinished(line, error):
            yield f"no event of an audit log that can be read: {why_unreadable(error)}"
