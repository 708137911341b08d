"""Cuts what only debuggers read off compiled modules: `python symbols.py FOLDER`.

The Dockerfile does it. An ELF file begins with a table of its segments, which are all that is
loaded. Symbols and debug sections stand behind the last of them, with the table of sections; some
wheels carry ten times as many bytes of them as of code. `strip` does the same, but the slim image
has none, and it would be one more package that no lock pins. What is loaded stays as it is, byte by
byte.
"""

import struct
import sys
from pathlib import Path

_LITTLE_64_BIT = b"\x7fELF\x02\x01"
_SEGMENTS_AT = struct.Struct("<32xQ14xHH")
"""Of the header: where the table of segments begins, the size of an entry, how many there are."""
_SEGMENT = struct.Struct("<8xQ16xQ")
"""Of an entry: where the segment begins in the file, and how long it is there."""
_SECTIONS_AT, _SECTION_COUNTS = 40, 60
"""Where the header says where the table of sections begins, and how many there are."""


def without_symbols(content: bytes) -> bytes:
    """Return an ELF file up to the end of its last segment; other content as it is."""
    if not content.startswith(_LITTLE_64_BIT):
        return content
    begins, size, count = _SEGMENTS_AT.unpack_from(content)
    entries = (_SEGMENT.unpack_from(content, begins + size * at) for at in range(count))
    end = max(begins + size * count, *(offset + length for offset, length in entries))
    cut = bytearray(content[:end])
    struct.pack_into("<Q", cut, _SECTIONS_AT, 0)
    struct.pack_into("<HH", cut, _SECTION_COUNTS, 0, 0)
    return bytes(cut)


def main(folder: str) -> None:
    """Rewrite every compiled module below a folder."""
    for path in Path(folder).rglob("*.so*"):
        path.write_bytes(without_symbols(path.read_bytes()))


if __name__ == "__main__":
    main(sys.argv[1])
