"""Watches the objects that a verb asks for, and what they own."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from genguard.formats.nesting import OUT_OF_RANGE, TOO_DEEP, UnreadableObject
from genguard.objects.fields import ABSENT, Fields, fields_of, get
from genguard.objects.metadata import parse_time, version_number
from genguard.objects.served import Served, UnknownTargetError, find
from genguard.objects.shown import few
from genguard.status.assessment import AskRules, ask_no_rules
from genguard.status.targets import WatchTarget
from genguard.status.tracking import Tracking
from genguard.status.trees import (
    WORKLOADS,
    Document,
    Node,
    build_trees,
    is_custom,
    owned_by,
    read_dependents,
)
from genguard.status.view import Past
from webhook.cli.output import Tell
from webhook.cluster.discovery import owned_kinds
from webhook.cluster.rest import RefusedError, Rest, UnreadableError
from webhook.cluster.watch import Change, ChangeKind, Collection, keep_watching

_APART: Final = 0.1
"""Seconds between two looks: many changes at once are shown together."""
_SCANS_APART: Final = 2.0
OnSeen = Callable[[WatchTarget, str, dict[str, Any]], dict[str, Any]]
"""Called with where an object was seen, its uid and the object; returns it as it is evaluated."""


class Snapshot(NamedTuple):
    """The objects at one moment, in Unix seconds."""

    at: float
    roots: tuple[Node, ...]
    there: Mapping[WatchTarget, frozenset[str]]
    """The uids of the objects that were asked for."""
    unread: Mapping[str, RefusedError] = MappingProxyType({})
    """Collections that the user may not list: what is shown is without them."""
    unwatched: Mapping[str, RefusedError] = MappingProxyType({})
    """Collections that the user may not watch: later changes are not seen."""


class ObjectWatch:
    """Watches each wanted collection, and each kind in its namespace that it may own.

    The watches go on while its context is entered; `tell` prints what cannot be watched, and why.
    """

    def __init__(
        self,
        rest: Rest,
        kinds: Sequence[Served],
        wanted: Iterable[WatchTarget],
        tell: Tell,
        *,
        ask_rules: AskRules = ask_no_rules,
        on_seen: OnSeen | None = None,
    ) -> None:
        """`ask_rules` evaluates rules in CEL."""
        self._ask_rules: Final = ask_rules
        self._rest: Final = rest
        self._kinds: Final = kinds
        self._wanted: Final = tuple(dict.fromkeys(wanted))
        self._tell: Final = tell
        self._on_seen: Final = on_seen
        self._told: Final[set[str]] = set()
        self._refused: Final[dict[WatchTarget, RefusedError]] = {}
        self._seen: Final[dict[WatchTarget, dict[str, Document]]] = {}
        self._listed: Final[set[WatchTarget]] = set()
        """Those that were read, or cannot be: nothing is shown before each is in it."""
        self._read: Final[set[WatchTarget]] = set()
        self._to_scan: Final = asyncio.Event()
        self._scanned: Final[set[str]] = set()
        self._changed: Final = asyncio.Event()
        self._looked = 0.0
        self._tracking: Final = Tracking()
        self._tasks: Final[list[asyncio.Task[None]]] = []

    async def __aenter__(self) -> Self:
        self._tasks.append(asyncio.create_task(self._scan()))
        for target in self._wanted:
            self._watch(target)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def next_snapshot(self, seconds: float) -> Snapshot | None:
        """The objects after the next change, or after so many seconds without a change.

        None: not everything has been listed yet. The first snapshot comes as soon as it has.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.sleep(self._looked + _APART - time.monotonic())
                await self._changed.wait()
                while not self._is_complete():
                    self._changed.clear()
                    await self._changed.wait()
        for task in self._tasks:
            if task.done():
                task.result()  # none ends by itself: raise what ended it
        if not self._is_complete():
            return None
        self._changed.clear()
        self._looked = time.monotonic()
        return self._look(time.time())

    def _look(self, at: float) -> Snapshot:
        self._tracking.advance(at)
        documents: dict[str, Document] = {}
        for seen in self._seen.values():
            for uid, document in sorted(seen.items(), key=lambda item: _name(item[1])):
                # Two watches may show the same object: the later state counts.
                if uid not in documents or _version(document) > _version(documents[uid]):
                    documents[uid] = document
        there = {target: frozenset(self._seen[target]) for target in self._wanted}
        asked = frozenset[str]().union(*there.values())

        def past(uid: str) -> Past | None:
            return self._past(uid, documents[uid], at) if uid in documents else None

        trees = build_trees(list(documents.values()), asked, past, at=at, ask_rules=self._ask_rules)
        refused = self._refused.items()
        unread, unwatched = (
            {str(target): why for target, why in refused if (target in self._read) is was_read}
            for was_read in (False, True)
        )
        return Snapshot(at, trees, there, unread, unwatched)

    def _past(self, uid: str, document: Document, at: float) -> Past | None:
        found, past = self._tracking.find(uid), self._tracking.past(uid, at)
        if found is None or past is None or found.state.intent_seen:
            return past
        # Its intent is older than this process: its controller has acted, unless it is quite new.
        is_first = found.state.generation == 1 and get(document, "status") in (ABSENT, None, {})
        created = parse_time(str(get(document, "metadata", "creationTimestamp")))
        if is_first and created is not None:
            return replace(past, intent_since=created.timestamp(), observed_since=None)
        return replace(past, observed_since=past.intent_since)

    def _is_complete(self) -> bool:
        custom = [target for target in self._wanted if is_custom(target.served.of)]
        owners = {uid for target in custom for uid in self._seen[target]}
        return self._listed.issuperset(self._seen) and owners <= self._scanned

    def _watch(self, target: WatchTarget) -> None:
        if target in self._seen:
            return
        seen = self._seen[target] = {}

        def on_change(change: Change) -> None:
            if change.what is ChangeKind.SEEN:
                self._see(target, change)
            elif change.what is ChangeKind.GONE:
                seen.pop(change.uid, None)
            else:
                self._listed.add(target)
                self._read.add(target)
            self._changed.set()

        def on_trouble(reason: str) -> None:
            self._tell_once(f"{target} is not watched, trying again: {reason}")
            if target not in self._wanted:
                self._listed.add(target)  # what is asked for is told without it
            self._changed.set()

        path = target.served.path(target.namespace)
        collection = Collection(self._rest, path, target.served.kind, **target.list_parameters)
        changes = partial(self._changes, target, collection)
        self._tasks.append(asyncio.create_task(keep_watching(changes, on_change, on_trouble)))
        self._watch_kinds(owned_by(target.served.of), target.namespace)
        if is_custom(target.served.of) and target.namespace:
            self._watch_kinds(set(WORKLOADS), target.namespace)

    async def _changes(self, target: WatchTarget, collection: Collection) -> AsyncIterator[Change]:
        """Yield the changes of a collection, and remember that they may not be read."""
        try:
            async for change in collection.changes():
                if change.what is ChangeKind.CAUGHT_UP:
                    self._refused.pop(target, None)
                yield change
        except UnreadableError as error:
            if target in self._wanted:
                raise UnknownTargetError(str(error)) from error
            raise
        except RefusedError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                self._refused[target] = error
            raise

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    def _see(self, target: WatchTarget, change: Change) -> None:
        status = TOO_DEEP if change.is_cut else None
        if status is None:
            try:
                self._take(target, change.uid, change.object)
            except msgspec.MsgspecError:
                status = OUT_OF_RANGE
            except RecursionError:
                status = TOO_DEEP
        if status is not None:
            self._see_unreadable(target, change.uid, change.object, status)

    def _see_unreadable(
        self, target: WatchTarget, uid: str, fields: Fields, status: UnreadableObject
    ) -> None:
        """Take in only what identifies an object; its status says why."""
        metadata = msgspec.to_builtins(msgspec.json.decode(fields["metadata"], type=_Metadata))
        head = {key: msgspec.json.decode(fields[key]) for key in ("apiVersion", "kind")}
        self._seen[target][uid] = {**head, "metadata": metadata, "status": status}
        self._tracking.forget(uid)

    def _take(self, target: WatchTarget, uid: str, fields: Fields) -> None:
        document = {key: msgspec.json.decode(raw) for key, raw in fields.items()}
        if self._on_seen is not None:
            shown = self._on_seen(target, uid, document)
            if shown.get("status") is not document.get("status"):
                fields = fields_of(shown)
            document = shown
        self._seen[target][uid] = document
        served = target.served
        self._tracking.record_stored(
            served.group,
            served.resource,
            served.kind,
            fields,
            time.time(),
            answers=self._ask_rules(document),
        )
        for named in read_dependents(document):
            with suppress(UnknownTargetError):  # then it is told as absent
                kind = find(f"{named.kind}.{named.group}".rstrip("."), self._kinds)
                self._watch_kinds({kind.of}, target.namespace)
        if target in self._wanted and is_custom(served.of):
            self._to_scan.set()

    def _watch_kinds(self, resources: set[tuple[str, str]], namespace: str) -> None:
        for resource in resources:
            kind = next(
                (kind for kind in self._kinds if kind.of == resource and kind.watchable), None
            )
            if kind is not None:
                self._watch(WatchTarget(kind, namespace if kind.namespaced else ""))

    async def _scan(self) -> None:
        """Find out what custom resources own: their kind does not say."""
        while True:
            await self._to_scan.wait()
            self._to_scan.clear()
            owners: dict[str, set[str]] = {}
            for target in self._wanted:
                if is_custom(target.served.of):
                    owners.setdefault(target.namespace, set()).update(self._seen[target])
            for namespace, uids in owners.items():
                found, unread = await owned_kinds(self._rest, self._kinds, namespace, uids)
                self._watch_kinds({kind.of for kind in found}, namespace)
                if unread:
                    names = few([str(kind) for kind in unread])
                    self._tell_once(f"if it owns {names}, that is not known: they cannot be listed")
                self._scanned.update(uids)
            self._changed.set()
            await asyncio.sleep(_SCANS_APART)


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    """What is read of the metadata of an object that cannot be decoded."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    deletion_timestamp: str | None = None
    owner_references: list[dict[str, Any]] = []


def _name(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _version(document: Mapping[str, Any]) -> int:
    return version_number(document["metadata"].get("resourceVersion"))
