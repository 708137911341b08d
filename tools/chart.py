"""Writes the Helm chart: `python -m tools.chart [FOLDER [DIGEST]]`.

Each object of manifests/ becomes a template. What a component or an overlay changes is put between
`if` and `end`, so that the chart renders what kustomize renders. The values and their documents
follow from the options of `genguard install` and from the flags of `genguard serve`. People write
the other files of the chart: what it checks, its notes, and the text of its README.
"""

import json
import re
import shutil
import sys
import textwrap
import tomllib
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
import yaml

import manifests
from certs.files import CA_FILE, CERT_FILE, KEY_FILE
from tools.kustomize import build
from tools.published import current
from tools.template_tree import Choice, Lines, Template, When, merged, template
from tools.wheel import ROOT
from webhook.cli.install import install
from webhook.cli.options import TOLD
from webhook.manifest.documents import arguments_of
from webhook.manifest.rendering import WATCH_ROLE
from webhook.server.flags import FILE, FOLDER, NAMES, name_of, said_of
from webhook.server.settings import Settings

_ICON = ROOT / "webhook" / "dashboard" / "static" / "icon.svg"
CHART = ROOT / "charts" / "genguard"
REPOSITORY = current().image.rpartition(":")[0]
"""Of the image that is installed by default."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEAD = "{{- /* Written by `make chart` out of manifests/: change it there. */}}\n"

# The conditions that values make. Templates use $, which is the same inside of a range.
INSIDE = "not $.Values.outside.url"
OWN_PAIR = "not $.Values.certManager"
CERT_MANAGER = "$.Values.certManager"
AUDIT = "$.Values.auditOnly"
HEAL = 'include "genguard.heals" $'
FOLLOW = 'eq $.Values.registrations "follow"'
HA = "$.Values.ha"
OWN_STORE = "and $.Values.ha (not $.Values.store)"
MONITORING = "$.Values.monitoring"
OPS_AUTH = "$.Values.opsAuth"
GIVEN_PAIR = "$.Values.certificate.ca"
ELSEWHERE = {
    "url": "outside.url",
    "ca_file": "outside.caBundle",
    "registrations_file": "register",
    "cert_dir": "certificate",
    "namespace": "--namespace of helm",
    "kubeconfig": "--kubeconfig of helm",
    "context": "--kube-context of helm",
    "seconds": "--timeout of helm",
    "dry_run": "--dry-run of helm",
    "yes": "helm does not ask",
    "output": "helm template",
}
"""The options of install that are no value of the same name, and what they are with Helm."""

NAMED = {"api_servers": "apiServerCidrs", "alertmanagers": "alertmanagers"}
"""The options of install that a value names otherwise."""

_TEXT = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Value:
    """One value of the chart: its default, its JSON schema and what it does."""

    name: str
    default: Any
    schema: dict[str, Any]
    help: str


def values() -> list[Value]:
    """Every value, in the order in which people need them: those of chart_values.yaml."""
    rows = yaml.safe_load((ROOT / "tools" / "chart_values.yaml").read_text())
    options = option_values()
    found = [
        Value(one["name"], one["default"], one["schema"], one.get("help") or options[one["name"]])
        for one in rows
    ]
    known = {one.name: one for one in found}
    known["image"].default["repository"] = REPOSITORY
    known["serve"].schema["properties"] = {name: schema for name, schema, _ in serve_flags()}
    return found


def option_values() -> dict[str, str]:
    """The value of each option of install that has one, with the option's help."""
    return {
        NAMED.get(one.name) or _camel(one.name): _in_values(one.help or "")
        for one in install.params
        if isinstance(one, click.Option) and one.name and one.name not in ELSEWHERE
    }


def _in_values(text: str) -> str:
    """Name values in a help text in place of options."""
    return re.sub(r"--([a-z-]+)", lambda found: _camel(found[1].replace("-", "_")), text)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def serve_flags() -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield name, schema and help of each flag of serve that a value may set.

    Not those that the manifests or other values set, but for --watch, of which the last one given
    counts; nor those that need a file in the pod.
    """
    everything = (OWN_PAIR, OWN_STORE, HA, AUDIT, HEAL, FOLLOW, OPS_AUTH)
    taken = {
        flag.partition("=")[0]
        for document in _rendered(everything)
        for flag in arguments_of(document)
    }
    others = {"--alertmanager", "--cert-dir", "--server-version", "--watch-fights"}
    dependent = {"--client-name"}  # says nothing without a file of authorities
    for declared in fields(Settings):
        flag, default = declared.metadata, declared.metadata["default"]
        kind = flag["option"].get("type")
        if name_of(declared) in taken - {"--watch"} | others | dependent or kind in (FILE, FOLDER):
            continue
        schema: dict[str, Any]
        if default is False:
            schema = {"type": "boolean"}
        elif isinstance(kind, click.Choice):
            schema = {"enum": list(kind.choices)}
        elif isinstance(kind, click.IntRange):
            schema = {"type": "integer", "minimum": kind.min}
        elif kind is NAMES or flag["option"].get("multiple"):
            schema = {"type": "array", "items": _TEXT}
        else:
            schema = _TEXT
        text, shown = said_of(declared, TOLD["serve"].flags)
        yield name_of(declared).removeprefix("--"), schema, f"{text} [default: {shown.strip('`')}]"


# The objects.

_PARTS = {
    OWN_PAIR: "../tls",
    CERT_MANAGER: "../cert-manager",
    HEAL: "../heal",
    FOLLOW: "../follow",
    OWN_STORE: "../valkey",
    HA: "../replicas",
    OPS_AUTH: "../ops-auth",
}


def _rendered(conditions: Sequence[str]) -> list[dict[str, Any]]:
    """Render base with the components of these conditions, in this order."""
    parts = [_PARTS[one] for one in conditions if one in _PARTS]
    resources = ["../base"] + ["../monitoring/scrape.yaml"] * (MONITORING in conditions)
    patches = {"patches": _audit_patches()} if AUDIT in conditions else {}
    return build({"resources": resources, "components": parts, **patches})


def _audit_patches() -> Any:
    return yaml.safe_load(manifests.read("overlays/audit-only/kustomization.yaml"))["patches"]


_Key = tuple[str, str]


def _keyed(documents: Sequence[dict[str, Any]]) -> dict[_Key, Any]:
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


def objects() -> dict[_Key, Any]:
    """Every object of manifests/ with all conditions, by kind and name."""
    tree = _keyed(_rendered(()))
    for condition, given in (
        (OWN_PAIR, ()),
        (CERT_MANAGER, ()),
        (OWN_STORE, ()),
        (HA, ()),
        (FOLLOW, ()),
        (AUDIT, ()),
        (HEAL, ()),
        (MONITORING, ()),
        (OPS_AUTH, (MONITORING,)),
    ):
        tree = merged(tree, _keyed(_rendered((*given, condition))), condition, given)
    return {key: _with_values(key, one) for key, one in tree.items()}


def _with_values(key: _Key, tree: Any) -> Any:
    """Put the values that `genguard install` has as options, and a few of a pod, into an object."""
    kind, _ = key
    if isinstance(tree, When):
        return When(tree.condition, _with_values(key, tree.value))
    if kind.endswith("WebhookConfiguration"):
        _into_registration(tree)
    changes: dict[_Key, Callable[[Any], None]] = {
        ("Deployment", "genguard"): _into_deployment,
        ("ClusterRole", WATCH_ROLE): _into_role,
        ("ServiceAccount", "genguard"): _into_account,
        ("StatefulSet", "genguard-valkey"): _into_store,
        ("NetworkPolicy", "genguard"): _into_policy,
        ("ResourceQuota", "genguard-critical-pods"): _into_quota,
        ("Secret", "genguard-tls"): _into_secret,
    }
    if key in changes:
        changes[key](tree)
    return tree


def _into_deployment(tree: Any) -> None:
    spec = tree["spec"]
    usual = spec["replicas"]
    spec["replicas"] = Choice("$.Values.replicas", Template("{{ $.Values.replicas }}"), usual)
    pod = spec["template"]
    pod["metadata"]["labels"]["more"] = _given("podLabels")
    annotations = [_given("podAnnotations")]
    pod["metadata"]["annotations"] = When("$.Values.podAnnotations", annotations)
    _into_pod(pod["spec"])
    (container,) = pod["spec"]["containers"]
    container["image"] = Template('{{ include "genguard.image" $ | quote }}')
    container["imagePullPolicy"] = Template("{{ $.Values.image.pullPolicy | quote }}")
    container["env"].append(_given("extraEnv"))
    spread = pod["spec"]["topologySpreadConstraints"]
    given = "$.Values.topologySpreadConstraints"
    pod["spec"]["topologySpreadConstraints"] = Choice(given, [_given(given[9:])], spread)
    container["resources"] = Choice(
        "$.Values.resources", [_given("resources")], container["resources"]
    )
    container["args"] = [_stored(one) for one in container["args"]] + [
        Lines(
            "{{- range $.Values.alertmanagers }}\n"
            '- {{ printf "--alertmanager=%s" . | quote }}\n'
            "{{- end }}\n"
            "{{- with $.Values.watchKinds }}\n"
            '- {{ printf "--watch-fights=%s" (join "," .) | quote }}\n'
            "{{- end }}\n"
            '{{- include "genguard.serveFlags" $ | nindent {n} }}'
        )
    ]


def _into_role(tree: Any) -> None:
    kind = '{{- $kind := splitn "." 2 . }}\n'
    verbs = "  verbs: [get, list, watch]\n{{- end }}"
    tree["rules"].append(
        Lines(
            "{{- range $.Values.watchGroups }}\n"
            f'- apiGroups: [{{{{ . | quote }}}}]\n  resources: ["*"]\n{verbs}\n'
            f"{{{{- range $.Values.watchKinds }}}}\n{kind}"
            "- apiGroups: [{{ $kind._1 | quote }}]\n  resources: [{{ $kind._0 | quote }}]\n"
            f"{verbs}"
        )
    )


def _given(name: str) -> Lines:
    """The entries of a mapping or list that a value has."""
    return Lines(
        f"{{{{- with $.Values.{name} }}}}\n{{{{- toYaml . | nindent {{n}} }}}}\n{{{{- end }}}}"
    )


def _into_account(tree: Any) -> None:
    name = "serviceAccount.annotations"
    tree["metadata"]["annotations"] = When(f"$.Values.{name}", [_given(name)])


def _stored(argument: Any) -> Any:
    """Choose the store of the value in place of the Valkey that is installed."""
    if isinstance(argument, When) and str(argument.value).startswith("--store="):
        given = Template('{{ printf "--store=%s" $.Values.store | quote }}')
        return When(argument.condition, Choice("$.Values.store", given, argument.value))
    return argument


def _into_pod(spec: Any) -> None:
    for name in ("imagePullSecrets", "nodeSelector", "tolerations", "affinity"):
        value = f"$.Values.{name}"
        spec[name] = When(value, [_given(name)])
    given = "$.Values.priorityClassName"
    spec["priorityClassName"] = When(given, Template(f"{{{{ {given} | quote }}}}"))


def _into_store(tree: Any) -> None:
    spec = tree["spec"]["template"]["spec"]
    _into_pod(spec)
    (container,) = spec["containers"]
    given = Template("{{ $.Values.storeImage | quote }}")
    container["image"] = Choice("$.Values.storeImage", given, container["image"])


def _into_policy(tree: Any) -> None:
    spec = tree["spec"]
    reviews = spec["ingress"][0]
    reviews["from"] = When(
        "$.Values.apiServerCidrs",
        [
            Lines(
                "{{- range $.Values.apiServerCidrs }}\n"
                "- ipBlock:\n    cidr: {{ . | quote }}\n"
                "{{- end }}"
            )
        ],
    )
    (store,) = (one for one in spec["egress"] if isinstance(one, When) and one.condition == HA)
    spec["egress"].remove(store)
    given = Lines(
        '- {{- include "genguard.egress" (dict "url" $.Values.store "port" 6379) | nindent {m} }}'
    )
    spec["egress"].append(When(store.condition, Choice("$.Values.store", given, store.value)))
    port = '(hasPrefix "https:" . | ternary 443 80)'
    rule = f'{{{{- include "genguard.egress" (dict "url" . "port" {port}) | nindent {{m}} }}}}'
    spec["egress"].append(
        Lines(f"{{{{- range $.Values.alertmanagers }}}}\n- {rule}\n{{{{- end }}}}")
    )


def _into_quota(tree: Any) -> None:
    hard = tree["spec"]["hard"]
    most = f"{{{{ max {hard['pods']} (add (int $.Values.replicas) 2) | quote }}}}"
    hard["pods"] = Choice("$.Values.replicas", Template(most), hard["pods"])


def _into_secret(tree: Any) -> None:
    """A given pair is in the Secret. Otherwise it has no data, so that no upgrade takes it away."""
    tree["type"] = When(GIVEN_PAIR, "kubernetes.io/tls")
    names = {CERT_FILE: "crt", KEY_FILE: "key", CA_FILE: "ca"}
    data = {
        name: Template(f"{{{{ $.Values.certificate.{value} | b64enc | quote }}}}")
        for name, value in names.items()
    }
    tree["data"] = When(GIVEN_PAIR, data)


def _into_registration(tree: Any) -> None:
    tree["metadata"]["labels"]["app.kubernetes.io/managed-by"] = Template("{{ $.Release.Service }}")
    deletes = ", DELETE" if tree["kind"].startswith("Validating") else ""
    for webhook in tree["webhooks"]:
        names = webhook["namespaceSelector"]["matchExpressions"][0]["values"]
        at = names.index("kube-system")
        names[at] = When("not $.Values.includeKubeSystem", names[at])
        client = webhook["clientConfig"]
        bundle = Template("{{ $.Values.certificate.ca | b64enc | quote }}")
        client["caBundle"] = When(f"and ({OWN_PAIR}) {GIVEN_PAIR}", bundle)
        path = client["service"]["path"]
        outside = {
            "url": Template(
                f'{{{{ printf "%s{path}" (trimSuffix "/" $.Values.outside.url) | quote }}}}'
            ),
            "caBundle": Template("{{ $.Values.outside.caBundle | b64enc | quote }}"),
        }
        webhook["clientConfig"] = Choice("$.Values.outside.url", outside, client)
        if webhook["rules"]:  # else the server writes them
            webhook["rules"].append(Lines(_RULES.replace("DELETES", deletes)))


_RULES = """\
{{- range $custom := $.Values.customResources }}
- apiGroups: [{{ .group | quote }}]
  apiVersions: [{{ .version | quote }}]
  resources: [{{ .resource | quote }}]
  operations: [CREATE, UPDATEDELETES]
{{- if .subresources }}
- apiGroups: [{{ .group | quote }}]
  apiVersions: [{{ .version | quote }}]
  resources:
    {{- range $sub := .subresources }}
    - {{ printf "%s/%s" $custom.resource $sub | quote }}
    {{- end }}
  operations: [UPDATE]
{{- end }}
{{- end }}"""


# The files of the chart.


def generated() -> dict[str, str]:
    """Every file of the chart that is written here, by its path in it; people write the others."""
    found = {
        "Chart.yaml": _chart_yaml(),
        "LICENSE": (ROOT / "LICENSE").read_text(),
        "README.md": _with_tables((CHART / "README.md").read_text()),
        "files/genguard.json": manifests.read("monitoring/grafana/genguard.json").decode(),
        "files/rules.yaml": manifests.read("monitoring/rules.yaml").decode(),
        "values.schema.json": json.dumps(_schema(), indent=2) + "\n",
        "values.yaml": _values_yaml(),
    }
    for (kind, name), tree in objects().items():
        found[f"templates/{kind.lower()}-{name}.yaml"] = HEAD + _file_of(kind, tree)
    return found


def _file_of(kind: str, tree: Any) -> str:
    if kind.endswith("WebhookConfiguration"):
        return _registration(tree)
    conditions = [INSIDE, "$.Values.createNamespace"] if kind == "Namespace" else [INSIDE]
    if isinstance(tree, When):
        conditions.append(tree.condition)
        tree = tree.value
    whole = " ".join(f"({one})" for one in conditions)
    condition = f"and {whole}" if len(conditions) > 1 else conditions[0]
    return f"{{{{- if {condition} }}}}\n{template(tree)}{{{{- end }}}}\n"


def _registration(tree: Any) -> str:
    """Write a registration without webhooks: the Job of register.yaml fills it with the whole one.

    So nothing is called before it is reached, Helm still removes it, and no upgrade empties it.
    Where the server is outside the cluster, there is no Job.
    """
    whole = f"genguard.{tree['metadata']['name']}"
    head = template({name: tree[name] for name in ("apiVersion", "kind", "metadata")})
    return (
        f'{{{{- define "{whole}" }}}}\n{template(tree)}{{{{- end }}}}\n'
        "{{- if and $.Values.register $.Values.outside.url }}\n"
        f'{{{{- include "{whole}" $ }}}}\n'
        f"{{{{- else if $.Values.register }}}}\n{head}{{{{- end }}}}\n"
    )


def _chart_yaml() -> str:
    images = [{"name": "genguard", "image": current().image}]
    chart = {
        "apiVersion": "v2",
        "name": "genguard",
        "description": PROJECT["description"],
        "type": "application",
        "version": PROJECT["version"],
        "appVersion": PROJECT["version"],
        "kubeVersion": ">=1.30.0-0",
        "icon": "data:image/svg+xml;base64," + b64encode(_ICON.read_bytes()).decode(),
        "keywords": ["admission-webhook", "generation", "observedGeneration", "loops", "audit"],
        "annotations": {
            "artifacthub.io/category": "monitoring-logging",
            "artifacthub.io/license": PROJECT["license"],
            "artifacthub.io/images": yaml.safe_dump(images, sort_keys=False),
            "artifacthub.io/prerelease": str(PROJECT["version"].startswith("0.")).lower(),
        },
    }
    return yaml.safe_dump(chart, sort_keys=False, width=100)


def _schema() -> dict[str, Any]:
    properties = {one.name: {"description": one.help, **one.schema} for one in values()}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of genguard's chart",
        "type": "object",
        "additionalProperties": False,
        "properties": properties | {"global": {"type": "object"}},
    }


def _values_yaml() -> str:
    parts = ["# Written by `make chart`. `genguard install` has options for the same.\n"]
    for one in values():
        lines = [_comment(one.help, "# ", "# ")]
        if one.name == "serve":
            flags = serve_flags()
            lines += [_comment(f"{name}: {text}", "#   ", "#     ") for name, _, text in flags]
        text = yaml.safe_dump({one.name: one.default}, sort_keys=False)
        parts.append("\n".join([*lines, text]))
    return "\n".join(parts)


def _comment(text: str, first: str, then: str) -> str:
    return textwrap.fill(text, 100, initial_indent=first, subsequent_indent=then)


def _with_tables(readme: str) -> str:
    """Write the tables of values and flags anew; each stands below its head."""
    rows = [f"| `{one.name}` | {_shown(one.default)} | {_cell(one.help)} |" for one in values()]
    flags = [f"| `{name}` | {_cell(text)} |" for name, _, text in serve_flags()]
    for head, table in (("| value | default |", rows), ("| key | what", flags)):
        pattern = rf"({re.escape(head)}.*\n\| --- .*\n)(?:\|.*\n)*"
        lines = "".join(f"{row}\n" for row in table)
        readme = re.sub(pattern, lambda found, lines=lines: found[1] + lines, readme)
    return readme


def _shown(default: Any) -> str:
    return f"`{json.dumps(default)}`"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def write(to: Path = CHART, digest: str = "") -> None:
    """Write the chart into a folder; where that is not its own, with what people have written.

    digest  of the image that the chart installs by default; "" for the tag
    """
    if to != CHART:
        shutil.copytree(CHART, to)
    for path in to.rglob("*"):
        if path.is_file() and path.read_text().startswith(HEAD):
            path.unlink()  # its object may not be there any more
    for name, text in generated().items():
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if digest:
        path = to / "values.yaml"
        path.write_text(path.read_text().replace("digest: ''", f"digest: {digest}"))


def main(to: str = str(CHART), digest: str = "") -> None:
    """Write the chart, which by default installs the image of this digest."""
    write(Path(to), digest)
    print(to)


if __name__ == "__main__":
    main(*sys.argv[1:])
