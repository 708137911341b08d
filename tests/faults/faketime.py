"""Finds libfaketime, which tells a process another time: `python -m tests.faults.faketime`.

Where `faketime` is installed, else out of Debian's packages. The time that passes stays as it is:
clocks that are put right by hand or by NTP leave CLOCK_MONOTONIC alone.
"""

from collections.abc import Mapping
from pathlib import Path

from tests.debian import NotFoundError, Packages

PACKAGES = Packages(
    "faketime",
    {"faketime": ("faketime",)},
    (("faketime",),),
    "https://github.com/wolfcw/libfaketime",
    libraries=True,
)


class Clock:
    """What a process that is given `environment` takes for the time of day.

    put(seconds)  so much later than it is, or earlier
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.put(0)

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }

    def put(self, seconds: int) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}s")
        new.replace(self._file)


def _library() -> Path:
    """Beside the program: .../bin/faketime, .../lib/TRIPLET/faketime/libfaketime.so.1."""
    program = PACKAGES.binary("faketime")
    found = sorted(program.parents[1].glob("lib/*/faketime/libfaketime.so.1"))
    if not found:
        raise NotFoundError(f"no libfaketime.so.1 beside {program}: {PACKAGES.upstream}")
    return found[0]


if __name__ == "__main__":
    PACKAGES.main()
