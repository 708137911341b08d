"""Files of webhooks and policies that no API lists (KEP-5793), and the flags that name them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.controlplane.options import Options

_CONFIG = "apiserver.config.k8s.io/v1"


class StaticAdmission:
    """The manifests of one API server, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.webhooks = folder / "mutating-webhooks"
        self.policies = folder / "mutating-policies"
        self._config = folder / "admission.yaml"
        plugins = [
            _plugin("MutatingAdmissionWebhook", "WebhookAdmissionConfiguration", self.webhooks),
            _plugin(
                "MutatingAdmissionPolicy", "MutatingAdmissionPolicyConfiguration", self.policies
            ),
        ]
        config = {"apiVersion": _CONFIG, "kind": "AdmissionConfiguration", "plugins": plugins}
        self._config.write_text(json.dumps(config))

    def options(self, options: Options) -> Options:
        """The same control plane, whose API server reads the manifests."""
        flags = (
            "--feature-gates=ManifestBasedAdmissionControlConfig=true",
            f"--admission-control-config-file={self._config}",
        )
        return replace(options, apiserver_flags=(*options.apiserver_flags, *flags))

    def write(self, manifest: Mapping[str, Any]) -> None:
        """To be called before the API server starts, which watches the folder as well."""
        is_webhook = manifest["kind"] == "MutatingWebhookConfiguration"
        folder = self.webhooks if is_webhook else self.policies
        name = f"{manifest['kind']}-{manifest['metadata']['name']}.json"
        (folder / name).write_text(json.dumps(manifest))


def _plugin(name: str, kind: str, folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True)
    settings = {"apiVersion": _CONFIG, "kind": kind, "staticManifestsDir": str(folder)}
    return {"name": name, "configuration": settings}
