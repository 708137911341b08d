"""Manifests of the pods whose reviews are recorded: as teams write them, made up from nothing."""

import json
from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]

REGISTRY = "registry.example.com"


def web(name: str) -> Manifest:
    """A web application beside a proxy, with configuration from two volumes."""
    server = container(
        "server",
        "shop/storefront:4.18.2",
        port=8080,
        probed="/healthz",
        env={"LOG_LEVEL": "info", "CACHE_URL": "valkey://cache.shop.svc.cluster.local:6379/0"},
        secrets={"DATABASE_PASSWORD": "storefront-database"},
        mounts={"config": "/etc/storefront"},
    )
    proxy = container("proxy", "platform/envoy:1.34.1", port=15001, mounts={"proxy": "/etc/envoy"})
    volumes = [
        {"name": "config", "configMap": {"name": "storefront", "defaultMode": 0o444}},
        {"name": "proxy", "configMap": {"name": "storefront-proxy"}},
    ]
    spec = {
        "containers": [server, proxy],
        "volumes": volumes,
        "terminationGracePeriodSeconds": 45,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": name}},
            }
        ],
    }
    return pod(name, spec, annotations={"prometheus.io/scrape": "true"})


def site(name: str) -> Manifest:
    """Static files beside what ships their log; they need nothing of the API server."""
    server = container("nginx", "platform/nginx:1.29.0", port=8080, probed="/")
    shipper = {"name": "log", "image": f"{REGISTRY}/platform/log:3.2.1", "args": ["--follow"]}
    return pod(name, {"containers": [server, shipper], "automountServiceAccountToken": False})


def task(name: str) -> Manifest:
    """The least that runs: a container and its command."""
    only = {"name": "task", "image": f"{REGISTRY}/shop/task:1.0.0", "args": ["--once"]}
    return pod(name, {"containers": [only], "automountServiceAccountToken": False})


def worker(name: str) -> Manifest:
    """A queue worker: one container, no port."""
    env = {"QUEUE": "orders", "CONCURRENCY": "16", "LOG_LEVEL": "info"}
    only = container("worker", "shop/worker:2.7.0", env=env, secrets={"QUEUE_TOKEN": "orders"})
    return pod(name, {"containers": [only], "priorityClassName": ""})


def database(name: str) -> Manifest:
    """A database with an exporter beside it."""
    env = {"POSTGRES_DB": "storefront", "PGDATA": "/var/lib/postgresql/data/pgdata"}
    server = container(
        "postgres",
        "platform/postgres:17.5",
        port=5432,
        env=env,
        secrets={"POSTGRES_PASSWORD": "storefront-database"},
        mounts={"data": "/var/lib/postgresql/data"},
    )
    check = {"exec": {"command": ["pg_isready", "-U", "postgres", "-d", "storefront"]}}
    server |= {"readinessProbe": {**check, "periodSeconds": 5, "timeoutSeconds": 3}}
    exporter = container("exporter", "platform/postgres-exporter:0.17.1", port=9187, probed="/")
    volumes = [{"name": "data", "emptyDir": {}}]
    spec = {"containers": [server, exporter], "volumes": volumes, "hostname": name}
    return pod(name, spec | {"securityContext": {"fsGroup": 999, "runAsUser": 999}})


def batch(name: str) -> Manifest:
    """A report that runs and ends."""
    only = container("report", "shop/reports:1.3.0", env={"PERIOD": "2026-01", "FORMAT": "csv"})
    spec = {"containers": [only], "restartPolicy": "Never", "automountServiceAccountToken": False}
    return pod(name, spec, annotations={"genguard.io/test-completes-after": "300ms"})


def deployment(template: Manifest, replicas: int) -> Manifest:
    """The Deployment that keeps `replicas` of a pod."""
    name = template["metadata"]["name"]
    inner = {**template["metadata"]}
    del inner["name"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": inner["labels"]},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {"metadata": inner, "spec": template["spec"]},
        },
    }


def pod(name: str, spec: Manifest, annotations: Mapping[str, str] | None = None) -> Manifest:
    """A pod with the labels that charts give."""
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/part-of": "shop",
        "app.kubernetes.io/managed-by": "kubectl",
    }
    metadata = {"name": name, "labels": labels, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container(
    name: str,
    image: str,
    *,
    port: int = 0,
    probed: str = "",
    env: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    mounts: Mapping[str, str] | None = None,
) -> Manifest:
    """A container with requests, limits and, where it listens, probes."""
    variables: list[Manifest] = [{"name": k, "value": v} for k, v in (env or {}).items()]
    for key, secret in (secrets or {}).items():
        source = {"secretKeyRef": {"name": secret, "key": "value"}}
        variables.append({"name": key, "valueFrom": source})
    made: Manifest = {
        "name": name,
        "image": f"{REGISTRY}/{image}",
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if variables:
        made["env"] = variables
    if mounts:
        made["volumeMounts"] = [{"name": k, "mountPath": v} for k, v in mounts.items()]
    if port:
        made["ports"] = [{"name": "http", "containerPort": port}]
    if probed:
        probe = {"httpGet": {"path": probed, "port": "http"}, "periodSeconds": 10}
        made |= {"readinessProbe": probe, "livenessProbe": {**probe, "initialDelaySeconds": 15}}
    return made


def text(manifest: Manifest) -> str:
    """A manifest as a file for kubectl."""
    return json.dumps(manifest)
