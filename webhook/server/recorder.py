"""`serve --record FILE` writes every review as one line that `replay` reads.

    {"time": RFC3339, "phase": "intent|mutate|outcome", "review": {AdmissionReview}}

A recording holds whole objects, Secrets too if they are reviewed: the file is for its owner alone,
also where it was there before with another mode. A thread writes, and when it cannot keep up lines
are dropped and counted: recording never delays an answer.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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
        if os.fstat(self._file).st_size:  # a process that was killed may have left half a line
            os.write(self._file, b"\n")
        self._clock: Final = clock
        self._given = self._taken = 0
        """Bytes: one counted by the event loop alone, one by the thread alone."""
        self._writer: Final = ThreadPoolExecutor(1, "recorder")
        self.dropped = 0

    def record(self, phase: Phase, body: bytes) -> None:
        """Write a review, which is known to be a single JSON document."""
        at = self._clock().isoformat().replace("+00:00", "Z")
        # JSON allows line breaks only between tokens, where a space means the same.
        one_line = body.replace(b"\r", b" ").replace(b"\n", b" ").strip()
        line = b'{"time":"%s","phase":"%s","review":%s}\n' % (at.encode(), phase.encode(), one_line)
        if self._given - self._taken + len(line) > _QUEUED_BYTES:
            self.dropped += 1
            return
        self._given += len(line)
        self._writer.submit(self._append, line)

    def close(self) -> None:
        """Write what is waiting and close the file."""
        self._writer.shutdown()
        try:
            os.close(self._file)
        except OSError:  # some file systems report only now that they could not write
            self.dropped += 1

    def _append(self, line: bytes) -> None:
        """Write all of a line or nothing of it: half a line would spoil the next one too."""
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:  # a full disk: lines are lost, and nothing else
            self.dropped += 1
            with suppress(OSError):  # a pipe has no length
                os.ftruncate(self._file, os.fstat(self._file).st_size - len(line) + len(left))
        self._taken += len(line)
