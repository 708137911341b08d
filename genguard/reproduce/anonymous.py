"""Replaces the names and values of a recording: it goes to another team or company.

Kept are the words of Kubernetes (its kinds, fields, well-known users, field managers and condition
types), small numbers, booleans and generations. All else is replaced: one name always by the same
one, an older resourceVersion by a lower one, a text that continues another by one that does so too.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from genguard.detection.finding import Finding
from genguard.generation.table import load_rows
from genguard.objects.fields import get
from genguard.objects.served import resource_name
from genguard.reproduce.recorded import Document, RecordedWrite, moment, request_of
from genguard.shipped import shipped

BUILTIN: Final = frozenset(row.group for row in load_rows())
"""The API groups of Kubernetes."""
_KINDS: Final = frozenset((*(row.kind for row in load_rows()), "Scale"))
_EXTRA: Final = "authentication.kubernetes.io/"
"""Begins the keys of userInfo.extra that the API server itself sets."""
_QUANTITY: Final = re.compile(r"[0-9]{1,3}([numkMGTP]i?|%)?")
_VERSION: Final = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_WORD: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_LARGEST: Final = 1_000
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ACCOUNT: Final = re.compile(r"system:serviceaccount:([^:]*):([^:]*)")
_OF_SYSTEM: Final = "system:serviceaccount:kube-system:"
_NODE: Final = "system:node:"
_PLAIN: Final = re.compile(r"[a-z][A-Za-z0-9]*|x-kubernetes-[a-z-]+")
"""The name of a field of a built-in kind."""

_words: Final = {
    sort: frozenset(words.split())
    for sort, words in shipped("genguard.reproduce", "kept.yaml", dict[str, str]).items()
}
"""The words of kept.yaml, which explains them."""
_DEEP: Final = _words["maps"] - _words["shaped"]
"""Maps below which all is the user's."""
_USERS: Final = _words["users"].union(f"{_OF_SYSTEM}{account}" for account in _words["accounts"])


class Anonymous:
    """The `writes` of one recording with their names and values replaced."""

    def __init__(self, writes: Sequence[RecordedWrite]) -> None:
        """`writes` are all that will be replaced: the same always by the same."""
        lines = [line for write in writes for line in write]
        self._known: Final[dict[str, dict[Any, Any]]] = {}
        versions = {
            int(version)
            for request in map(request_of, lines)
            for key in ("object", "oldObject")
            if (version := str(get(request, key, "metadata", "resourceVersion"))).isdecimal()
        }
        self._versions: Final = {str(v): str(n) for n, v in enumerate(sorted(versions), start=1)}
        self._identities: Final[dict[tuple[str, ...], Callable[[str], str]]] = {
            ("metadata", "name"): self._object_name,
            ("metadata", "generateName"): self._object_name,
            ("metadata", "namespace"): self._namespace,
            ("metadata", "resourceVersion"): lambda text: self._versions.get(text, "1"),
            ("uid",): self._uid,
            ("kind",): self._kind,
            ("apiVersion",): self._api_version,
        }
        self._is_builtin = False
        """Whether the object that is replaced is of a kind of Kubernetes."""
        self._first: Final = min((moment(line["time"]) for line in lines), default=_BEGIN)
        self.writes: Final = [RecordedWrite(map(self._line, write)) for write in writes]

    def what_of(self, found: Finding) -> tuple[str, tuple[str, str, str], str]:
        """Return what is found, of which object, and its subresource, replaced."""
        where = found.subject
        typed = self._typed({"group": where.group, "resource": where.resource})
        plural = resource_name(typed["group"], typed["resource"])
        namespace = self._namespace(where.namespace) if where.namespace else ""
        return found.detector, (plural, namespace, self._object_name(where.name)), found.subresource

    def _line(self, line: Document) -> Document:
        request, review = request_of(line), line["review"]
        self._is_builtin = request["resource"].get("group", "") in BUILTIN
        make: dict[str, Callable[[Any], Any]] = {
            "uid": self._uid,
            "kind": self._typed,
            "resource": self._typed,
            "subResource": str,
            "name": self._object_name,
            "namespace": self._namespace,
            "operation": str,
            "userInfo": self._user_info,
            "object": self._value,
            "oldObject": self._value,
            "dryRun": bool,
            "options": self._options,
        }
        said = {key: review[key] for key in ("kind", "apiVersion") if key in review}
        made = {key: request[key] and make[key](request[key]) for key in make if key in request}
        time = self._time(line["time"])
        return {"time": time, "phase": line["phase"], "review": {**said, "request": made}}

    def _new(self, sort: str, key: Any, make: Callable[[int], Any]) -> Any:
        """Return what stands for a name or value; each sort of them is counted by itself."""
        known = self._known.setdefault(sort, {})
        if key not in known:
            known[key] = make(len(known) + 1)
        return known[key]

    def _named(self, sort: str, key: str) -> str:
        return str(self._new(sort, key, lambda number: f"{sort}-{number}"))

    def _object_name(self, text: str) -> str:
        return self._named("object", text)

    def _namespace(self, text: str) -> str:
        """The first is `default`, which every cluster has."""
        number = self._new("namespace", text, int)
        return "default" if number == 1 else f"namespace-{number}"

    def _user(self, text: str) -> str:
        """It stays a service account, or a node."""
        if text in _USERS:
            return text
        if account := _ACCOUNT.fullmatch(text):
            namespace, name = self._namespace(account[1]), self._named("account", account[2])
            return f"system:serviceaccount:{namespace}:{name}"
        if text.startswith(_NODE):
            return f"{_NODE}{self._named('node', text[len(_NODE) :])}"
        return self._named("user", text)

    def _group(self, text: str) -> str:
        if text in BUILTIN:
            return text
        number = self._new("group", text, int)
        return "example.org" if number == 1 else f"example-{number}.org"

    def _kind(self, text: str) -> str:
        return text if text in _KINDS else str(self._new("kind", text, lambda n: f"Thing{n}"))

    def _typed(self, named: Mapping[str, str]) -> Document:
        group = named.get("group", "")
        made = {**named, "group": self._group(group)}
        if "version" in named:
            made["version"] = self._version(named["version"], group)
        if "kind" in named:
            made["kind"] = self._kind(named["kind"])
        if "resource" in named and group not in BUILTIN:
            made["resource"] = self._new("resource", named["resource"], lambda n: f"thing{n}s")
        return made

    def _user_info(self, info: Document) -> Document:
        made: Document = {"username": self._user(info.get("username", ""))}
        extra = {
            key: [self._named("process", value) for value in values]
            for key, values in (info.get("extra") or {}).items()
            if values and key.startswith(_EXTRA)
        }
        return {**made, "extra": extra} if extra else made

    def _options(self, options: Document) -> Document:
        made: Document = {
            key: options[key] for key in ("kind", "apiVersion", "force") if key in options
        }
        manager = options.get("fieldManager", "")
        if manager:
            is_known = manager in _words["managers"]
            made["fieldManager"] = manager if is_known else self._named("manager", manager)
        return made

    def _api_version(self, text: str) -> str:
        group, slash, version = text.rpartition("/")
        return f"{self._group(group)}{slash}{self._version(version, group)}"

    def _version(self, text: str, group: str) -> str:
        is_known = group in BUILTIN and _VERSION.fullmatch(text)
        return text if is_known else str(self._new("version", text, lambda n: f"v{n}"))

    def _value(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """Return a value of an object; `path` holds the names that lead to it, no indexes."""
        if isinstance(value, dict):
            return {
                self._key(key, path): self._value(inner, (*path, key))
                for key, inner in value.items()
                if (*path, key) != ("metadata", "managedFields")
            }
        if isinstance(value, list):
            return [self._value(item, path) for item in value]
        if isinstance(value, str):
            return self._text(value, path)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_generation = path[-1] in ("observedGeneration", "generation")
        if is_number and abs(value) > _LARGEST and not is_generation:
            return self._new("number", value, lambda n: _LARGEST + n)
        return value

    def _is_of_kubernetes(self, path: tuple[str, ...]) -> bool:
        return self._is_builtin or path[:1] == ("metadata",)

    def _key(self, key: str, path: tuple[str, ...]) -> str:
        is_deep = not _DEEP.isdisjoint(path[:-1])
        is_free = is_deep or (bool(path) and path[-1] in _words["maps"])
        if is_free or (self._is_of_kubernetes(path) and not _PLAIN.fullmatch(key)):
            if key in _words["keys"] and not is_deep:
                return key
            return f"{'example.org/' if '/' in key else ''}{self._named('key', key)}"
        if self._is_of_kubernetes(path) or key in _words["fields"]:
            return key
        return str(self._new("field", key, lambda n: f"field{n}"))

    def _text(self, value: str, path: tuple[str, ...]) -> str:
        if not value:
            return value
        make = self._identities.get(path) or self._identities.get(path[-1:])
        if make:
            return make(value)
        if value in self._versions:
            return self._versions[value]
        if _TIME.fullmatch(value):
            with suppress(ValueError, OverflowError):  # as of no month, or of year 1
                return self._time(value)
        if _is_known(value, path, of_kubernetes=self._is_of_kubernetes(path)):
            return value
        name = path[-1]
        if name in ("type", "reason") and _WORD.fullmatch(value):
            return str(self._new("word", value, lambda n: f"Word{n}"))
        named = self._known.get("object", {}).get(value) if name == "name" else None
        new = str(named or self._continued(value))
        return f"example.org/{new}" if name == "finalizers" else new

    def _continued(self, value: str) -> str:
        """Return another text; one that goes on with a known text does so as well."""
        known, made, rest = self._known.setdefault("value", {}), "", value
        while rest and rest not in known:
            begun = max(filter(rest.startswith, known), key=len, default="")
            if not begun:
                break
            made, rest = made + known[begun], rest.removeprefix(begun)
        if rest:
            made += self._named("value", rest)
        return str(known.setdefault(value, made))

    def _uid(self, text: str) -> str:
        return str(self._new("uid", text, lambda n: f"00000000-0000-4000-8000-{n:012}"))

    def _time(self, text: str) -> str:
        at = _BEGIN + timedelta(seconds=round((moment(text) - self._first).total_seconds(), 6))
        return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _is_known(value: str, path: Sequence[str], *, of_kubernetes: bool) -> bool:
    """Whether a text is one of few that Kubernetes knows: `RollingUpdate`, `True`, `Ready`."""
    if path[-1] == "type" and value in _words["condition_types"]:
        return True
    if path[-1] == "status" and value in _words["words"]:
        return True
    is_quantity = bool(_QUANTITY.fullmatch(value))
    if not of_kubernetes or not {*path}.isdisjoint(_words["maps"] | _words["texts"]):
        return of_kubernetes and path[-1] in _words["keys"] and is_quantity
    return "conditions" not in path and (value in _words["words"] or is_quantity)
