"""`serve --record FILE`: every review as one line that `replay` reads.

    {"time": RFC3339, "phase": "intent|mutate|outcome", "review": {AdmissionReview}}

A recording holds whole objects, Secrets too if they are reviewed: the file is for its owner alone,
also where it was there before with another mode. A thread writes, and when it cannot keep up lines
are dropped and counted: recording never delays an answer.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from webhook.admission.review import Phase
from webhook.private_file import keep_private

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
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:
            begun = len(line) - len(left)
            with contextlib.suppress(OSError):  # a pipe has no length
                os.ftruncate(self._file, os.fstat(self._file).st_size - begun)
            raise
