"""Writes a finding as a page of text: `explain finding/ID`.

It has what happened in one of its writes, and the steps that end its loop.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from genguard.detection.finding import Finding, FixStep
from genguard.detection.sample import WriteDiff
from genguard.objects.pointer import from_pointer, to_field_path
from genguard.objects.shown import json_line


class FindingLine(NamedTuple):
    """One line: `lead` stands before the text; code is copied by people, so it stays one piece."""

    text: str
    lead: str = ""
    is_heading: bool = False
    is_code: bool = False


def finding_page(found: Finding) -> Iterator[FindingLine]:
    """Yield the lines of the page."""
    yield FindingLine(f"{found.detector}  {found.about}", is_heading=True)
    yield FindingLine(found.message, "  what    ")
    yield FindingLine(
        f"{found.severity}, {found.state}, {found.count}x, {found.first_seen} to {found.last_seen}",
        "  when    ",
    )
    yield FindingLine(", ".join(one.label for one in found.actors) or "not known", "  who     ")
    fields = [to_field_path(from_pointer(path)) for path in found.paths]
    yield FindingLine(", ".join(fields) or "no field in particular", "  fields  ")
    if found.diff is not None:
        yield from _what_happened(found.diff)
    if found.fix:
        yield FindingLine("WHAT ENDS IT", is_heading=True)
    for number, step in enumerate(found.fix, start=1):
        yield from _step(number, step)


_COLUMNS: Final = ("FIELD", "BEFORE", "ASKED", "LEFT", "STORED")


def _what_happened(diff: WriteDiff) -> Iterator[FindingLine]:
    yield FindingLine("WHAT HAPPENED", is_heading=True)
    manager = f" ({diff.field_manager})" if diff.field_manager else ""
    yield FindingLine(f"in the write of {diff.user}{manager} at {diff.time}", "  ")
    rows = [
        _COLUMNS,
        *((one.field, *("?" if each is None else each.text for each in one.states))
          for one in diff.fields),
    ]  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield FindingLine("  ".join(cells).rstrip(), "  ", is_code=True)
    if diff.more:
        yield FindingLine(f"and {diff.more} more", "  ")
    if diff.patch:
        yield FindingLine("the other webhooks did:", "  ")
    for one in diff.patch:
        yield FindingLine(json_line(one), "    ", is_code=True)


def _step(number: int, step: FixStep) -> Iterator[FindingLine]:
    yield FindingLine(f"{step.title}. {step.text}", f"  {number}. ")
    for line in (step.command or step.stanza).splitlines():
        yield FindingLine(line, "       ", is_code=True)
    if step.trial is not None:
        yield FindingLine(step.trial.text, "     ")
