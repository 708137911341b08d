"""Replaces the names and values of a recording: it goes to another team or company.

Kept are the words of Kubernetes (its kinds, fields, well-known users, field managers and condition
types), small numbers, booleans and generations. All else is replaced: one name always by the same
one, an older resourceVersion by a lower one, a text that continues another by one that does so too.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any, Final

import msgspec

from genguard.formats.documents import load_document
from genguard.generation.table import load_rows
from genguard.reproduce.recorded import Document, RecordedWrite, moment, objects_of, request_of

KEPT_SORTS: Final = ("users", "names", "field names", "keys", "values", "numbers")
"""What is replaced, in sorts: where the finding needs one of them as it was, it stays."""
_BUILTIN: Final = frozenset(row.group for row in load_rows())
_KINDS: Final = frozenset(row.kind for row in load_rows())
_EXTRA: Final = "authentication.kubernetes.io/"
"""What the keys of userInfo.extra begin with that the API server itself sets."""
_OPTIONS: Final = ("kind", "apiVersion", "force")
_QUANTITY: Final = re.compile(r"[0-9]{1,3}([numkMGTP]i?|%)?")
_WORD: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_LARGEST: Final = 1_000
_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_ACCOUNT: Final = "system:serviceaccount:"
_OF_SYSTEM: Final = "system:serviceaccount:kube-system:"
_NODE: Final = "system:node:"
_PLAIN: Final = re.compile(r"[a-z][A-Za-z0-9]*|x-kubernetes-[a-z-]+")
"""The name of a field of a built-in kind."""


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words of kept.yaml, which explains them."""

    fields: str
    maps: str
    texts: str
    condition_types: str
    accounts: str
    users: str
    managers: str
    keys: str
    words: str


_words: Final = msgspec.convert(
    load_document(resources.files("genguard.reproduce").joinpath("kept.yaml").read_bytes()), _Kept
)
_FIELDS: Final = frozenset(_words.fields.split())
_MAPS: Final = frozenset(_words.maps.split())
_TEXTS: Final = frozenset(_words.texts.split())
_CONDITION_TYPES: Final = frozenset(_words.condition_types.split())
_USERS: Final = frozenset(
    [*_words.users.split(), *(f"{_OF_SYSTEM}{one}" for one in _words.accounts.split())]
)
_MANAGERS: Final = frozenset(_words.managers.split())
_KEYS: Final = frozenset(_words.keys.split())
_WORDS: Final = frozenset(_words.words.split())


class Anonymous:
    """Replaces what one recording says; the same thing always by the same name."""

    def __init__(self, writes: Sequence[RecordedWrite], kept: Iterable[str] = ()) -> None:
        """`kept` are the sorts, of KEPT_SORTS, that stay as they are."""
        self._kept: Final = frozenset(kept)
        self._known: Final[dict[str, dict[Any, Any]]] = {}
        lines = [line for write in writes for line in write]
        versions = {
            int(one["metadata"]["resourceVersion"])
            for line in lines
            for one in objects_of(line)
            if str((one.get("metadata") or {}).get("resourceVersion", "")).isdecimal()
        }
        self._versions: Final = {str(v): str(n) for n, v in enumerate(sorted(versions), start=1)}
        self._first: Final = min((moment(line["time"]) for line in lines), default=_BEGIN)
        self.writes: Final = [tuple(map(self._line, write)) for write in writes]

    def _line(self, line: Document) -> Document:
        request = request_of(line)
        made: Document = {key: request[key] for key in ("operation", "dryRun") if key in request}
        group = request["resource"].get("group", "")
        made["uid"] = self._uid(request.get("uid", ""))
        for key in ("kind", "resource", "requestKind", "requestResource"):
            if key in request:
                made[key] = self._typed(request[key])
        for key in ("subResource", "requestSubResource"):
            if key in request:
                made[key] = request[key]
        if request.get("name"):
            made["name"] = self.name(request["name"])
        if request.get("namespace"):
            made["namespace"] = self.namespace(request["namespace"])
        made["userInfo"] = self._user_info(request.get("userInfo") or {})
        if request.get("options"):
            made["options"] = self._options(request["options"])
        for key in ("object", "oldObject"):
            if key in request:
                made[key] = request[key] and self._object(request[key], group)
        review = {
            key: line["review"][key] for key in ("kind", "apiVersion") if key in line["review"]
        }
        return {
            "time": self._time(line["time"]),
            "phase": line["phase"],
            "review": {**review, "request": made},
        }

    def name(self, text: str) -> str:
        """Return the name of an object."""
        return str(self._new("names", "object", text, lambda n: f"object-{n}"))

    def namespace(self, text: str) -> str:
        """Return a namespace; the first is `default`, which every cluster has."""
        return str(self._new("names", "namespace", text, _namespace))

    def user(self, text: str) -> str:
        """Return the name of a user; it stays a service account, or a node."""
        if text in _USERS:
            return text
        if text.startswith(_ACCOUNT) and text.count(":") == 3:  # noqa: PLR2004 - of four parts
            namespace, account = text.removeprefix(_ACCOUNT).split(":")
            named = self._new("users", "account", account, lambda n: f"account-{n}")
            return f"{_ACCOUNT}{self.namespace(namespace)}:{named}"
        if text.startswith(_NODE):
            node = self._new("users", "node", text[len(_NODE) :], lambda n: f"node-{n}")
            return f"{_NODE}{node}"
        return str(self._new("users", "user", text, lambda n: f"user-{n}"))

    def group(self, text: str) -> str:
        """Return an API group; those of Kubernetes stay."""
        if is_builtin(text):
            return text
        return str(self._new("names", "group", text, _group))

    def resource(self, group: str, text: str) -> str:
        """Return the plural of a resource; those of Kubernetes stay."""
        if is_builtin(group):
            return text
        return str(self._new("names", "resource", text, lambda n: f"thing{n}s"))

    def _kind(self, group: str, text: str) -> str:
        if is_builtin(group) and text in (*_KINDS, "Scale"):
            return text
        return str(self._new("names", "kind", text, lambda n: f"Thing{n}"))

    def _typed(self, named: Mapping[str, str]) -> Document:
        group = named.get("group", "")
        made = dict(named)
        made["group"] = self.group(group)
        if "kind" in named:
            made["kind"] = self._kind(group, named["kind"])
        if "resource" in named:
            made["resource"] = self.resource(group, named["resource"])
        return made

    def _user_info(self, info: Document) -> Document:
        made: Document = {"username": self.user(info.get("username", ""))}
        extra = {
            key: [self._new("users", "process", one, lambda n: f"process-{n}") for one in values]
            for key, values in (info.get("extra") or {}).items()
            if values and key.startswith(_EXTRA)
        }
        if extra:
            made["extra"] = extra
        return made

    def _options(self, options: Document) -> Document:
        made: Document = {key: options[key] for key in _OPTIONS if key in options}
        manager = options.get("fieldManager", "")
        if manager:
            new = self._new("users", "manager", manager, lambda n: f"manager-{n}")
            made["fieldManager"] = manager if manager in _MANAGERS else new
        return made

    def _object(self, document: Document, group: str) -> Document:
        made: Document = {}
        of_kubernetes = is_builtin(group)
        for key, value in document.items():
            if key == "apiVersion":
                made[key] = self._api_version(str(value))
            elif key == "kind":
                made[key] = self._kind(group, value)
            elif key == "metadata":
                made[key] = self._metadata(value or {})
            else:
                name = key if of_kubernetes or key in _FIELDS else self._field(key)
                made[name] = self._value(value, (key,), of_kubernetes=of_kubernetes)
        return made

    def _api_version(self, text: str) -> str:
        group, slash, version = text.rpartition("/")
        return f"{self.group(group)}{slash}{version}"

    def _metadata(self, metadata: Document) -> Document:
        made = {}
        for key, value in metadata.items():
            if not value:
                made[key] = value
            elif key in ("name", "generateName"):
                made[key] = self.name(value)
            elif key == "namespace":
                made[key] = self.namespace(value)
            elif key == "uid":
                made[key] = self._uid(value)
            elif key == "resourceVersion":
                made[key] = self._versions.get(str(value), "1")
            elif key == "generation":
                made[key] = value
            elif key != "managedFields":
                made[key] = self._value(value, ("metadata", key), of_kubernetes=True)
        return made

    def _value(self, value: Any, path: Sequence[str], *, of_kubernetes: bool) -> Any:
        if isinstance(value, dict):
            return {
                self._name_of(key, path, of_kubernetes=of_kubernetes): self._value(
                    one, (*path, key), of_kubernetes=of_kubernetes
                )
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self._value(one, path, of_kubernetes=of_kubernetes) for one in value]
        if isinstance(value, str):
            return self._text(value, path, of_kubernetes=of_kubernetes)
        is_generation = path[-1] in ("observedGeneration", "generation")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and abs(value) > _LARGEST and not is_generation:
            return self._new("numbers", "number", value, lambda n: _LARGEST + n)
        return value

    def _name_of(self, key: str, path: Sequence[str], *, of_kubernetes: bool) -> str:
        if path[-1] in _MAPS or (of_kubernetes and not _PLAIN.fullmatch(key)):
            if key in _KEYS:
                return key
            slash = "/" in key
            named = self._new("keys", "key", key, lambda n: f"key-{n}")
            return f"example.org/{named}" if slash and named != key else named
        return key if of_kubernetes or key in _FIELDS else self._field(key)

    def _field(self, key: str) -> str:
        return str(self._new("field names", "field", key, lambda n: f"field{n}"))

    def _text(self, value: str, path: Sequence[str], *, of_kubernetes: bool) -> str:
        name = path[-1]
        at = _time_or_none(value)
        if at is not None or value in self._versions:
            return self._versions.get(value) or self._time(value)
        if name == "uid":
            return self._uid(value)
        if name == "kind":
            return self._kind("", value)
        if name == "apiVersion":
            return self._api_version(value)
        if _is_known(value, path, of_kubernetes=of_kubernetes):
            return value
        if name in ("type", "reason") and _WORD.fullmatch(value):
            return str(self._new("values", "word", value, lambda n: f"Word{n}"))
        named = self._known.get("object", {}).get(value) if name == "name" else None
        new = str(named) if named else self._continued(value)
        return f"example.org/{new}" if name == "finalizers" and new != value else new

    def _continued(self, value: str) -> str:
        """Return another text; one that goes on with a known text does so as well."""
        if "values" in self._kept:
            return value
        known, made, rest = self._known.setdefault("value", {}), "", value
        while rest and rest not in known:
            begun = max((one for one in known if one and rest.startswith(one)), key=len, default="")
            if not begun:
                break
            made, rest = made + known[begun], rest.removeprefix(begun)
        if rest:
            made += str(self._new("values", "value", rest, lambda n: f"value-{n}"))
        return str(known.setdefault(value, made))

    def _new(self, sort: str, kind: str, key: Any, make: Callable[[int], Any]) -> Any:
        """Return what stands for a name or value; each kind of them is counted by itself."""
        if sort in self._kept:
            return key
        known = self._known.setdefault(kind, {})
        if key not in known:
            known[key] = make(len(known) + 1)
        return known[key]

    def _uid(self, text: str) -> str:
        known = self._known.setdefault("uids", {})
        return str(known.setdefault(text, f"00000000-0000-4000-8000-{len(known) + 1:012}"))

    def _time(self, text: str) -> str:
        at = _BEGIN + timedelta(seconds=round((moment(text) - self._first).total_seconds(), 6))
        return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _is_known(value: str, path: Sequence[str], *, of_kubernetes: bool) -> bool:
    """Whether a text is one of few that Kubernetes knows: `RollingUpdate`, `True`, `Ready`."""
    if not value or (path[-1] == "type" and value in _CONDITION_TYPES):
        return True
    if path[-1] == "status" and value in _WORDS:
        return True
    is_free = not of_kubernetes or not {*path}.isdisjoint(_MAPS | _TEXTS)
    if is_free:
        return of_kubernetes and path[-1] in _KEYS and _QUANTITY.fullmatch(value) is not None
    return "conditions" not in path and (value in _WORDS or bool(_QUANTITY.fullmatch(value)))


def is_builtin(group: str) -> bool:
    """Whether an API group is one of Kubernetes."""
    return group in _BUILTIN


def _namespace(number: int) -> str:
    return "default" if number == 1 else f"namespace-{number}"


def _group(number: int) -> str:
    return "example.org" if number == 1 else f"example-{number}.org"


def _time_or_none(text: str) -> datetime | None:
    """Return a time that a recording may have; None for any other text."""
    try:
        at = moment(text) if _TIME.fullmatch(text) else None
    except ValueError:
        return None
    return at if at and at.year > 1 else None
