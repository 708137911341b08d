"""Files of webhooks that no API lists (KEP-5793), and the flags by which an API server has them."""

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
        self.webhooks.mkdir(parents=True)
        self._config = folder / "admission.yaml"
        plugin = {
            "name": "MutatingAdmissionWebhook",
            "configuration": {
                "apiVersion": _CONFIG,
                "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": "",
                "staticManifestsDir": str(self.webhooks),
            },
        }
        config = {"apiVersion": _CONFIG, "kind": "AdmissionConfiguration", "plugins": [plugin]}
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
        (self.webhooks / f"{manifest['metadata']['name']}.json").write_text(json.dumps(manifest))
