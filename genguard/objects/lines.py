"""Lines of a file, of bounded length, with their numbers; some may be read again."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

LONGEST_LINE: Final = 64
"""MiB, unless a flag says otherwise; the largest object of a cluster has 3."""
_MIB: Final = 1 << 20
_PIECE: Final = 1 << 16
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class LongLine(NamedTuple):
    """Stands for a line of more than so many MiB, which was not kept."""

    longest: int

    def __str__(self) -> str:
        return f"a line longer than {self.longest} MiB"


Line = bytes | LongLine


class LongLineError(Exception):
    """A line that was wanted is too long; the message says how long it may be."""


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


class Lines(Iterator[bytes]):
    """An iterator; `number` is that of the line that came last, from 1.

    Raises LongLineError for a LongLine, and then goes on with the next.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines: Final = iter(lines)
        self._again: Final[deque[bytes]] = deque()
        self.number = 0

    def __next__(self) -> bytes:
        line = self._again.popleft() if self._again else next(self._lines)
        self.number += 1
        if isinstance(line, LongLine):
            raise LongLineError(str(line))
        return line.removeprefix(_BYTE_ORDER_MARK) if self.number == 1 else line

    def give_back(self, lines: Sequence[bytes]) -> None:
        """They come next; the end of the line that came last counts as a line, too."""
        self._again.extendleft(reversed(lines))
        self.number -= len(lines)


def is_separator(line: bytes) -> bool:
    """Whether a line ends a document, whatever that was (YAML 1.1, c-forbidden)."""
    return line.startswith((b"---", b"...")) and not line[3:4].strip()


def says_nothing(line: bytes) -> bool:
    """Whether a line between two documents is part of neither."""
    rest = (line[3:] if is_separator(line) else line).lstrip()
    return not rest or rest.startswith((b"#", b"%"))
