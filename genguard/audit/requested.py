"""Find out what was asked for before the first webhook changed it, as far as that matters.

An audit event has the request as it was sent: without defaults, and of a PATCH the patch alone. Its
content type is not told. Where webhooks changed nothing the answer says what came of all that, so
only what their patches touch must be right. The rest serves that the patches can be applied.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from genguard.detection.changes import identities

Json = Any
"""Decoded JSON."""
_Path = tuple[str, ...]
_DIRECTIVE: Final = "$"
_DELETED: Final = {"$patch": "delete"}


def applied(patch: Json, before: Json, after: Json) -> Json:
    """Return `before` with a patch: a merge patch, strategic or not, or an applied configuration.

    after  the answer; it tells which items of a list stayed, and their order
    """
    if isinstance(patch, Mapping):
        old = before if isinstance(before, dict) else {}
        shown = after if isinstance(after, dict) else {}
        found = {**old}
        for key, value in patch.items():
            if key.startswith(_DIRECTIVE):
                continue  # of a strategic merge patch: what it says of lists the answer shows
            if value is None:
                found.pop(key, None)
            else:
                found[key] = applied(value, old.get(key), shown.get(key))
        return found
    if isinstance(patch, list) and isinstance(before, list) and isinstance(after, list):
        return _applied_to_list(patch, before, after)
    return patch


def _applied_to_list(patch: list[Json], before: list[Json], after: list[Json]) -> list[Json]:
    patch = [one for one in patch if not _is_deletion(one)]
    if any(not isinstance(one, dict) for one in (*patch, *before, *after)):
        return patch
    field, names = identities(patch)
    if not field:
        return patch
    sent = dict(zip(names, patch, strict=True))
    old = _by_identity(before, field)
    found = []
    for one in after:
        name = one.get(field)
        if not isinstance(name, str):
            continue
        if name in sent:
            found.append(applied(sent.pop(name), old.get(name), one))
        elif name in old:
            found.append(old[name])
    return [*found, *(applied(one, old.get(name), None) for name, one in sent.items())]


def _is_deletion(one: Json) -> bool:
    return isinstance(one, dict) and one.items() >= _DELETED.items()


def _by_identity(values: Iterable[Json], field: str) -> dict[Any, Json]:
    return {one[field]: one for one in values if isinstance(one.get(field), str)}


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
            if key not in sent and not _is_below(touched, (*at, key))
        }
        return found | added
    if isinstance(sent, list) and isinstance(shown, list):
        places = _places(sent, shown)
        return [
            value
            if places[index] is None
            else filled(value, shown[places[index]], touched, (*at, str(index)))
            for index, value in enumerate(sent)
        ]
    return sent


def _is_below(touched: Iterable[_Path], path: _Path) -> bool:
    """Whether patches write this path, a value around it or one within it."""
    return any(one[: len(path)] == path or path[: len(one)] == one for one in touched)


def _places(values: list[Json], others: list[Json]) -> list[Any]:
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
        to_final, to_shown = _places(earlier, final), _places(earlier, shown)
        return [
            value
            if to_final[index] is None or to_shown[index] is None
            else carried(final[to_final[index]], shown[to_shown[index]], value)
            for index, value in enumerate(earlier)
        ]
    return earlier
