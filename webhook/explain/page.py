"""An explanation as a page for people: sections of a word and what there is to say of it."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from webhook.explain import words
from webhook.explain.explanation import Explanation, Generation
from webhook.generation.custom import StatusSubresource
from webhook.generation.strategy import Equality, OnCreate, SubresourceRule
from webhook.generation.table import Behaviour

_MENDED: Final = "genguard puts it back: preserve-observed-generation, restore-intent"


class Section(NamedTuple):
    """A heading, and lines of a word and a text."""

    heading: str
    lines: tuple[tuple[str, str], ...]


def page(found: Explanation) -> tuple[Section, ...]:
    """The whole page, first who it is about."""
    return (
        Section(_title(found), tuple(_served(found))),
        Section("GENERATION", tuple(_generation(found.generation))),
        Section("STATUS", tuple(_status(found))),
        Section("JUDGED BY genguard status", tuple(_judged(found))),
    )


def _title(found: Explanation) -> str:
    return f"{found.kind}  {found.resource}"


def _served(found: Explanation) -> Iterator[tuple[str, str]]:
    yield "versions", ", ".join(found.versions)
    for version, status in found.other_versions.items():
        yield "", f"{version}, {words.SUBRESOURCE_OF_STATUS[status]}"
    if found.short_names:
        yield "short", ", ".join(found.short_names)
    yield "scope", "namespaced" if found.namespaced else "cluster"
    yield "Kubernetes", "".join(_lifetime(found))


def _lifetime(found: Explanation) -> Iterator[str]:
    yield found.server_version if found.served else f"not served by {found.server_version}"
    if found.served_until:
        yield f"; served from {found.served_since} to {found.served_until}"
    elif found.served_since and not found.served:
        yield f"; served since {found.served_since}"
    if not found.enabled_by_default:
        yield "; off by default"


def _generation(found: Generation) -> Iterator[tuple[str, str]]:
    yield "create", words.ON_CREATE[found.on_create]
    if found.on_create is not OnCreate.NONE:
        yield "update", _update(found.counts, found.equality, found.excluded)
        yield "delete", "; ".join(filter(None, _deletion(found)))
        for name, rule in sorted(found.subresources.items()):
            yield f"/{name}", words.SUBRESOURCE[rule] if found.kept else _uncounted(rule)
        yield "webhook", _webhook(found)
    yield from _history(found.history)
    if found.note:
        yield "note", found.note
    yield "source", found.source


def _update(counts: tuple[str, ...], equality: Equality, excluded: tuple[str, ...] = ()) -> str:
    if not counts:
        return words.SUBRESOURCE[SubresourceRule.KEEP]
    fields = " or ".join(pointer[1:].replace("/", ".") for pointer in counts)
    if excluded:
        fields = f"anything but {' and '.join(excluded)}"
    return f"+1 when {fields} changes; {words.EQUALITY[equality]}"


def _deletion(found: Generation) -> tuple[str, str]:
    rule = words.ON_DELETE[found.on_delete]
    if not found.kept and rule.startswith("+1"):
        rule = f"{rule}; none stays none"
    return rule, words.PROPAGATION[found.propagation]


def _uncounted(rule: SubresourceRule) -> str:
    """Where generation is not kept nothing counts but the deletion that an eviction is."""
    kept = rule is SubresourceRule.EVICT
    return words.SUBRESOURCE[rule] if kept else words.SUBRESOURCE[SubresourceRule.KEEP]


def _webhook(found: Generation) -> str:
    if found.stored_as_sent:
        return "its metadata.generation is stored on create; overridden on update"
    return "its metadata.generation is overridden, on create and on update"


def _history(entries: tuple[Behaviour, ...]) -> Iterator[tuple[str, str]]:
    """What held before and since each version; nothing where nothing has ever changed."""
    for before, after in pairwise(entries):
        if before is entries[0]:
            yield f"before {after.since}", _behaviour(before)
        gate = f"with feature gate {after.gate}; " if after.gate else ""
        yield f"since {after.since}", f"{gate}{_behaviour(after)}"


def _behaviour(entry: Behaviour) -> str:
    update = _update(entry.compare, Equality(entry.equality))
    return f"create: {words.ON_CREATE[entry.create]}; update: {update}"


def _status(found: Explanation) -> Iterator[tuple[str, str]]:
    observed = found.observed_generation
    has_subresource = found.status_subresource is StatusSubresource.PRESENT
    if not found.custom and not has_subresource:
        yield "written", words.NO_STATUS
        return
    yield "written", words.WRITTEN[found.status_subresource]
    if not has_subresource:
        yield "", words.TRAILS
    if observed.fields is None:
        yield "observed", "wherever its controller writes one: the schema is open"
    elif not observed.fields:
        yield "observed", "no field says which generation its status speaks of"
        yield from _columns(found)
        return
    else:
        yield "observed", ", ".join(observed.fields)
    for gate, defaults in observed.gate.items():
        said = ", ".join(
            f"{'on' if on else 'off'} since {version}" for version, on in defaults.items()
        )
        yield "", f"feature gate {gate}: {said}"
    if observed.by is not None:
        since = f" since {observed.by.since}" if observed.by.since else ""
        yield "writer", f"{observed.by.component}{since}; {observed.by.source}"
    else:
        yield "writer", "its controller" if found.custom else "no part of Kubernetes itself"
    if observed.kept is not None:
        kept = observed.kept
        yield "cleared", f"kept by the API server since {kept.since}; {kept.source}"
    else:
        yield "cleared", f"lost in the API server; {_MENDED}"
    yield from _columns(found)


def _columns(found: Explanation) -> Iterator[tuple[str, str]]:
    for index, column in enumerate(found.columns):
        yield "" if index else "columns", f"{column.name}  {column.json_path}"


def _judged(found: Explanation) -> Iterator[tuple[str, str]]:
    rule = found.judged
    if rule.first:
        yield "first", rule.first
    yield "ready", rule.ready
    yield "settled", rule.settled
    if rule.amends:
        yield "amends", f"the Ready table of Improve .status: {rule.amends}"
    if rule.source:
        yield "source", rule.source
