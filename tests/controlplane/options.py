"""What a control plane is made of: the choices a caller has, with defaults that start fastest."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Chooses versions, features and parts; the default is etcd and an API server alone."""

    minor: str | None = None
    """The API server of another minor, a folder of tests/versions; the rest stays as it is."""

    emulated_version: str | None = None
    """Behave as this release, `major.minor`; the binary goes back three minors."""

    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    """For every component."""

    runtime_config: Mapping[str, str] = field(default_factory=dict)
    """Of the API server: `{"api/all": "true"}` serves every API that its gate allows."""

    admission_on: tuple[str, ...] = ()
    admission_off: tuple[str, ...] = ()
    """In-tree admission plugins on top of Kubernetes' defaults."""

    controller_manager: bool = False
    scheduler: bool = False

    kwok_nodes: int = 0
    """Nodes without machines. Annotations of a pod, each a duration such as `500ms`, say what its
    containers do: `genguard.io/test-ready-after`, `genguard.io/test-completes-after` (with
    `genguard.io/test-exit-code`) and `genguard.io/test-terminates-after`."""

    audit_level: str | None = None
    """Metadata, Request or RequestResponse: writes every request to `ControlPlane.audit_log`."""

    apiserver_flags: tuple[str, ...] = ()
    controller_manager_flags: tuple[str, ...] = ()
    scheduler_flags: tuple[str, ...] = ()
    kwok_flags: tuple[str, ...] = ()
    """Appended last, so they win over what is set here."""

    start_timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.kwok_nodes < 0:
            raise ValueError(f"kwok_nodes is {self.kwok_nodes}; it must not be negative")
        if self.audit_level not in (None, "Metadata", "Request", "RequestResponse"):
            raise ValueError(f"audit_level {self.audit_level!r} is not a level of audit.k8s.io/v1")


EVERY_API = Options(
    runtime_config={"api/all": "true"},
    # The gates without which a persisted resource of Kubernetes 1.36 is not served.
    feature_gates={
        "ClusterTrustBundle": True,
        "CoordinatedLeaderElection": True,
        "DRADeviceTaintRules": True,
        "DRADeviceTaints": True,
        "DRAResourcePoolStatus": True,
        "GenericWorkload": True,
        "PodCertificateRequest": True,
        "StorageVersionAPI": True,
        "StorageVersionMigrator": True,
    },
)
"""Every persisted resource of the release is served."""

AUDITED = Options(audit_level="RequestResponse")
"""What clients ask and what is answered is in the audit log."""

FULL_CLUSTER = Options(
    controller_manager=True, scheduler=True, kwok_nodes=3, audit_level="Metadata"
)
"""Workloads run: controllers, scheduler and nodes whose pods become ready. What webhooks say of a
request is in the audit log."""
