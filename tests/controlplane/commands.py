"""The command line of every server of a control plane, from Options and file paths alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.controlplane.options import Options

STAGES = Path(__file__).parent / "kwok"
FLAGS = Path(__file__).with_name("flags.yaml")
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


def _flags(server: str, at: Layout) -> list[str]:
    """What flags.yaml says of a server."""
    values = {"folder": at.folder, "port": at.port, "pods": _POD_CIDR}
    values |= {"etcd": at.etcd_socket, "peer": "unix://etcd:2380"}
    return [flag.format_map(values) for flag in yaml.safe_load(FLAGS.read_text())[server]]


def etcd(at: Layout) -> list[str]:
    """etcd for data that nobody will miss."""
    return _flags("etcd", at)


def apiserver(at: Layout, options: Options) -> list[str]:
    """kube-apiserver with RBAC, static tokens and every admission plugin that can work."""
    off = list(options.admission_off)
    if not options.controller_manager:
        # Nobody makes the service accounts that the first would wait for, and nobody lifts the
        # taint that the second puts on a new node.
        off += ["ServiceAccount", "TaintNodesByCondition"]
    flags = _flags("kube-apiserver", at)
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
    flags = _flags("kube-controller-manager", at)
    return flags + _release(options) + list(options.controller_manager_flags)


def scheduler(at: Layout, options: Options) -> list[str]:
    """kube-scheduler with its default profile."""
    flags = _flags("kube-scheduler", at)
    return flags + _release(options) + list(options.scheduler_flags)


def kwok(at: Layout, options: Options) -> list[str]:
    """kwok in the place of every node's kubelet, playing the stages of the folder kwok/."""
    stages = [f"--config={path}" for path in sorted(STAGES.glob("*.yaml"))]
    if not _pods_are_observed(options):
        stages.remove(f"--config={STAGES}/pod-observe.yaml")
        stages.remove(f"--config={STAGES}/pod-terminating.yaml")
    return [*_flags("kwok", at), *stages, *options.kwok_flags]


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
