"""The command line of every server of a control plane, from Options and file paths alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.options import Options

STAGES = Path(__file__).parent / "kwok"
_POD_CIDR = "10.244.0.0/16"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one control plane keeps its files and where its API server listens."""

    folder: Path
    port: int
    audit: str = "audit.log"
    """Of one API server: two of them would write over each other."""

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self.port}"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig file of one of the users of the token file."""
        return self.folder / f"{user}.kubeconfig"

    @property
    def etcd_socket(self) -> str:
        """etcd listens on a unix socket, a file of this name in the folder that is everyone's
        working directory; etcd insists on something that looks like a host and a port."""
        return "unix://etcd:2379"


def etcd(at: Layout) -> list[str]:
    """etcd for data that nobody will miss."""
    peer = "unix://etcd:2380"
    return [
        f"--data-dir={at.folder}/etcd",
        f"--listen-client-urls={at.etcd_socket}",
        f"--advertise-client-urls={at.etcd_socket}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync=true",
        "--log-level=warn",
    ]


def apiserver(at: Layout, options: Options) -> list[str]:
    """kube-apiserver with RBAC, static tokens and every admission plugin that can work."""
    off = list(options.admission_off)
    if not options.controller_manager:
        # Nobody makes the service accounts that the first would wait for, and nobody lifts the
        # taint that the second puts on a new node.
        off += ["ServiceAccount", "TaintNodesByCondition"]
    flags = [
        f"--etcd-servers={at.etcd_socket}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={at.port}",
        "--permit-port-sharing=true",  # the port is already bound, see ports.py
        f"--tls-cert-file={at.folder}/apiserver.crt",
        f"--tls-private-key-file={at.folder}/apiserver.key",
        f"--token-auth-file={at.folder}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={at.folder}/service-accounts.key",
        f"--service-account-key-file={at.folder}/service-accounts.key",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--endpoint-reconciler-type=none",  # 127.0.0.1 is no endpoint address
        "--allow-privileged=true",
        "--profiling=false",
    ]
    if options.admission_on:
        flags.append(f"--enable-admission-plugins={','.join(options.admission_on)}")
    if off:
        flags.append(f"--disable-admission-plugins={','.join(off)}")
    if options.runtime_config:
        flags.append(f"--runtime-config={_pairs(options.runtime_config)}")
    if options.audit_level is not None:
        flags.append(f"--audit-policy-file={at.folder}/audit-policy.yaml")
        flags.append(f"--audit-log-path={at.folder}/{at.audit}")
        flags.append("--audit-log-mode=blocking-strict")  # a reader never misses its own write
    return flags + _release(options) + list(options.apiserver_flags)


def controller_manager(at: Layout, options: Options) -> list[str]:
    """kube-controller-manager; each controller has its own service account, as usual."""
    flags = [
        f"--kubeconfig={at.kubeconfig('kube-controller-manager')}",
        "--secure-port=0",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={at.folder}/service-accounts.key",
        f"--root-ca-file={at.folder}/ca.crt",
        f"--cluster-signing-cert-file={at.folder}/ca.crt",
        f"--cluster-signing-key-file={at.folder}/ca.key",
        "--allocate-node-cidrs=true",
        f"--cluster-cidr={_POD_CIDR}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]
    return flags + _release(options) + list(options.controller_manager_flags)


def scheduler(at: Layout, options: Options) -> list[str]:
    """kube-scheduler with its default profile."""
    flags = [
        f"--kubeconfig={at.kubeconfig('kube-scheduler')}",
        "--secure-port=0",
        "--leader-elect=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
    ]
    return flags + _release(options) + list(options.scheduler_flags)


def kwok(at: Layout, options: Options) -> list[str]:
    """kwok in the place of every node's kubelet, playing the stages of the folder kwok/."""
    stages = [f"--config={path}" for path in sorted(STAGES.glob("*.yaml"))]
    if not _pods_are_observed(options):
        stages.remove(f"--config={STAGES}/pod-observe.yaml")
        stages.remove(f"--config={STAGES}/pod-terminating.yaml")
    return [
        f"--kubeconfig={at.kubeconfig('kwok')}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        f"--cidr={_POD_CIDR}",
        *stages,
        *options.kwok_flags,
    ]


def _pods_are_observed(options: Options) -> bool:
    """With the gate off the API server drops the number, and a kubelet does not write it."""
    default = options.emulated_version != "1.33"
    return options.feature_gates.get("PodObservedGenerationTracking", default)


def _release(options: Options) -> list[str]:
    """What every Kubernetes component must be told alike."""
    flags = []
    if options.emulated_version is not None:
        flags.append(f"--emulated-version={options.emulated_version}")
    if options.feature_gates:
        gates = {name: str(on).lower() for name, on in options.feature_gates.items()}
        flags.append(f"--feature-gates={_pairs(gates)}")
    return flags


def _pairs(values: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items())
