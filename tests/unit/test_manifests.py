"""The server's manifests: what each field is for, so that none is lost by an edit."""

import itertools
from typing import Any

import pytest
import yaml

from tests.unit.manifest_files import (
    MANIFESTS,
    container,
    documents,
    kustomization,
    pod_spec,
    registrations,
    server_objects,
    webhook_of,
)
from tools.published import current
from webhook.cli.publish_status import LEASE, publish_status
from webhook.cli.serve import serve
from webhook.cluster.standby import ACTIVE
from webhook.manifest.rendering import FINDINGS, REGISTRATIONS
from webhook.server.options import Limits

OBJECTS = server_objects()
VALKEY = {one["kind"]: one for one in documents(MANIFESTS / "valkey" / "server.yaml")}
DEPLOYMENT = OBJECTS["Deployment"]["spec"]


def at(document, path):
    """The value under a path of keys; None when a key is not there."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def kind_of(document):
    return document["kind"]


def parsed(args):
    """What `serve` makes of its arguments; an unknown flag or a bad value raises."""
    verb, *flags = args
    assert verb == serve.name
    return serve.make_context(verb, flags).params


@pytest.mark.parametrize(
    ("path", "value", "because"),
    [
        ("replicas", 2, "one pod sees every phase of a write, and another one stands by"),
        ("strategy.rollingUpdate.maxUnavailable", 0, "the new pod is ready before the old goes"),
        ("strategy.rollingUpdate.maxSurge", 1, "else maxUnavailable 0 could never roll out"),
        ("template.spec.priorityClassName", "system-cluster-critical", "outlives ordinary pods"),
        ("template.spec.enableServiceLinks", False, "variables that nobody reads"),
        ("template.spec.terminationGracePeriodSeconds", 70, "delay, drain, last answers"),
    ],
)
def test_the_deployment_keeps_answering(path, value, because):
    assert at(DEPLOYMENT, path) == value, because


def test_pods_are_told_to_end_later_than_the_server_needs():
    limits = Limits()
    (delay,) = [one for one in container()["args"] if one.startswith("--shutdown-delay=")]
    seconds = int(delay.removeprefix("--shutdown-delay=").removesuffix("s"))
    needed = seconds + limits.drain_seconds + limits.body_seconds
    assert needed + 5 <= pod_spec()["terminationGracePeriodSeconds"]


def test_pods_are_spread_over_zones_and_hosts_where_the_cluster_can():
    keys = {}
    for constraint in pod_spec()["topologySpreadConstraints"]:
        keys[constraint["topologyKey"]] = constraint["whenUnsatisfiable"]
        assert constraint["labelSelector"] == DEPLOYMENT["selector"]
        assert constraint["matchLabelKeys"] == ["pod-template-hash"]  # each rollout by itself
    assert keys == {
        "topology.kubernetes.io/zone": "ScheduleAnyway",
        "kubernetes.io/hostname": "ScheduleAnyway",
    }


def test_a_drain_takes_one_pod_at_a_time_and_is_never_blocked():
    assert OBJECTS["PodDisruptionBudget"]["spec"] == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": DEPLOYMENT["selector"],
    }


@pytest.mark.parametrize(
    ("probe", "path"), [("startup", "/livez"), ("liveness", "/livez"), ("readiness", "/readyz")]
)
def test_probes_ask_the_ops_port(probe, path):
    found = container()[f"{probe}Probe"]
    assert found["httpGet"] == {"path": path, "port": "ops"}


def test_memory_has_a_limit_and_the_cpu_has_none():
    resources = container()["resources"]
    assert set(resources["requests"]) >= {"cpu", "memory"}
    assert "memory" in resources["limits"]
    assert "cpu" not in resources["limits"], "throttled in a review is latency for a writer"


# https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted, and one more
@pytest.mark.parametrize("workload", [OBJECTS["Deployment"], VALKEY["StatefulSet"]], ids=kind_of)
@pytest.mark.parametrize(
    ("where", "path", "value"),
    [
        ("pod", "securityContext.runAsNonRoot", True),
        ("pod", "securityContext.seccompProfile.type", "RuntimeDefault"),
        ("pod", "hostNetwork", None),
        ("pod", "hostPID", None),
        ("pod", "hostIPC", None),
        ("pod", "initContainers", None),
        ("container", "securityContext.allowPrivilegeEscalation", False),
        ("container", "securityContext.capabilities", {"drop": ["ALL"]}),
        ("container", "securityContext.privileged", None),
        ("container", "securityContext.readOnlyRootFilesystem", True),
    ],
)
def test_pods_meet_the_restricted_standard(workload, where, path, value):
    pod = workload["spec"]["template"]["spec"]
    (only,) = pod["containers"]
    assert at({"pod": pod, "container": only}[where], path) == value


@pytest.mark.parametrize("workload", [OBJECTS["Deployment"], VALKEY["StatefulSet"]], ids=kind_of)
def test_the_user_is_a_number_and_not_root(workload):
    context = workload["spec"]["template"]["spec"]["securityContext"]
    assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] > 0


def test_volumes_are_a_secret_for_the_group_and_a_small_place_to_write():
    volumes = {volume["name"]: volume for volume in pod_spec()["volumes"]}
    assert volumes["tls"]["secret"] == {"secretName": "genguard-tls", "defaultMode": 0o440}
    assert volumes["tmp"]["emptyDir"] == {"sizeLimit": "64Mi"}
    mounts = {mount["name"]: mount for mount in container()["volumeMounts"]}
    assert set(mounts) == set(volumes) == {"tls", "tmp"}
    assert "subPath" not in mounts["tls"], "the kubelet would never update it"
    assert mounts["tls"]["readOnly"]


def test_the_namespace_enforces_the_restricted_standard():
    labels = OBJECTS["Namespace"]["metadata"]["labels"]
    for mode in ("enforce", "audit", "warn"):
        assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_everything_is_in_the_one_namespace():
    for kind, found in OBJECTS.items():
        if kind not in {"Namespace", "ClusterRole", "ClusterRoleBinding"}:
            assert found["metadata"]["namespace"] == OBJECTS["Namespace"]["metadata"]["name"], kind


def test_the_quota_lets_the_priority_class_in():
    spec = OBJECTS["ResourceQuota"]["spec"]
    (expression,) = spec["scopeSelector"]["matchExpressions"]
    assert expression["values"] == [pod_spec()["priorityClassName"]]
    most = DEPLOYMENT["replicas"] + DEPLOYMENT["strategy"]["rollingUpdate"]["maxSurge"]
    assert int(spec["hard"]["pods"]) >= most


def watched(name="outcome"):
    """API group and resource of all that a registration watches."""
    return {
        (group, resource)
        for rule in webhook_of(registrations()[name])["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


WATCH = ["get", "list", "watch"]


def granted(rules, *verbs: str):
    """The same of what the rules of a role grant, for rules that grant this and nothing else."""
    return [
        (group, resource)
        for rule in rules
        if rule["verbs"] == list(verbs) and "resourceNames" not in rule
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]


def test_the_valkey_is_reached_by_genguard_s_pods_alone_and_reaches_nobody():
    template = VALKEY["StatefulSet"]["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert labels.items().isdisjoint(DEPLOYMENT["selector"]["matchLabels"].items())
    assert VALKEY["StatefulSet"]["spec"]["selector"] == {"matchLabels": labels}
    assert VALKEY["Service"]["spec"]["selector"] == labels
    policy = VALKEY["NetworkPolicy"]["spec"]
    assert policy["podSelector"] == {"matchLabels": labels}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == [
        {"ports": [{"port": "valkey"}], "from": [{"podSelector": DEPLOYMENT["selector"]}]}
    ]
    assert policy["egress"] == []
    assert template["spec"]["automountServiceAccountToken"] is False


def test_the_valkey_blocks_no_drain_keeps_nothing_and_outlives_ordinary_pods():
    budget = VALKEY["PodDisruptionBudget"]["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    pod = VALKEY["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == pod_spec()["priorityClassName"]
    assert "volumeClaimTemplates" not in VALKEY["StatefulSet"]["spec"]
    words = pod["containers"][0]["command"]
    flags = {flag: value for flag, value in itertools.pairwise(words) if flag.startswith("--")}
    assert (flags["--save"], flags["--appendonly"], flags["--port"]) == ("", "no", "0")


def test_what_is_watched_may_be_looked_up_and_nothing_else():
    rules = OBJECTS["ClusterRole"]["rules"]
    registrations = "admissionregistration.k8s.io"
    watched_objects = [one for one in granted(rules, *WATCH) if one[0] != registrations]
    found = [*granted(rules, "get"), *watched_objects]
    assert sorted(found) == sorted(one for one in watched() if "/" not in one[1])
    assert ("", "secrets") not in found


def test_heal_may_patch_every_status_that_is_watched_and_nothing_else():
    role, binding = documents(MANIFESTS / "heal" / "access.yaml")
    assert all(rule["verbs"] == ["patch"] for rule in role["rules"])
    found = granted(role["rules"], "patch")
    assert sorted(found) == sorted(one for one in watched() if one[1].endswith("/status"))
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == OBJECTS["ClusterRoleBinding"]["subjects"]


def test_follow_may_update_its_own_two_registrations_and_read_metrics_and_nothing_else():
    role, binding = documents(MANIFESTS / "follow" / "access.yaml")
    assert role["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": [name for kind, name in REGISTRATIONS if kind.startswith("Mutating")],
            "verbs": ["update"],
        },
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == OBJECTS["ClusterRoleBinding"]["subjects"]


def test_other_rights_are_these_and_no_others():
    other = [
        rule
        for rule in OBJECTS["ClusterRole"]["rules"]
        if rule["verbs"] != ["get"]
        and not (rule["verbs"] == WATCH and "admissionregistration.k8s.io" not in rule["apiGroups"])
    ]
    assert other == [
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": ["list", "watch"],
        },
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": [
                "mutatingwebhookconfigurations",
                "validatingwebhookconfigurations",
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicybindings",
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
            ],
            "verbs": ["get", "list", "watch"],
        },
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
    ]
    assert OBJECTS["Role"]["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["genguard"],
            "verbs": ["get", "update"],
        },
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [FINDINGS],
            "verbs": ["get", "update"],
        },
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "patch"]},
    ]
    account = OBJECTS["ServiceAccount"]["metadata"]
    for kind in ("Role", "ClusterRole"):
        binding = OBJECTS[f"{kind}Binding"]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, "genguard")
        assert binding["roleRef"]["name"] == OBJECTS[kind]["metadata"]["name"]
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
        ]
    assert pod_spec()["serviceAccountName"] == account["name"]


def test_a_token_is_mounted_only_where_it_is_asked_for():
    assert OBJECTS["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod_spec()["automountServiceAccountToken"] is True


def test_the_service_is_the_webhook_port_alone():
    (port,) = OBJECTS["Service"]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, "webhook")
    active = {ACTIVE: "true"}
    assert OBJECTS["Service"]["spec"]["selector"] == DEPLOYMENT["selector"]["matchLabels"] | active


def test_all_connections_of_one_api_server_lead_to_one_pod():
    assert OBJECTS["Service"]["spec"]["sessionAffinity"] == "ClientIP"


def test_the_ops_port_is_for_monitoring_and_the_webhook_port_for_all():
    policy = OBJECTS["NetworkPolicy"]["spec"]
    assert policy["podSelector"] == DEPLOYMENT["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    webhook, ops, own = policy["ingress"]
    assert webhook == {"ports": [{"port": "webhook"}]}
    assert ops["ports"] == [{"port": "ops"}]
    assert ops["from"] == [
        {"namespaceSelector": {"matchLabels": {"genguard.io/monitoring": "true"}}}
    ]
    assert own == {
        "ports": [{"port": "webhook"}],
        "from": [{"podSelector": DEPLOYMENT["selector"]}],
    }
    leaving = [{port["port"] for port in rule["ports"]} for rule in policy["egress"]]
    assert leaving == [{"webhook"}, {53}, {443, 6443}]


def test_the_arguments_are_ones_that_serve_takes():
    flags = parsed(container()["args"])
    assert flags["bind_address"] == flags["ops_address"] == "0.0.0.0"  # noqa: S104
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports == {"webhook": flags["secure_port"], "ops": flags["ops_port"]}
    (folder,) = (m["mountPath"] for m in container()["volumeMounts"] if m["name"] == "tls")
    assert str(flags["tls_cert_file"]) == f"{folder}/tls.crt"
    assert str(flags["tls_private_key_file"]) == f"{folder}/tls.key"
    assert flags["kubeconfig"] == "in-cluster"
    assert flags["events"] is True
    assert flags["findings_configmap"] == FINDINGS
    assert flags["audit_only"] is flags["heal"] is False


@pytest.mark.parametrize(
    ("folder", "flag"), [("overlays/audit-only", "audit_only"), ("heal", "heal")]
)
def test_audit_only_and_heal_add_the_one_flag_that_serve_has_for_it(folder, flag):
    (patch,) = kustomization(MANIFESTS / folder)["patches"]
    (operation,) = yaml.safe_load(patch["patch"])
    assert operation["path"] == "/spec/template/spec/containers/0/args/-"
    assert parsed([*container()["args"], operation["value"]])[flag] is True
    assert "patches" not in kustomization(MANIFESTS / "overlays" / "enforce")


def test_follow_is_what_a_server_takes_for_its_flag():
    (patch,) = kustomization(MANIFESTS / "follow")["patches"]
    (operation,) = yaml.safe_load(patch["patch"])
    assert parsed([*container()["args"], operation["value"]])["registrations"] == "follow"


def test_the_image_has_the_version_of_the_package_and_no_moving_tag():
    assert container()["image"] == current().image
    assert container()["imagePullPolicy"] == "IfNotPresent"


def published(name: str) -> list[dict[str, Any]]:
    return documents(MANIFESTS / "publish-status" / name)


def test_publish_status_has_rights_of_its_own_and_writes_nothing_until_a_kind_is_granted():
    assert kustomization(MANIFESTS / "publish-status")["kind"] == "Component"
    account, aggregated, base, binding, role, own = published("access.yaml")
    label = {"genguard.io/publish-status": "true"}
    assert aggregated["aggregationRule"] == {"clusterRoleSelectors": [{"matchLabels": label}]}
    assert base["metadata"]["labels"] == label
    verbs = {verb for rule in base["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch", "create"}
    assert sorted(granted(base["rules"], "create")) == [("events.k8s.io", "events")]
    assert {one["resourceNames"][0] for one in role["rules"] if "resourceNames" in one} == {LEASE}
    for bound, to in ((binding, aggregated), (own, role)):
        assert bound["roleRef"]["name"] == to["metadata"]["name"]
        assert [one["name"] for one in bound["subjects"]] == [account["metadata"]["name"]]
    assert account["metadata"]["name"] != OBJECTS["ServiceAccount"]["metadata"]["name"]


def test_the_pods_of_publish_status_get_no_reviews_and_keep_the_restricted_standard():
    (workload,) = published("deployment.yaml")
    template = workload["spec"]["template"]
    assert template["metadata"]["labels"] == workload["spec"]["selector"]["matchLabels"]
    assert template["metadata"]["labels"] != OBJECTS["Service"]["spec"]["selector"]
    pod = template["spec"]
    (one,) = pod["containers"]
    assert one["image"] == container()["image"]
    assert one["securityContext"] == container()["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    verb, *words = one["args"]
    assert verb == publish_status.name
    flags = publish_status.make_context(verb, [*words, "widgets.example.org"]).params
    assert flags["all_namespaces"] is True
    assert flags["kinds"] == ("widgets.example.org",)
