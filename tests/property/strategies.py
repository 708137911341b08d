"""Objects as clients, webhooks and nobody in their right mind would write them."""

from typing import Any

from hypothesis import strategies as st

from genguard.generation import CustomResource, StatusSubresource
from tests.reviews import KINDS

SMALL = st.integers(0, 3)
NAMES = st.sampled_from(["a", "b", "replicas", "a/b", "c~d", "", "é"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "1", "1000m", "1Gi", "2026-01-01T00:00:00Z", "\u2028"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)

CLEARED = st.sampled_from([0, None, ""])
GENERATIONS = st.integers(-1, 9).filter(bool) | st.sampled_from(["1", "7", "-1", 2**63 - 1])
FOREIGN = st.sampled_from([True, False, 1.0, 0.0, [], {}, "hash", 2**63, "9" * 30])
OBSERVED = CLEARED | GENERATIONS | FOREIGN
TYPES = st.sampled_from(["Ready", "Synced", "Ready ", ""])


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


CONDITIONS = st.lists(
    optional(type=TYPES, status=st.sampled_from(["True", "False"]), observedGeneration=OBSERVED),
    max_size=4,
)
STATUSES = optional(
    observedGeneration=OBSERVED, conditions=CONDITIONS, replicas=SMALL, phase=SCALARS
)
ODD_STATUSES = STATUSES | JSON | optional(observedGeneration=JSON, conditions=JSON)

ANNOTATIONS = st.dictionaries(
    st.sampled_from(["a", "genguard.io/probe"]),
    st.sampled_from(["", "1", "41", "many", "9" * 5_000, "٣"]),
    max_size=2,
)
METADATA = optional(
    generation=st.none() | st.integers(0, 5) | st.sampled_from([-1, 2**63 - 1]),
    annotations=st.none() | ANNOTATIONS,
    labels=st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
    finalizers=st.none() | st.lists(st.sampled_from(["a/b", "orphan", "foregroundDeletion"])),
    deletionTimestamp=st.none() | st.just("2026-01-01T00:00:00Z"),
)
_CONTAINERS = st.lists(
    optional(
        name=st.sampled_from("ab"),
        image=st.sampled_from("xy"),
        env=st.none() | st.just([]) | st.lists(optional(name=NAMES, value=NAMES), max_size=2),
        resources=optional(limits=st.dictionaries(st.sampled_from(["cpu"]), SCALARS)),
    ),
    max_size=2,
)
SPECS = optional(replicas=SMALL, containers=_CONTAINERS, template=JSON, paused=st.booleans())
OBJECTS = optional(metadata=METADATA, spec=SPECS | JSON, status=ODD_STATUSES, data=JSON)

PLAIN_RESOURCES = sorted(KINDS)
RESOURCES = st.sampled_from(
    [
        *PLAIN_RESOURCES,
        "gadgets.example.org",
        "networkpolicies.networking.k8s.io",
        "endpointslices.discovery.k8s.io",
        "csidrivers.storage.k8s.io",
        "priorityclasses.scheduling.k8s.io",
        "jobs.batch",
        "events",
        "namespaces",
        "tokenreviews.authentication.k8s.io",
    ]
)
SUBRESOURCES = st.sampled_from(
    ["", "", "status", "status", "scale", "resize", "ephemeralcontainers", "eviction", "odd"]
)
OPTIONS = st.none() | optional(
    propagationPolicy=st.sampled_from(["Orphan", "Foreground", "Background"]),
    orphanDependents=st.booleans(),
)
CUSTOM = st.sampled_from(
    [
        (),
        *[
            (CustomResource("example.org", "v1", "widgets", "Widget", status),)
            for status in (StatusSubresource.PRESENT, StatusSubresource.ABSENT)
        ],
    ]
)
