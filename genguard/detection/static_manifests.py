"""Manifests of static webhooks and policies (KEP-5793), as the API server reads them from files.

The checks are those of the API server, so that a manifest which it would refuse is not taken for
one that it uses.

Source: apiserver pkg/admission/plugin/manifest/validation.go, pkg/admission/plugin/webhook/manifest
and pkg/admission/plugin/policy/manifest (loader/loader.go in both).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from genguard.detection.policies import BINDING, POLICY, read_policies
from genguard.detection.suspects import StaticAdmission, read_configurations

_SUFFIX: Final = ".static.k8s.io"
_VERSION: Final = "admissionregistration.k8s.io/v1"
_MUTATING: Final = "MutatingWebhookConfiguration"
_VALIDATING: Final = "ValidatingWebhookConfiguration"


class BadManifestError(ValueError):
    """A manifest that the API server would refuse; the message says why, not what it contains."""


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] | None = None


class _ClientConfig(msgspec.Struct):
    url: str | None = None


class _Rule(msgspec.Struct, rename="camel"):
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    operations: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None
    scope: str | None = None


class _Requirement(msgspec.Struct):
    key: str
    operator: str
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


class _Condition(msgspec.Struct):
    expression: str


class _Hook(msgspec.Struct, rename="camel"):
    name: str
    client_config: _ClientConfig
    rules: list[_Rule] | None = None
    namespace_selector: _Selector | None = None
    object_selector: _Selector | None = None
    match_policy: str | None = None
    match_conditions: list[_Condition] | None = None
    reinvocation_policy: str | None = None


class _Webhooks(msgspec.Struct):
    metadata: _Metadata
    webhooks: list[_Hook] | None = None


class _Resources(msgspec.Struct, rename="camel"):
    namespace_selector: _Selector | None = None
    object_selector: _Selector | None = None
    resource_rules: list[_Rule] | None = None
    exclude_resource_rules: list[_Rule] | None = None
    match_policy: str | None = None


class _Expression(msgspec.Struct):
    expression: str = ""


class _Mutation(msgspec.Struct, rename="camel"):
    apply_configuration: _Expression | None = None
    json_patch: _Expression | None = None


class _PolicySpec(msgspec.Struct, rename="camel"):
    match_constraints: _Resources | None = None
    match_conditions: list[_Condition] | None = None
    mutations: list[_Mutation] | None = None
    variables: list[_Expression] | None = None
    param_kind: dict[str, Any] | None = None


class _Policy(msgspec.Struct):
    metadata: _Metadata
    spec: _PolicySpec


class _BindingSpec(msgspec.Struct, rename="camel"):
    policy_name: str
    match_resources: _Resources | None = None
    param_ref: dict[str, Any] | None = None


class _Binding(msgspec.Struct):
    metadata: _Metadata
    spec: _BindingSpec


class _ValidatingSpec(msgspec.Struct, frozen=True, rename="camel"):
    param_kind: dict[str, Any] | None = None
    param_ref: dict[str, Any] | None = None


class _Validating(msgspec.Struct):
    """A validating policy or its binding: it changes nothing, so only its parameters are read."""

    metadata: _Metadata
    spec: _ValidatingSpec = _ValidatingSpec()


_SHAPES: Final[Mapping[str, Any]] = {
    _MUTATING: _Webhooks,
    _VALIDATING: _Webhooks,
    POLICY: _Policy,
    BINDING: _Binding,
    "ValidatingAdmissionPolicy": _Validating,
    "ValidatingAdmissionPolicyBinding": _Validating,
}


class Identity(NamedTuple):
    """What tells the manifests of one API server apart; `bound` is the policy of a binding."""

    kind: str
    name: str
    bound: str


def check_manifest(manifest: Mapping[str, Any]) -> Identity:
    """Return the identity of a manifest. Raises BadManifestError."""
    kind = manifest.get("kind")
    shape = _SHAPES.get(kind) if isinstance(kind, str) else None
    if shape is None or manifest.get("apiVersion") != _VERSION:
        raise BadManifestError(
            f"expected a webhook configuration or an admission policy of {_VERSION}: "
            "give the files of the API server's staticManifestsDir"
        )
    try:
        found = msgspec.convert(manifest, shape)
    except msgspec.ValidationError as error:
        raise BadManifestError(f"{kind}: {error}") from error
    name = found.metadata.name
    if not name.endswith(_SUFFIX) or name == _SUFFIX:
        raise BadManifestError(
            f"{kind} whose name does not end with {_SUFFIX}: the API server loads no such "
            "manifest; for what is registered in the cluster give --kubeconfig or --webhooks"
        )
    if isinstance(found, _Webhooks):
        for index, hook in enumerate(found.webhooks or ()):
            if not hook.client_config.url:
                raise BadManifestError(
                    f"{kind}: a static webhook is called by URL: set "
                    f"webhooks[{index}].clientConfig.url"
                )
    if isinstance(found, _Policy | _Validating) and found.spec.param_kind is not None:
        raise BadManifestError(f"{kind}: a static policy takes no parameters: remove paramKind")
    if isinstance(found, _Binding | _Validating) and found.spec.param_ref is not None:
        raise BadManifestError(f"{kind}: a static policy takes no parameters: remove paramRef")
    return Identity(str(kind), name, found.spec.policy_name if isinstance(found, _Binding) else "")


def read_static(manifests: Iterable[Mapping[str, Any]]) -> StaticAdmission:
    """Return what acts of checked manifests; validating ones change nothing and are left out."""
    documents = tuple(manifests)
    return StaticAdmission(read_configurations(documents), read_policies(documents))
