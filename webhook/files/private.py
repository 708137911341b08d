"""Makes files private: only their owner may read them, even if they existed before."""

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

from webhook.telemetry.logs import LOGGER

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class NotPrivateError(OSError):
    """Another user may read a file, and that cannot be changed; the message says what to do."""


def keep_private(path: Path) -> None:
    """Take all rights to a file from every user but its owner, and log a change.

    A pipe or a device stores nothing and is left unchanged. Raises NotPrivateError.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return
    if found.st_uid != os.geteuid():
        raise _not_private(path, "it belongs to another user, who may read it")
    if not found.st_mode & _OTHERS:
        return
    with contextlib.suppress(OSError):
        path.chmod(0o600)
    if path.stat().st_mode & _OTHERS:  # some file systems change no mode and report no error
        raise _not_private(path, "others may read it, and its mode cannot be changed")
    mode = f"{stat.S_IMODE(found.st_mode):04o}"
    fields = {"file": str(path), "before": mode, "now": "0600"}
    LOGGER.warning(
        "a file that others could read is for its owner alone now", extra={"fields": fields}
    )


def _not_private(path: Path, why: str) -> NotPrivateError:
    return NotPrivateError(
        errno.EACCES, f"{why}; name a file of this user's own with mode 0600", str(path)
    )
