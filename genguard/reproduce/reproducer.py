"""From a recording and a finding to the files that are handed over: small, anonymous, checked."""

from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from genguard.detection.finding import Finding
from genguard.detection.fix import load_advice
from genguard.generation.custom import from_definition
from genguard.objects.fields import from_pointer, to_field_path
from genguard.replay import Replay
from genguard.reproduce.anonymous import BUILTIN, Anonymous
from genguard.reproduce.loop import Loop, loop_of
from genguard.reproduce.recorded import (
    Document,
    NewReplay,
    NotFoundError,
    RecordedWrite,
    encode,
    findings_in,
    what_of,
)
from genguard.reproduce.reduce import reduced
from genguard.review_setup import ReviewOptions
from genguard.shipped import shipped

_PATHS_OF_SCALE: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
}
_FILES: Final = resources.files("genguard.reproduce")


class Reproducer(NamedTuple):
    """The smallest recording that was found, and what the test plays.

    lines        the recording
    found        the finding that it gives, without the registrations of the cluster: it names no
                 webhook
    definitions  a CustomResourceDefinition of each custom resource, with any fields
    """

    lines: tuple[bytes, ...]
    found: Finding
    definitions: tuple[Document, ...]
    loop: Loop


def reproducer(
    writes: Sequence[RecordedWrite],
    found: Finding,
    new_replay: NewReplay,
    *,
    server_version: str,
    keeps_names: bool = False,
) -> Reproducer:
    """Return the reproducer of a finding. Raises NotFoundError where the writes do not give it."""
    small = reduced(writes, found, new_replay)
    names = Anonymous(small)
    made, wanted = (small, what_of(found)) if keeps_names else (names.writes, names.what_of(found))
    with_status = {
        write.object[0] for write in writes if write.request.get("subResource") == "status"
    }
    definitions = tuple(_definitions(small, made, with_status))
    options = ReviewOptions(
        audit_only=True,
        server_version=server_version,
        custom_resources=tuple(
            resource for each in definitions for resource in from_definition(each)
        ),
    )
    again = findings_in(made, lambda: Replay(options))
    same = next((finding for finding in again if what_of(finding) == wanted), None)
    if same is None:
        raise NotFoundError(
            "the finding is not made with other names, or not without the registrations of the "
            "cluster"
        )
    answered = {write.object[0] for write in writes if write[-1]["phase"] == "outcome"}
    played = [
        new if old.object[0] in answered else RecordedWrite((*new, {**new[-1], "phase": "outcome"}))
        for old, new in zip(small, made, strict=True)  # nobody knows what was refused of others
    ]
    loop = loop_of(played, same, severity=found.severity, server_version=server_version)
    return Reproducer(tuple(encode(made)), same, definitions, loop)


def _definitions(
    small: Sequence[RecordedWrite], made: Sequence[RecordedWrite], with_status: set[str]
) -> Iterator[Document]:
    """Yield a CustomResourceDefinition, of any fields, for each custom resource that is written.

    made         the same writes under the names that are handed over
    with_status  those with a subresource `status`, as they were named: `widgets.example.org`
    """
    kinds: dict[str, Document] = {}
    subresources: dict[str, Document] = {}
    for old, write in zip(small, made, strict=True):
        request, plural = write.request, write.object[0]
        if request["resource"].get("group", "") in BUILTIN:
            continue
        below = subresources.setdefault(plural, {})
        if plural not in kinds or kinds[plural].get("subResource") == "scale":
            kinds[plural] = request  # a Scale is of another kind
        if old.object[0] in with_status:
            below["status"] = {}
        if request.get("subResource") == "scale":
            below["scale"] = _PATHS_OF_SCALE
    for plural, request in kinds.items():
        resource, kind = request["resource"], request["kind"]["kind"]
        kind = "Scaled" if kind == "Scale" else kind
        known = shipped("genguard.reproduce", "definition.yaml", dict[str, Document])
        named = {"name": resource["version"], "subresources": subresources[plural]}
        names = {"plural": resource["resource"], "kind": kind, "listKind": f"{kind}List"}
        spec = {
            "group": resource["group"],
            "scope": "Namespaced" if request.get("namespace") else "Cluster",
            "names": {**names, "singular": kind.lower()},
            "versions": [{**named, **known["version"]}],
        }
        yield {**known["definition"], "metadata": {"name": plural}, "spec": spec}


def folder_of(made: Reproducer) -> dict[str, bytes]:
    """Return the content of each file by its name."""
    crds = {"apiVersion": "v1", "kind": "List", "items": made.definitions}
    return {
        "README.md": _readme(made).encode(),
        "loop.json": _json(made.loop),
        "crds.json": _json(crds),
        "reviews.ndjson": b"".join(line + b"\n" for line in made.lines),
        "test_reproduce.py": _FILES.joinpath("folder", "test_reproduce.py").read_bytes(),
    }


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _readme(made: Reproducer) -> str:
    loop, found = made.loop, made.found
    names = "readme.md", "try_writer.md" if loop.culprit else "try_webhook.md"
    template, how_to_try = (_FILES.joinpath(name).read_text() for name in names)
    plan = load_advice().plan(found.detector)
    fields = ", ".join(f"`{to_field_path(from_pointer(path))}`" for path in found.paths)
    steps = {"writes": loop.writes, **({"effects": loop.effects} if loop.effects else {})}
    return template.format(
        detector=found.detector,
        message=found.message,
        fields=fields or "the object itself",
        who=f"`{loop.culprit}`" if loop.culprit else "a mutating webhook",
        steps=yaml.safe_dump(msgspec.to_builtins(steps), sort_keys=False),
        version=loop.server_version,
        how_to_try=how_to_try.strip().format(loop.culprit),
        how=plan.writer if loop.culprit else plan.webhook,
    )
