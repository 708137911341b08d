"""What a release of k8s.io/kubernetes says of its kinds: its files, no server.

Reads    api/discovery and api/openapi-spec/swagger.json, which Kubernetes
         writes with every API served; the strategies in pkg/registry; the list of feature gates in
         test/compatibility_lifecycle; types.go of k8s.io/api.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import yaml

from genguard.generation.table import Row

KUBERNETES: Final = "k8s.io/kubernetes"
_STAGED: Final = ("k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator")
"""Modules of the same release that hold types and the strategies of two kinds."""
_STAGING: Final = "staging/src/"
_OBSERVED: Final = "observedGeneration"
_SETS_ONE: Final = re.compile(r"\.(?:Generation = 1\b|SetGeneration\(1\))")
_COUNTS: Final = re.compile(r"\.Generation(?:\+\+| = .*Generation \+ 1\b)")
_GATE: Final = re.compile(r"Enabled\(features\.(\w+)\)")
_REFUSES_TO_CLEAR: Final = re.compile(
    r"\+k8s:update=NoUnset(?:\s*//[^\n]*\n)*\s*ObservedGeneration\s"
)
_NEEDED: Final = re.compile(r"^\t(\w+): +\{([\w., ()]+)\},$", re.MULTILINE)
"""A gate and those that it depends on, in the list of features."""
_WORD: Final = re.compile(r"\b[A-Z]\w+")
_FEATURES: Final = "pkg/features/kube_features.go"
_GATES: Final = "test/compatibility_lifecycle/reference/versioned_feature_list.yaml"
_DEEPEST: Final = 12


class NoReleaseError(Exception):
    """The Go module cannot be read; the message says which, and why."""


@dataclass(frozen=True, slots=True)
class PublishedKind:
    """One resource of a release, with every API served."""

    group: str
    resource: str
    kind: str
    versions: tuple[str, ...]
    namespaced: bool
    short_names: tuple[str, ...]
    subresources: frozenset[str]
    persisted: bool
    observed_generation: tuple[str, ...]
    """Fields of its status that hold one, `status.conditions[].observedGeneration`."""

    @property
    def name(self) -> str:
        """As kubectl writes it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class StrategyCode:
    """What the text of a kind's strategy does with metadata.generation."""

    sets_one: bool
    counts: bool


class Release:
    """The files of one release."""

    def __init__(self, version: str, folders: Mapping[str, Path]) -> None:
        self.version: Final = version
        self._folders: Final = folders

    @property
    def minor(self) -> str:
        """`1.37` of v1.37.2."""
        return ".".join(self.version.removeprefix("v").split(".")[:2])

    @property
    def go_mod(self) -> str:
        """The text of its go.mod."""
        return (self._folders[KUBERNETES] / "go.mod").read_text()

    @property
    def controllers(self) -> Path:
        """The folder of the sources of its controllers."""
        return self._folders[KUBERNETES] / "pkg" / "controller"

    @cached_property
    def kinds(self) -> dict[str, PublishedKind]:
        """By name, as kubectl writes it."""
        found: dict[str, PublishedKind] = {}
        for group, versions in self._discovered():
            for name, entries in _by_resource(versions).items():
                kind = self._kind(group, name, entries)
                found[kind.name] = kind
        return found

    @cached_property
    def gates_of_kinds(self) -> dict[str, bool]:
        """The gates that are off, without which some resource is not served: all of them on."""
        kubernetes = self._folders[KUBERNETES]
        listed = yaml.load((kubernetes / _GATES).read_text(), Loader=yaml.CSafeLoader)
        off = {one["name"] for one in listed if not one["versionedSpecs"][-1]["default"]}
        needed = {
            name: _WORD.findall(others)
            for name, others in _NEEDED.findall((kubernetes / _FEATURES).read_text())
        }
        storages = kubernetes.glob("pkg/registry/*/rest/*.go")
        asked = [gate for path in storages for gate in _GATE.findall(path.read_text())]
        found: set[str] = set()
        while asked:
            gate = asked.pop()
            if gate in off and gate not in found:
                found.add(gate)
                asked += needed.get(gate, ())
        return dict.fromkeys(sorted(found), True)

    def strategy(self, source: str) -> StrategyCode | None:
        """What the file that a row of the table names does; None where there is no such file."""
        path = self._path(source.partition(" + ")[0])
        if not source or not path.is_file():
            return None
        text = path.read_text()
        return StrategyCode(bool(_SETS_ONE.search(text)), bool(_COUNTS.search(text)))

    def _path(self, source: str) -> Path:
        """Where a file of the repository of Kubernetes is, whose staging folder is modules here."""
        inside = source.removeprefix(_STAGING)
        for module in _STAGED:
            if inside != source and inside.startswith(f"{module}/"):
                return self._folders[module] / inside.removeprefix(f"{module}/")
        return self._folders[KUBERNETES] / source

    def guess_source(self, kind: PublishedKind) -> str:
        """The strategy file of a kind that the table does not have yet, "" if it is not found."""
        registry = self._folders[KUBERNETES] / "pkg" / "registry"
        for path in sorted(registry.glob(f"*/{kind.kind.lower()}/strategy.go")):
            return str(path.relative_to(self._folders[KUBERNETES]))
        return ""

    def refuses_to_clear(self, kind: PublishedKind) -> bool:
        """Whether the types say that status.observedGeneration must not be removed."""
        package = kind.group.partition(".")[0] or "core"
        for version in kind.versions:
            path = self._folders["k8s.io/api"] / package / version / "types.go"
            if path.is_file() and _REFUSES_TO_CLEAR.search(
                _struct(path.read_text(), f"{kind.kind}Status")
            ):
                return True
        return False

    def _discovered(self) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
        """Yield each group with its versions, the preferred one first."""
        groups: dict[str, list[Mapping[str, Any]]] = {}
        folder = self._folders[KUBERNETES] / "api" / "discovery"
        for path in folder.glob("*__*.json"):
            served = json.loads(path.read_text())
            if served["kind"] != "APIResourceList":
                continue
            group, _, version = served["groupVersion"].rpartition("/")
            resources = list(_nested(served["resources"]))
            groups.setdefault(group, []).append({"version": version, "resources": resources})
        for group, versions in sorted(groups.items()):
            yield group, sorted(versions, key=lambda one: preference(one["version"]))

    def _kind(self, group: str, resource: str, entries: list[tuple[str, Any]]) -> PublishedKind:
        first = entries[0][1]
        versions = tuple(version for version, _ in entries)
        observed = {
            path for version in versions for path in self._observed(group, version, first["kind"])
        }
        return PublishedKind(
            group=group,
            resource=resource,
            kind=first["kind"],
            versions=versions,
            namespaced=first["namespaced"],
            short_names=tuple(first.get("shortNames", ())),
            subresources=frozenset(name for _, entry in entries for name in entry["subresources"]),
            persisted={"create", "get", "delete"} <= set(first["verbs"]),
            observed_generation=tuple(sorted(observed)),
        )

    @cached_property
    def schemas(self) -> dict[str, Any]:
        """The definitions of its OpenAPI document, by name."""
        path = self._folders[KUBERNETES] / "api" / "openapi-spec" / "swagger.json"
        return json.loads(path.read_text())["definitions"]

    @cached_property
    def _roots(self) -> dict[tuple[str, str, str], str]:
        return {
            (one["group"], one["version"], one["kind"]): name
            for name, schema in self.schemas.items()
            for one in schema.get("x-kubernetes-group-version-kind", ())
        }

    def definitions(self, row: Row) -> frozenset[str]:
        """The names of the schemas of a kind, one of each version."""
        kind = (row.group, row.kind)
        return frozenset(name for at, name in self._roots.items() if at[::2] == kind)

    def _observed(self, group: str, version: str, kind: str) -> Iterator[str]:
        root = self.schemas.get(self._roots.get((group, version, kind), ""), {})
        status = root.get("properties", {}).get("status")
        if status is not None:
            yield from self._observed_below(status, "status", 0)

    def _observed_below(self, schema: Any, path: str, depth: int) -> Iterator[str]:
        if depth > _DEEPEST:
            return
        if "$ref" in schema:
            schema = self.schemas[schema["$ref"].rpartition("/")[2]]
        if "items" in schema:
            yield from self._observed_below(schema["items"], f"{path}[]", depth + 1)
        for key, value in schema.get("properties", {}).items():
            if key == _OBSERVED:
                yield f"{path}.{key}"
            else:
                yield from self._observed_below(value, f"{path}.{key}", depth + 1)


def find_release(version: str, also: Sequence[str] = _STAGED) -> Release:
    """Read a release by its Go modules, which the go command downloads. Raises NoReleaseError."""
    plain = version.removeprefix("v")
    staged = f"v0.{plain.partition('.')[2]}"
    folders = {KUBERNETES: _download(KUBERNETES, f"v{plain}")}
    folders |= {name: _download(name, staged) for name in also}
    return Release(f"v{plain}", folders)


def _download(module: str, version: str) -> Path:
    go = shutil.which("go")
    if go is None:
        raise NoReleaseError("there is no go command on PATH")
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{module}@{version}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    try:
        told = json.loads(done.stdout)
    except json.JSONDecodeError:
        told = {"Error": done.stderr.strip()}
    if "Dir" not in told:
        raise NoReleaseError(f"{module}@{version}: {told.get('Error', 'not found')}")
    return Path(told["Dir"])


def preference(version: str) -> tuple[bool, bool, list[int]]:
    """Sort API versions as the API server prefers them: v2, v1, v1beta2, v1alpha1."""
    numbers = [-int(one) for one in re.findall(r"[0-9]+", version)]
    return "alpha" in version, "beta" in version, numbers


def _by_resource(versions: list[Mapping[str, Any]]) -> dict[str, list[tuple[str, Any]]]:
    found: dict[str, list[tuple[str, Any]]] = {}
    for version in versions:
        for entry in version["resources"]:
            found.setdefault(entry["name"], []).append((version["version"], entry))
    return found


def _nested(resources: list[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the resources of an APIResourceList, each with the names of its subresources."""
    for one in resources:
        name = one["name"]
        if "/" not in name:
            others = (other["name"] for other in resources)
            below = [other.partition("/")[2] for other in others if other.startswith(f"{name}/")]
            yield {**one, "subresources": below}


def _struct(text: str, name: str) -> str:
    """The text of one Go struct, "" if it is not there."""
    start = text.find(f"type {name} struct {{")
    return "" if start < 0 else text[start : text.index("\n}", start)]
