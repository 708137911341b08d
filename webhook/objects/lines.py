"""Lines of a file with their numbers, some of which may be given back to be read again."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Lines(Iterator[bytes]):
    """An iterator; `number` is that of the line that came last, from 1."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines: Final = iter(lines)
        self._again: Final[deque[bytes]] = deque()
        self.number = 0

    def __next__(self) -> bytes:
        line = self._again.popleft() if self._again else next(self._lines)
        self.number += 1
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
