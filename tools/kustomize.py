"""Render the kustomizations of manifests/ by kubectl: `make chart` runs it.

What it renders is what `genguard install` applies, and what the chart is made of.
"""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final

import yaml

import manifests
from tests.controlplane.build import binary
from webhook.manifest.documents import Document
from webhook.manifest.rendering import REGISTRATIONS_ALONE, RENDERED

MANIFESTS: Final = Path(manifests.__file__).parent


def build(kustomization: Mapping[str, Any]) -> list[Document]:
    """Render a kustomization as if it stood in a folder beside those of manifests/.

    Raises subprocess.CalledProcessError where kubectl does not understand it.
    """
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder, "manifests")
        shutil.copytree(MANIFESTS, copied, ignore=shutil.ignore_patterns("__pycache__"))
        (copied / "made").mkdir()
        (copied / "made" / "kustomization.yaml").write_text(yaml.safe_dump(dict(kustomization)))
        anywhere = "--load-restrictor=LoadRestrictionsNone"  # it names files of other folders
        command = [binary("kubectl"), "kustomize", anywhere, copied / "made"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return list(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))


def rendered() -> str:
    """Render every combination of components that `genguard install` may choose, as JSON.

    Each document stands once, on a line of its own; a combination lists the numbers of its own.
    """
    numbers: dict[str, int] = {}
    chosen = {}
    for name, kustomization in _combinations():
        documents = build(kustomization)
        texts = [json.dumps(one, sort_keys=True, ensure_ascii=False) for one in documents]
        chosen[name] = [numbers.setdefault(text, len(numbers)) for text in texts]
    lines = ",\n".join(numbers)
    names = ",\n".join(f"{json.dumps(name)}: {found}" for name, found in chosen.items())
    return f'{{"combinations": {{\n{names}\n}}, "documents": [\n{lines}\n]}}\n'


def _combinations() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What is rendered beforehand, by name: an overlay, with other components than its own."""
    yield REGISTRATIONS_ALONE, {"resources": ["../base/registrations"]}
    stores = (), ("replicas",), ("valkey", "replicas")
    for pair, follow, store, heal in product(
        ("tls", "cert-manager"), (False, True), stores, (None, False, True)
    ):
        components = (pair, *store, *(["follow"] * follow), *(["heal"] * bool(heal)))
        overlay = "audit-only" if heal is None else "enforce"
        spec = yaml.safe_load(manifests.read(f"overlays/{overlay}/kustomization.yaml"))
        spec |= {"resources": ["../base"], "components": [f"../{one}" for one in components]}
        yield f"{overlay} {' '.join(components)}", spec


if __name__ == "__main__":
    (MANIFESTS / RENDERED).write_text(rendered())
