"""Holds the table of kinds against a release of Kubernetes, and writes what is new into it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from genguard.generation.strategy import OnCreate
from genguard.generation.table import GenerationTable, Row, check_rows
from tools.versions.published import PublishedKind, Release, preference

_ASKED_WITHOUT_A_BODY: Final = frozenset({"attach", "exec", "log", "portforward", "proxy", "token"})
"""Subresources that change no object, so the table leaves them out."""
_READ: Final = "read the file: which fields count, and behind which gate"


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of a row that is not as the release has it."""

    name: str
    field: str
    table: Any
    release: Any
    note: str = ""

    def __str__(self) -> str:
        """`pods  versions: the table has v1, the release has v1, v2`."""
        told = f"{self.name}  {self.field}: the table has {_words(self.table)}, "
        told += f"the release has {_words(self.release)}"
        return f"{told} ({self.note})" if self.note else told


def differences(release: Release, table: GenerationTable) -> Iterator[Difference]:
    """Yield where the table of this version is not what the files of the release say."""
    rows = {row.name: row for row in table.rows}
    for name, kind in sorted(release.kinds.items()):
        row = rows.get(name)
        if row is None or not table.serves(row):
            yield Difference(name, "row", None, kind.kind, release.guess_source(kind))
        else:
            yield from _in_row(release, table, row, kind)
    for row in table.rows:
        if table.serves(row) and row.name not in release.kinds:
            yield Difference(row.name, "row", row.kind, None)


def _in_row(
    release: Release, table: GenerationTable, row: Row, kind: PublishedKind
) -> Iterator[Difference]:
    strategy = table.find(row.group, row.resource)
    assert strategy is not None
    for field, told, found in (
        ("kind", row.kind, kind.kind),
        ("namespaced", row.namespaced, kind.namespaced),
        ("persisted", row.persisted, kind.persisted),
        ("shortNames", set(row.short_names), set(kind.short_names)),
        ("versions", set(table.versions(row)), set(kind.versions)),
        (
            "subresources",
            set(strategy.subresources),
            set(kind.subresources - _ASKED_WITHOUT_A_BODY),
        ),
        ("observedGeneration", set(table.observed(row)), set(kind.observed_generation)),
    ):
        if told != found:
            yield Difference(row.name, field, told, found)
    refused = row.observed_kept is not None and row.observed_kept.how == "refused"
    if refused != release.refuses_to_clear(kind):
        yield Difference(row.name, "observedKept", refused, not refused, "+k8s:update=NoUnset")
    code = release.strategy(row.source)
    if code is None:
        yield Difference(row.name, "source", row.source, None, "no such file")
        return
    told = (strategy.on_create is OnCreate.ONE, bool(strategy.compare))
    if row.persisted and told != (code.sets_one, code.counts):
        has = {"sets 1": told[0], "counts": told[1]}
        found = {"sets 1": code.sets_one, "counts": code.counts}
        yield Difference(row.name, "behaviour", has, found, f"{row.source}: {_READ}")


def with_column(
    documents: Sequence[Mapping[str, Any]], release: Release, found: Sequence[Difference]
) -> list[dict[str, Any]]:
    """Return the rows with what the release has anew; what older servers have stays as it is.

    What only a person can read out of Go code is drafted: fields that count are `/spec`. A write to
    the server shows whether that is right. Raises BadTableError.
    """
    rows = [deepcopy(dict(one)) for one in documents]
    by_name = {_name(row): row for row in rows}
    minor = release.minor
    for one in found:
        kind, row = release.kinds.get(one.name), by_name.get(one.name)
        if row is None and kind is not None:
            rows.append(_drafted(kind, release))
        elif row is not None and kind is None:
            row["servedUntil"] = _before(minor)
        elif row is not None and kind is not None:
            _bring_up(row, kind, release, one.field)
    rows.sort(key=lambda row: (row["group"], row["resource"]))
    check_rows(tuple(msgspec.convert(row, Row) for row in rows))
    return rows


def _bring_up(row: dict[str, Any], kind: PublishedKind, release: Release, field: str) -> None:
    """Change one field of a row so that it also holds for the release."""
    minor = release.minor
    if field == "versions":
        gone = row.get("versionsUntil", {})
        new = [name for name in kind.versions if name not in row["versions"]]
        past = [name for name in row["versions"] if name not in kind.versions and name not in gone]
        row["versions"] = sorted([*new, *row["versions"]], key=preference)
        _tell(row, "versionsSince", dict.fromkeys(new, minor))
        _tell(row, "versionsUntil", dict.fromkeys(past, _before(minor)))
    elif field == "subresources":
        new = sorted(kind.subresources - _ASKED_WITHOUT_A_BODY - set(row["subresources"]))
        row["subresources"] |= dict.fromkeys(new, "keep")
        _tell(row, "subresourcesSince", dict.fromkeys(new, minor))
    elif field == "observedGeneration":
        new = [name for name in kind.observed_generation if name not in row["observedGeneration"]]
        row["observedGeneration"] = sorted([*row["observedGeneration"], *new])
        _tell(row, "observedSince", dict.fromkeys(new, minor))
    elif field == "observedKept":
        row["observedKept"] = _refusal(kind, release)
    elif field == "behaviour":
        entry = {**_behaviour(row["source"], release), "since": minor}
        row["behaviour"] = [*row["behaviour"], entry]
    elif field == "shortNames":
        row["shortNames"] = list(kind.short_names)
    elif field in ("kind", "namespaced", "persisted"):
        row[field] = getattr(kind, field)


def _drafted(kind: PublishedKind, release: Release) -> dict[str, Any]:
    source = release.guess_source(kind)
    row: dict[str, Any] = {
        "group": kind.group,
        "resource": kind.resource,
        "kind": kind.kind,
        "versions": list(kind.versions),
        "namespaced": kind.namespaced,
        "servedSince": release.minor,
        "enabledByDefault": False,
        "persisted": kind.persisted,
        "behaviour": [_behaviour(source, release) if kind.persisted else {"create": "none"}],
        "subresources": dict.fromkeys(sorted(kind.subresources - _ASKED_WITHOUT_A_BODY), "keep"),
        "delete": "finalizers" if kind.persisted else "none",
        "propagation": "background",
        "observedGeneration": list(kind.observed_generation),
        "source": source,
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if release.refuses_to_clear(kind):
        row["observedKept"] = _refusal(kind, release)
    return row


def _behaviour(source: str, release: Release) -> dict[str, Any]:
    code = release.strategy(source)
    entry: dict[str, Any] = {"create": "one" if code is not None and code.sets_one else "kept"}
    if code is not None and code.counts:
        entry |= {"compare": ["/spec"], "equality": "semantic"}
    return entry


def _refusal(kind: PublishedKind, release: Release) -> dict[str, str]:
    package = kind.group.partition(".")[0] or "core"
    source = f"staging/src/k8s.io/api/{package}/{kind.versions[0]}/types.go"
    return {"since": release.minor, "source": source, "how": "refused"}


def _tell(row: dict[str, Any], field: str, told: Mapping[str, str]) -> None:
    if told:
        row[field] = {**row.get(field, {}), **told}


def _before(minor: str) -> str:
    major, _, number = minor.partition(".")
    return f"{major}.{int(number) - 1}"


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['resource']}.{row['group']}" if row["group"] else str(row["resource"])


def written(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of kinds.json: a line for each row."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def _words(value: Any) -> str:
    if isinstance(value, set | frozenset):
        return ", ".join(sorted(value)) or "none"
    if isinstance(value, dict):
        return ", ".join(key for key, holds in value.items() if holds) or "nothing"
    return "none" if value is None else str(value)
