"""Lines of a file, of bounded length."""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

LONGEST_LINE: Final = 64
"""MiB, unless a flag says otherwise; the largest object of a cluster has 3."""
_MIB: Final = 1 << 20
_PIECE: Final = 1 << 16


class LongLine(NamedTuple):
    """Stands for a line of more than so many MiB, which was not kept."""

    longest: int

    def __str__(self) -> str:
        return f"a line longer than {self.longest} MiB"


Line = bytes | LongLine


class Stream(Protocol):
    """An opened file."""

    def readline(self, size: int, /) -> bytes:
        """Bytes to the end of the line, so many at most; none at the end of the file."""


def bounded(stream: Stream, longest: int) -> Iterator[Line]:
    """The lines of a file; one of more than `longest` MiB is passed over and never held."""
    most = longest * _MIB
    while line := stream.readline(most + 1):
        if len(line) <= most or line.endswith(b"\n"):
            yield line
        else:
            while (piece := stream.readline(_PIECE)) and not piece.endswith(b"\n"):
                pass
            yield LongLine(longest)
