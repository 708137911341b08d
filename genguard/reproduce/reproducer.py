"""From a recording and a finding to the files that are handed over: small, anonymous, checked."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from importlib import resources
from typing import Any, Final, NamedTuple

import msgspec

from genguard.detection.finding import Finding
from genguard.detection.fix import load_advice
from genguard.generation.custom import from_definition
from genguard.objects.fields import from_pointer, to_field_path
from genguard.replay import Replay
from genguard.reproduce.anonymous import KEPT_SORTS, Anonymous, is_builtin
from genguard.reproduce.extract import loop_of
from genguard.reproduce.loop import Effect, Loop, Write
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

_SCALE: Final = "scale"

_PATHS_OF_SCALE: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
}


def definitions_of(
    writes: Sequence[RecordedWrite], with_status: AbstractSet[str]
) -> Iterator[Document]:
    """Yield a CustomResourceDefinition, of any fields, for each custom resource that is written.

    with_status  those with a subresource `status`, as `widgets.example.org`
    """
    found: dict[str, tuple[Document, set[str]]] = {}
    for request in (request_of(line) for write in writes for line in write):
        resource = request["resource"]
        if not is_builtin(resource.get("group", "")):
            plural = f"{resource['resource']}.{resource['group']}"
            known, below = found.setdefault(plural, (request, set()))
            if known.get("subResource") == _SCALE:  # which is of another kind
                found[plural] = request, below
            below.add(request.get("subResource", ""))
    for plural, (request, below) in found.items():
        resource, kind = request["resource"], request["kind"]["kind"]
        if kind == "Scale":
            kind = "Scaled"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {
            "name": resource["version"],
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
        }
        version["subresources"] = {
            **({"status": {}} if "status" in below or plural in with_status else {}),
            **({_SCALE: _PATHS_OF_SCALE} if _SCALE in below else {}),
        }
        names = {"plural": resource["resource"], "kind": kind, "listKind": f"{kind}List"}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": plural},
            "spec": {
                "group": resource["group"],
                "scope": "Namespaced" if request.get("namespace") else "Cluster",
                "names": {**names, "singular": kind.lower()},
                "versions": [version],
            },
        }


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


_TEST: Final = "test_reproduce.py"
_LONGEST: Final = 60
"""Characters of a value in a table."""
_WEBHOOK: Final = (
    "The test has a webhook that does what the recording shows (`effects` in `loop.json`). Put "
    "yours in its place: `WEBHOOK_URL=https://127.0.0.1:9443/mutate WEBHOOK_CA=ca.pem pytest`. As "
    "it is now that must be red; if it is green, your webhook looks at a name that was replaced "
    "here: ask for a folder that `--keep-names` made. Corrected, it is green."
)
_WRITER: Final = (
    "`WITHOUT_CULPRIT=1` leaves the writes of `{}` out. The test reads all writes from "
    "`loop.json`: change them there to try what the corrected program writes."
)


def folder_of(made: Reproducer) -> dict[str, bytes]:
    """Return the content of each file by its name."""
    package = resources.files("genguard.reproduce")
    crds = {"apiVersion": "v1", "kind": "List", "items": made.loop.definitions}
    return {
        "README.md": _readme(made, package.joinpath("readme.md").read_text()).encode(),
        "loop.json": msgspec.json.format(msgspec.json.encode(made.loop), indent=2) + b"\n",
        "crds.json": msgspec.json.format(msgspec.json.encode(crds), indent=2) + b"\n",
        "reviews.ndjson": b"".join(line + b"\n" for line in made.lines),
        _TEST: package.joinpath("folder", _TEST).read_bytes(),
    }


def _readme(made: Reproducer, template: str) -> str:
    loop, found = made.loop, made.found
    plan = load_advice().plan(found.detector)
    fields = ", ".join(f"`{to_field_path(from_pointer(one))}`" for one in loop.paths)
    kept = f"The {' and '.join(made.kept)} are those of the recording. " if made.kept else ""
    return template.format(
        detector=found.detector,
        message=found.message,
        fields=fields or "the object itself",
        who=f"`{loop.culprit}`" if loop.culprit else "a mutating webhook",
        count=made.fields,
        kept=kept,
        table="\n".join(_table(loop)),
        version=loop.server_version,
        how_to_try=_WRITER.format(loop.culprit) if loop.culprit else _WEBHOOK,
        how=plan.writer if loop.culprit else plan.webhook,
    )


def _table(loop: Loop) -> Iterator[str]:
    """Yield the writes, and what becomes of them, as rows of a table."""
    rows = [(f"`{one.user}`", _write(one)) for one in loop.writes]
    rows += [(f"the webhook, in writes of `{one.resource}`", _effect(one)) for one in loop.effects]
    for number, (who, what) in enumerate(rows, start=1):
        yield f"| {number} | {who} | {what} |"


def _write(write: Write) -> str:
    below = f"/{write.subresource}" if write.subresource else ""
    target = f"`{write.resource}{below}` `{write.name or 'of any name'}`"
    if write.verb in ("delete", "move"):
        return f"{'deletes' if write.verb == 'delete' else 'changes the spec of'} {target}"
    verb = {"create": "creates", "put": "replaces an old version of"}.get(write.verb, "patches")
    refused = ", and is refused" if write.refused else ""
    return f"{verb} {target}: {_values(write.changes[:2])}{refused}"


def _effect(effect: Effect) -> str:
    shown = _values(effect.values[:2])
    does = {
        "remove": "removes it",
        "append": f"appends {shown} to it",
        "renew": f"sets it to another value each time, as {shown}",
        "set": f"sets it to {shown}",
    }
    return f"`{'.'.join(effect.field)}`: {does[effect.does]}"


def _values(values: tuple[Any, ...]) -> str:
    texts = [msgspec.json.encode(one).decode() for one in values]
    short = [one if len(one) <= _LONGEST else f"{one[:_LONGEST]}…" for one in texts]
    return ", then ".join(f"`{one}`" for one in short).replace("|", "\\|")
