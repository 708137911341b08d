"""Finds the audit log of an API server that runs on this machine, or in a container on it."""

import errno
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import PurePosixPath
from typing import BinaryIO, Final, cast

import click
import msgspec

from genguard.objects.shown import few
from genguard.shipped import shipped
from webhook.cli.output import tell

_PLACES: Final = shipped(__package__, "audit_logs.yaml", dict[str, tuple[str, ...]])
_FLAG: Final = re.compile(r"""^[^#\n]*audit-log-path[=\s'"]+([^\s'",\]\\]+)""", re.MULTILINE)


def find_audit_log() -> tuple[str, ...]:
    """Return the commands that print the first log that is found, its oldest file first.

    Raises click.UsageError where there is none.
    """
    found = list(filter(None, map(_log, _hosts())))
    if not found:
        looked = ", ".join((*_PLACES["settings"], *_PLACES["usual"]))
        raise click.UsageError(
            f"no audit log was found: looked at {looked}, here and in nodes of kind and minikube. "
            "Give a FILE, try sudo, or turn it on: docs/audit-logs.md has the policy and the flags"
        )
    tell(f"reading {few(found[0])}")
    for others in found[1:]:
        tell(f"not read: {others[-1]} | genguard replay -")
    return found[0]


@contextmanager
def printed_by(command: str) -> Iterator[BinaryIO]:
    """Give what a command prints. Raises OSError where it fails."""
    # It is made of the table, and of what an API server is started with.
    words, quiet = shlex.split(command), subprocess.DEVNULL
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=quiet) as process:  # noqa: S603
        yield cast("BinaryIO", process.stdout)
    if process.returncode:
        raise OSError(
            errno.EIO, f"exit code {process.returncode}; where it is for root alone, try sudo"
        )


def _hosts() -> Iterator[tuple[str, ...]]:
    """Yield what runs a command where an API server may be: on this machine, and in each node."""
    yield ()
    for engine, label in product(_PLACES["engines"], _PLACES["labels"]):
        names = _ask(engine, "ps", f"--filter=label={label}", "--format={{.Names}}")
        yield from ((engine, "exec", name) for name in names.split())


def _log(host: tuple[str, ...]) -> tuple[str, ...]:
    """Return the commands that print the log of a host; none where it has none."""
    texts = [_ask(*host, "cat", setting) for setting in _PLACES["settings"]]
    set_to = (_outside(paths[-1], text) for text in texts if (paths := _FLAG.findall(text)))
    for path in map(PurePosixPath, (*set_to, *_PLACES["usual"])):
        if path.name == "-":
            return (shlex.join((*host, *_PLACES["printed"])),)
        # A file that is full is named NAME-TIME.SUFFIX (gopkg.in/natefinch/lumberjack.v2).
        full = rf"{re.escape(path.stem)}-\d{{4}}-[-\dT.]+{re.escape(path.suffix)}(\.gz)?"
        names = sorted(_ask(*host, "ls", str(path.parent)).splitlines())
        if path.name in names:
            files = (*(name for name in names if re.fullmatch(full, name)), path.name)
            return tuple(shlex.join((*host, "cat", str(path.parent / file))) for file in files)
    return ()


def _outside(path: str, manifest: str) -> str:
    """Return where the host has a path of a static pod; the same path where it is of none."""
    with suppress(msgspec.MsgspecError, LookupError, TypeError):
        spec = msgspec.yaml.decode(manifest)["spec"]
        hosts = {
            volume["name"]: volume["hostPath"]["path"]
            for volume in spec["volumes"]
            if "hostPath" in volume
        }
        for mount in spec["containers"][0]["volumeMounts"]:
            if PurePosixPath(path).is_relative_to(mount["mountPath"]):
                inside = PurePosixPath(path).relative_to(mount["mountPath"])
                return str(hosts[mount["name"]] / inside)
    return path


def _ask(*command: str) -> str:
    """Return what a command prints; "" where it fails, or is not there."""
    with suppress(OSError), printed_by(shlex.join(command)) as stream:
        return stream.read().decode(errors="replace")
    return ""
