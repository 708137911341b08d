"""The files of a reproducer, for the repository of those who can correct the loop."""

from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

import msgspec

from genguard.detection.fix import load_advice
from genguard.objects.pointer import from_pointer, to_field_path
from genguard.reproduce.loop import Effect, Loop, Write
from genguard.reproduce.reproducer import Reproducer

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
