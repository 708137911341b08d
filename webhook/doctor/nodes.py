"""On which nodes the observedGeneration of pods can be trusted."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from genguard.generation.strategy import UnknownServerVersionError, parse_version
from webhook.doctor.facts import Facts
from webhook.doctor.result import CheckResult, Level, few

_GATE: Final = "feature gate PodObservedGenerationTracking"
_UNKNOWN: Final = "not known of {}, whose version is none of a kubelet"
# pkg/features/kube_features.go: off by default in 1.33, on in 1.34, always on since 1.35.
_UNTIL: Final = (
    ((1, 33), "never on {} (before 1.33): pods there have none, or an old one that stays"),
    ((1, 34), f"only with {_GATE} on {{}} (1.33)"),
    ((1, 35), f"unless {_GATE} is off on {{}} (1.34)"),
)
"""What is said of nodes before a version."""


def nodes(facts: Facts) -> Iterator[CheckResult]:
    """Say on which nodes kubelets write status.observedGeneration of pods."""
    if not facts.nodes:
        return
    by_text: defaultdict[str, list[str]] = defaultdict(list)
    for name, version in sorted(facts.nodes.items()):
        by_text[_doubt(version)].append(name)
    trusted = len(by_text.pop("", ()))
    parts = [f"observedGeneration of pods can be trusted on {trusted} of {len(facts.nodes)}"]
    parts += [text.format(few(names)) for text, names in by_text.items()]
    yield CheckResult(Level.OK, "nodes", "; ".join(parts))


def _doubt(version: str) -> str:
    """Return what is said of nodes with a kubelet of this version; "" where all is well."""
    try:
        reached = parse_version(version)
    except UnknownServerVersionError:
        return _UNKNOWN
    return next((text for until, text in _UNTIL if reached < until), "")
