"""`serve --record FILE`: every review as one line that `replay` reads.

    {"time": RFC3339, "phase": "intent|mutate|outcome", "review": {AdmissionReview}}

A recording holds whole objects, Secrets too if they are reviewed: the file is for its owner alone,
also where it was there before with another mode. A thread writes, and when it cannot keep up lines
are dropped and counted: recording never delays an answer.

A process that is killed may leave half a line. It gets an end before the next line begins, so that
it spoils no other one.
"""

import os
import queue
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from genguard.admission.review import Phase
from webhook.files.private import keep_private

_QUEUED_BYTES: Final = 64 * 1024 * 1024


class Recorder:
    """Appends reviews to a file. `dropped` counts those that could not be written."""

    def __init__(
        self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Open `path` for appending.

        Raises OSError when that is not possible, or when others may read the file.
        """
        try:
            self._file: Final = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            what = f"{error.strerror}; --record needs a folder that is there and can be written"
            raise OSError(error.errno, what, str(path)) from error
        try:
            keep_private(path)
        except OSError:
            os.close(self._file)
            raise
        self._is_torn = _ends_within_line(path)
        """Whether the file ends with a part of a line."""
        self._clock: Final = clock
        self._lines: Final[queue.SimpleQueue[bytes | None]] = queue.SimpleQueue()
        self._waiting = 0
        self._lock: Final = threading.Lock()
        self._writer: Final = threading.Thread(target=self._write, name="recorder", daemon=True)
        self.dropped = 0
        self._writer.start()

    def record(self, phase: Phase, body: bytes) -> None:
        """Write a review, which is known to be a single JSON document."""
        at = self._clock().isoformat().replace("+00:00", "Z")
        # JSON allows line breaks only between tokens, where a space means the same.
        one_line = body.replace(b"\r", b" ").replace(b"\n", b" ").strip()
        line = b'{"time":"%s","phase":"%s","review":%s}\n' % (
            at.encode(),
            phase.encode(),
            one_line,
        )
        with self._lock:
            if self._waiting + len(line) > _QUEUED_BYTES:
                self.dropped += 1
                return
            self._waiting += len(line)
        self._lines.put(line)

    def close(self) -> None:
        """Write what is waiting and close the file."""
        self._lines.put(None)
        self._writer.join()
        try:
            os.close(self._file)
        except OSError:  # some file systems report only now that they could not write
            self.dropped += 1

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._append(line)
            except OSError:  # a full disk: lines are lost, and nothing else
                self.dropped += 1
            with self._lock:
                self._waiting -= len(line)

    def _append(self, line: bytes) -> None:
        """Write all of a line or nothing of it: half a line would spoil the next one too."""
        whole = b"\n" + line if self._is_torn else line
        left = memoryview(whole)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            begun = len(whole) - len(left)
            try:
                os.ftruncate(self._file, os.fstat(self._file).st_size - begun)
            except OSError:  # a pipe has no length
                self._is_torn = self._is_torn or begun > 0
            raise
        self._is_torn = False


def _ends_within_line(path: Path) -> bool:
    """Whether a file's last byte ends no line; no for an empty one, and for a pipe or device."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - 1, 0))
            return file.read(1) not in (b"", b"\n")
    except OSError:  # it may be written, and not read
        return False
