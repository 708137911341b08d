"""Registers a running genguard with an API server as manifests/base does, in one namespace."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import yaml

from tests.controlplane.client import wait_until
from tests.controlplane.fixtures import WORKER, unique
from tests.controlplane.plane import ControlPlane
from tests.e2e.genguard import ROOT, Genguard

PHASES = ("intent", "mutate", "outcome")
INTENT, MUTATE, OUTCOME = (f"{phase}.genguard.io" for phase in PHASES)
_MANIFESTS = ROOT / "manifests" / "base" / "registrations"
_API = "/apis/admissionregistration.k8s.io/v1"
PROBE_LABEL = "genguard.io/e2e-probe"

Rule = Mapping[str, Any]


def rule(resources: Sequence[str], operations: Sequence[str] = ("*",), group: str = "*") -> Rule:
    """More for the registrations to watch than the manifests say."""
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": list(resources),
        "operations": list(operations),
    }


@contextmanager
def registered(
    plane: ControlPlane,
    namespace: str,
    guard: Genguard,
    *,
    phases: Collection[str] = PHASES,
    rules: Sequence[Rule] = (),
    suffix: str = WORKER,
    **settings: Any,
) -> Iterator[dict[str, str]]:
    """What users install, for one namespace; returns when the API server calls every phase.

    Yields the name of each phase's configuration, which ends in `suffix`, by default in what
    each worker of a run has once. `settings` replace fields of its webhooks.
    """
    names: dict[str, str] = {}
    probe = unique("probe")
    with ExitStack() as undo:
        for phase, found in _installed(plane).items():
            if phase not in phases:
                continue
            path = f"{_API}/{found['kind'].lower()}s"
            names[phase] = found["metadata"]["name"] + suffix
            hook, *others = (
                _diverted(one, guard, namespace, settings) for one in found["webhooks"]
            )
            assert hook["name"] == f"{phase}.genguard.io"
            probing = {
                "name": f"probe.{hook['name']}",
                "rules": [rule(["configmaps"], ["CREATE"])],
                "objectSelector": {"matchLabels": {PROBE_LABEL: probe}},
            }
            hooks = [hook | {"rules": [*hook["rules"], *rules]}, *others, hook | probing]
            body = {"metadata": {"name": names[phase]}, "webhooks": hooks}
            plane.client.post(path, body)
            undo.callback(plane.client.delete, f"{path}/{names[phase]}")
        wait_until(lambda: called(plane, namespace, guard, probe, names), what="genguard called")
        yield names


def _installed(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    """The three configurations of manifests/base by phase."""
    documents = yaml.safe_load_all(plane.kubectl("kustomize", str(_MANIFESTS)).stdout)
    found = {one["webhooks"][0]["clientConfig"]["service"]["path"][1:]: one for one in documents}
    assert found.keys() == set(PHASES)
    return found


def _diverted(
    hook: dict[str, Any], guard: Genguard, namespace: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """An installed webhook, diverted to a process and a namespace."""
    at = hook["clientConfig"]["service"]["path"][1:]
    return {
        **hook,
        "clientConfig": {"url": guard.url(at), "caBundle": guard.ca_bundle},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        # The most that there is: a call that a slow machine gives up is not seen.
        "timeoutSeconds": 30,
        **settings,
    }


def called(
    plane: ControlPlane, namespace: str, guard: Genguard, probe: str, phases: Collection[str]
) -> bool:
    """Whether the API server goes by registrations that call for this value of PROBE_LABEL."""

    # The API server learns of a configuration some time after it has stored it, and of all its
    # webhooks at once: when one answers a dry run, so would the other.
    def counts() -> list[float]:
        name = "genguard_reviews_total"
        return [guard.metric(name, phase=phase, resource="configmaps") for phase in phases]

    before = counts()
    body = {"metadata": {"name": probe, "labels": {PROBE_LABEL: probe}}}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    plane.client.post(path, body, params={"dryRun": "All"})
    return all(after > then for after, then in zip(counts(), before, strict=True))
