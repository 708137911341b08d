"""What each verb is tried with: one row a verb in table.yaml. A new verb needs a row."""

from pathlib import Path
from typing import Final

import msgspec


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a verb is called in each trial, as table.yaml explains it; every verb has a row."""

    quick: tuple[str, ...] | None = None
    cluster: tuple[str, ...] | None = None
    unreached: int = 1
    reads: tuple[str, ...] = ()
    waits: tuple[str, ...] | None = None
    ends: int = 130
    alone: str = ""


ROWS: Final = msgspec.yaml.decode(
    Path(__file__).with_suffix(".yaml").read_bytes(), type=dict[str, Row]
)
NO_CLUSTER: Final = {verb for verb, row in ROWS.items() if row.alone}
NOTHING_TO_WAIT_FOR: Final = ("rules", "version", "completion")
