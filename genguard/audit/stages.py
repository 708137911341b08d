"""Show an update at each stage of admission: asked for, after the webhooks, after the reinvocation.

The patch of each webhook is in the annotations of the event. They are applied in the order of the
calls by the `jsonpatch` library, to what was asked for. What the server makes besides (defaults,
fields that a policy sets before the first webhook) is taken from the answer at every stage.

An event has the request as it was sent: without defaults, and for a PATCH the patch alone. Its
content type is not told. Where webhooks changed nothing, the answer says what came of all that, so
only what their patches touch must be right. The rest is there so that patches can be applied.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec

from genguard.audit.event import NO_OBJECT, Call, Event, steps_of
from genguard.audit.stored import StoredObject
from genguard.detection.changes import identities
from genguard.detection.metadata import TOLD
from genguard.objects.fields import Fields, from_pointer

Json = Any
"""Decoded JSON."""
_Path = tuple[str, ...]
_TAKES_OUT: Final = "$deleteFromPrimitiveList/"
"""Before the name of a list, finalizers mostly (apimachinery pkg/util/strategicpatch/patch.go)."""


def applied(patch: Json, before: Json, after: Json) -> Json:
    """Return `before` with a patch: a merge patch, strategic or not, or an applied configuration.

    after  the answer; it tells which items of a list stayed, and their order
    """
    if isinstance(patch, Mapping):
        old = before if isinstance(before, dict) else {}
        shown = after if isinstance(after, dict) else {}
        found = {**old}
        for key, value in patch.items():
            if key.startswith(_TAKES_OUT) and isinstance(value, list):
                name = key.removeprefix(_TAKES_OUT)
                found[name] = [item for item in old.get(name) or () if item not in value]
            if key.startswith("$"):
                continue  # of a strategic merge patch: the answer shows what it says of lists
            if value is None:
                found.pop(key, None)
            else:
                found[key] = applied(value, old.get(key), shown.get(key))
        return found
    if isinstance(patch, list) and isinstance(before, list) and isinstance(after, list):
        return _applied_to_list(patch, before, after)
    return patch


def _applied_to_list(patch: list[Json], before: list[Json], after: list[Json]) -> list[Json]:
    if any(not isinstance(item, dict) for item in (*patch, *before, *after)):
        return patch
    patch = [item for item in patch if item.get("$patch") != "delete"]
    field, names = identities(patch)
    if not field:
        return patch
    sent = dict(zip(names, patch, strict=True))
    old = {item[field]: item for item in before if isinstance(item.get(field), str)}
    found = []
    for item in after:
        name = item.get(field)
        if not isinstance(name, str):
            continue
        if name in sent:
            found.append(applied(sent.pop(name), old.get(name), item))
        elif name in old:
            found.append(old[name])
    return [*found, *(applied(item, old.get(name), None) for name, item in sent.items())]


def filled(sent: Json, shown: Json, touched: Sequence[_Path], at: _Path = ()) -> Json:
    """Return a sent value with the defaults that the server has added to it.

    shown    the same value in the answer
    touched  the paths that patches of webhooks write: what stands there was not added by the server
    """
    if isinstance(sent, dict) and isinstance(shown, dict):
        found = {
            key: filled(value, shown[key], touched, (*at, key)) if key in shown else value
            for key, value in sent.items()
        }
        added = {
            key: value
            for key, value in shown.items()
            if key not in sent and not any(meet((*at, key), path) for path in touched)
        }
        return found | added
    if isinstance(sent, list) and isinstance(shown, list):
        indexes = _indexes(sent, shown)
        return [
            value
            if indexes[index] is None
            else filled(value, shown[indexes[index]], touched, (*at, str(index)))
            for index, value in enumerate(sent)
        ]
    return sent


def meet(path: _Path, other: _Path) -> bool:
    """Whether one of the paths is the other, within it or around it."""
    return all(a == b for a, b in zip(path, other, strict=False))


def _indexes(values: list[Json], others: list[Json]) -> list[Any]:
    """Return for each item the index of the same item in another list, None without one."""
    field, names = identities(values)
    other_field, other_names = identities(others)
    if field and field == other_field:
        at = {name: index for index, name in enumerate(other_names)}
        return [at.get(name) for name in names]
    if len(values) == len(others):
        return list(range(len(values)))
    return [None] * len(values)


def without_kept(asked: Json, final: Json, shown: Json) -> Json:
    """Return the answer without what patches removed and the server then kept from before.

    asked, final, shown  as in `carried`
    """
    if isinstance(asked, dict) and isinstance(final, dict) and isinstance(shown, dict):
        return {
            key: without_kept(asked.get(key), final.get(key), value)
            for key, value in shown.items()
            if key in final or key not in asked
        }
    return shown


def carried(final: Json, shown: Json, earlier: Json) -> Json:
    """Return the answer as it would be, had the patches after an earlier stage not been applied.

    final    the request with all patches
    shown    the answer: `final` with defaults, and with what the server itself made of it
    earlier  the request with the earlier patches alone
    """
    if earlier == final:
        return shown
    if isinstance(final, dict) and isinstance(shown, dict) and isinstance(earlier, dict):
        found = {}
        for key, value in shown.items():
            if key in earlier and key in final:
                found[key] = carried(final[key], value, earlier[key])
            elif key in earlier:
                found[key] = earlier[key]  # a patch removes it; the answer shows a default
            elif key not in final:
                found[key] = value
        gone = {
            key: value
            for key, value in earlier.items()
            if key not in shown and (key not in final or final[key] != value)
        }
        return found | gone
    if isinstance(final, list) and isinstance(shown, list) and isinstance(earlier, list):
        to_final, to_shown = _indexes(earlier, final), _indexes(earlier, shown)
        return [
            value
            if to_final[index] is None or to_shown[index] is None
            else carried(final[to_final[index]], shown[to_shown[index]], value)
            for index, value in enumerate(earlier)
        ]
    return earlier


_CONTENT: Final = ("spec", "status")
_MOST_COPIES: Final = 3
"""Of one event: each may double the object."""
_MOST_OPERATIONS: Final = 2_000
"""Of one event: each may take time in proportion to the object."""
_FAULTS: Final = (
    jsonpatch.JsonPatchException,
    jsonpointer.JsonPointerException,
    AttributeError, IndexError, KeyError, TypeError, ValueError,
)  # fmt: skip
"""A patch that does not fit. The library tests the type of a container by asking it."""


class UnknownStagesError(ValueError):
    """A patch does not apply to what is known of the request."""


def stages(
    event: Event, before: StoredObject | None, after: StoredObject | None, calls: Sequence[Call]
) -> list[Fields]:
    """Return the object as asked for, and as it was after each round; metadata as in the answer.

    before  None for a creation
    after   the answer; None where the write was refused
    calls   all that changed the object, with those of genguard; its repairs are left out
    Raises UnknownStagesError, msgspec.MsgspecError, RecursionError.
    """
    rounds = range(1 + max((call.round for call in calls), default=0))
    if not calls and after is not None:
        asked = _lost(event, before, after)
        return [after.fields if asked is None else asked] * 2
    if any(call.operations is None for call in calls) or _are_too_many(calls):
        raise UnknownStagesError
    old, shown = _decoded(before), _decoded(after)
    asked = _asked(event, old, shown, _touched(calls))
    final = _patched(asked, calls)
    admitted = final if after is None else _before_strategy(asked, final, shown)
    if after is None:
        shown = final
    found = [asked]
    for number in rounds:
        mine = [call for call in calls if call.round == number and not call.is_own]
        found.append(_patched(found[-1], mine) if mine else found[-1])
    raw_shown = after.fields if after else {}
    raw_before = before.fields if before else {}
    known = [(raw_shown, shown), (raw_before, old)]
    return [_fields(carried(final, admitted, stage), known) for stage in found]


def _lost(event: Event, before: StoredObject | None, after: StoredObject) -> Fields | None:
    """Return what was asked for where the answer does not show it, and nothing was changed.

    A conversion between two versions loses a field when the object is read again; generation has
    counted it. A field behind a feature gate, or that the schema lacks, is dropped before: then
    what is not there at all is all that is known to be lost, for the server rewrites values.
    """
    if before is None or event.request_object == NO_OBJECT:
        return None
    if any(after.fields.get(key) != before.fields.get(key) for key in _CONTENT):
        return None
    is_counted = after.identity.generation > before.identity.generation
    if not is_counted and event.verb != "update":
        return None
    shown = _decoded(after)
    try:
        asked = _asked(event, _decoded(before), shown, ())
    except UnknownStagesError:
        return None
    if not is_counted:
        asked = {**shown, "spec": _with_dropped(asked.get("spec"), shown.get("spec"))}
        if asked == shown:
            return None
    return _fields({**asked, "metadata": shown["metadata"]}, [(after.fields, shown)])


def _with_dropped(asked: Json, shown: Json) -> Json:
    """Return a value of the answer with the fields that were asked for and are not in it."""
    if isinstance(asked, list) and isinstance(shown, list) and len(asked) == len(shown):
        return [*map(_with_dropped, asked, shown)]
    if not isinstance(asked, dict) or not isinstance(shown, dict):
        return shown
    dropped = {key: value for key, value in asked.items() if key not in shown and _says(value)}
    return dropped | {key: _with_dropped(asked.get(key), value) for key, value in shown.items()}


def _says(value: Json) -> bool:
    """Whether a value says something: who leaves out empty values drops none."""
    return any(map(_says, value.values())) if isinstance(value, dict) else bool(value)


def _before_strategy(asked: Json, final: Json, shown: Json) -> Json:
    """Return the answer without the stored status that the server put back.

    Defaults are set after each webhook, so that the next one sees them. The strategy of a kind
    keeps stored status after the last one (pkg/registry/core/pod/strategy.go:
    podStatusStrategy.PrepareForUpdate).
    """
    if not isinstance(asked, dict) or not isinstance(final, dict):
        raise UnknownStagesError
    parts = [
        {"status": part["status"]} if "status" in part else {} for part in (asked, final, shown)
    ]
    others = {key: value for key, value in shown.items() if key != "status"}
    return others | without_kept(*parts)


def _asked(event: Event, old: Json, shown: Json, touched: Sequence[tuple[str, ...]]) -> Json:
    if event.request_object == NO_OBJECT:
        raise UnknownStagesError
    sent = msgspec.json.decode(event.request_object)
    if isinstance(sent, list):
        return filled(_with(old, sent), shown, touched)
    kept = () if shown else _taken_away(event, sent)
    asked = applied(sent, old, shown) if event.verb == "patch" else sent
    return filled(asked, shown or old, [*touched, *kept])


def _taken_away(event: Event, sent: Json, at: _Path = ()) -> Iterator[_Path]:
    """Yield what a refused write takes away if it is stored, so that it is no default either.

    An applied configuration names its version, and takes nothing away by null.
    """
    sent = sent if isinstance(sent, dict) else {}
    if event.verb == "update":
        yield from (("metadata", name) for name in TOLD if "metadata" in sent)
        yield from (tuple(steps_of(cause.field)) for cause in event.response_status.details.causes)
    elif "apiVersion" not in sent:
        for key, value in sent.items():
            path = *at, key
            yield from [path] if value is None else _taken_away(event, value, path)


def _are_too_many(calls: Iterable[Call]) -> bool:
    kinds = [operation.op for call in calls for operation in call.operations or ()]
    return len(kinds) > _MOST_OPERATIONS or kinds.count("copy") > _MOST_COPIES


def _touched(calls: Iterable[Call]) -> list[tuple[str, ...]]:
    try:
        return [
            from_pointer(operation.path)
            for call in calls
            for operation in call.operations or ()
            if operation.op not in ("test", "remove")
        ]
    except ValueError:
        raise UnknownStagesError from None


def _patched(value: Json, calls: Iterable[Call]) -> Json:
    return _with(value, [msgspec.to_builtins(o) for call in calls for o in call.operations or ()])


def _with(value: Json, operations: list[dict[str, Any]]) -> Json:
    try:
        return jsonpatch.apply_patch(value, operations)
    except _FAULTS:
        raise UnknownStagesError from None


def _decoded(stored: StoredObject | None) -> Json:
    return {} if stored is None else msgspec.json.decode(msgspec.json.encode(stored.fields))


def _fields(value: Json, known: Iterable[tuple[Fields, Json]]) -> Fields:
    """Encode a stage. What is equal to a known value keeps its bytes: digests are of bytes."""
    if not isinstance(value, dict):
        raise UnknownStagesError
    found: Fields = {}
    for key, part in value.items():
        for raw, decoded in known:
            if key in raw and decoded[key] == part:
                found[key] = raw[key]
                break
        else:
            found[key] = msgspec.Raw(msgspec.json.encode(part))
    return found
