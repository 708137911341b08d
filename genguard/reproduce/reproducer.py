"""From a recording and a finding to what is handed over: small, anonymous, and checked again."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from genguard.detection.finding import Finding
from genguard.generation.custom import from_definition
from genguard.replay import Replay
from genguard.reproduce.anonymous import KEPT_SORTS, Anonymous, is_builtin
from genguard.reproduce.definitions import definitions_of
from genguard.reproduce.extract import loop_of
from genguard.reproduce.loop import Loop
from genguard.reproduce.recorded import (
    Document,
    NewReplay,
    RecordedWrite,
    Sought,
    encode,
    findings_in,
    request_of,
)
from genguard.reproduce.reduce import NotFoundError, fields_of, minimal, reduced
from genguard.review_setup import ReviewOptions


class Reproducer(NamedTuple):
    """The smallest recording that was found, and what the tests play.

    lines   the recording
    found   the finding that it gives, without the registrations of the cluster: of a webhook
            nobody is named
    kept    the sorts of names and values that the finding needs as they were (KEPT_SORTS)
    fields  how many fields are left
    """

    lines: tuple[bytes, ...]
    found: Finding
    loop: Loop
    kept: tuple[str, ...]
    fields: int


def reproducer(
    writes: Sequence[RecordedWrite],
    found: Finding,
    new_replay: NewReplay,
    *,
    server_version: str,
    keeps_names: bool = False,
    is_sample: bool = False,
) -> Reproducer:
    """Return the reproducer of a finding. Raises NotFoundError where the writes do not give it.

    is_sample  the writes are what a server has kept: too little to say who did it
    """
    sought = Sought.of(found)
    if is_sample:
        sought = sought._replace(actor=None)
    small = reduced(writes, sought, new_replay)
    checked = _Checked(found, server_version, frozenset(_with_status(writes)))
    kept = KEPT_SORTS if keeps_names else checked.needed(small)
    made = Anonymous(small, kept)
    again = checked.again(made)
    if again is None:
        raise NotFoundError("without the registrations of the cluster the finding is not made")
    loop = loop_of(
        made.writes,
        again,
        checked.definitions(made),
        severity=found.severity,
        server_version=server_version,
    )
    lines = tuple(encode(made.writes))
    return Reproducer(lines, again, loop, tuple(kept), len(fields_of(made.writes)))


class _Checked(NamedTuple):
    """Whether a finding is still made when names and values are replaced.

    with_status  the custom resources with a subresource `status`: their group and plural
    """

    found: Finding
    server_version: str
    with_status: frozenset[tuple[str, str]]

    def needed(self, small: Sequence[RecordedWrite]) -> list[str]:
        """Return the sorts of names and values without which the finding is not made."""
        return minimal(KEPT_SORTS, lambda kept: self.again(Anonymous(small, kept)) is not None)

    def definitions(self, made: Anonymous) -> list[Document]:
        """Return a CustomResourceDefinition of each custom resource."""
        names = {
            f"{made.resource(group, plural)}.{made.group(group)}"
            for group, plural in self.with_status
        }
        return list(definitions_of(made.writes, names))

    def again(self, made: Anonymous) -> Finding | None:
        """Return the finding of the replaced writes: the same detector, for the same object."""
        custom = [one for each in self.definitions(made) for one in from_definition(each)]
        options = ReviewOptions(
            audit_only=True, server_version=self.server_version, custom_resources=tuple(custom)
        )
        where = self.found.subject
        place = (
            made.group(where.group),
            made.resource(where.group, where.resource),
            made.namespace(where.namespace) if where.namespace else "",
            made.name(where.name),
        )
        wanted = self.found.detector, place, self.found.subresource
        for one in findings_in(made.writes, lambda: Replay(options)):
            sought = Sought.of(one)
            if (sought.detector, sought.place, sought.subresource) == wanted:
                return one
        return None


def _with_status(writes: Iterable[RecordedWrite]) -> Iterator[tuple[str, str]]:
    for write in writes:
        request = request_of(write[0])
        resource = request["resource"]
        if request.get("subResource") == "status" and not is_builtin(resource.get("group", "")):
            yield resource["group"], resource["resource"]
