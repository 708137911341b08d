"""Writes a finding as a page of text, with the steps that end its loop: `explain finding/ID`."""

from collections.abc import Iterator
from typing import NamedTuple

from webhook.detection.finding import Finding, FixStep
from webhook.objects.pointer import from_pointer, to_field_path


class FindingLine(NamedTuple):
    """One line: `lead` stands before the text; code is copied by people, so it stays one piece."""

    text: str
    lead: str = ""
    is_heading: bool = False
    is_code: bool = False


def finding_page(found: Finding) -> Iterator[FindingLine]:
    """Yield the lines of the page."""
    where = found.object
    kind = f"{where.resource}.{where.group}".rstrip(".")
    name = f"{where.namespace}/{where.name}" if where.namespace else where.name
    status = f" /{found.subresource}" if found.subresource else ""
    yield FindingLine(f"{found.detector}  {kind} {name}{status}", is_heading=True)
    yield FindingLine(found.message, "  what    ")
    yield FindingLine(
        f"{found.severity}, {found.state}, {found.count}x, {found.first_seen} to {found.last_seen}",
        "  when    ",
    )
    yield FindingLine(", ".join(one.told for one in found.actors) or "not known", "  who     ")
    fields = [to_field_path(from_pointer(path)) for path in found.paths]
    yield FindingLine(", ".join(fields) or "no field in particular", "  fields  ")
    if found.repair and found.state != "resolved":
        yield FindingLine("RESTORE THE VALUE BY HAND", is_heading=True)
        yield FindingLine(found.repair, "  ", is_code=True)
    if found.fix:
        yield FindingLine("WHAT ENDS IT", is_heading=True)
    for number, step in enumerate(found.fix, start=1):
        yield from _step(number, step)


def _step(number: int, step: FixStep) -> Iterator[FindingLine]:
    yield FindingLine(f"{step.title}. {step.text}", f"  {number}. ")
    for line in (step.command or step.stanza).splitlines():
        yield FindingLine(line, "       ", is_code=True)
