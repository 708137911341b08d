"""`genguard serve`: flags that cannot be are refused, each with what, where and what to do."""

import sys
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.unit.cli.samples import DEFINITION, serve, write_lines
from webhook.cli import main
from webhook.cli.serve import new_event_loop


@pytest.mark.parametrize(("is_installed", "module"), [(True, "uvloop"), (False, "asyncio")])
def test_uvloop_is_used_where_it_is_installed(is_installed, module, monkeypatch):
    if not is_installed:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    loop.close()
    assert type(loop).__module__.partition(".")[0] == module


def without(path: str) -> dict[str, Any]:
    """The definition, less one field."""
    copy: dict[str, Any] = yaml.safe_load(yaml.safe_dump(DEFINITION))
    *parents, last = path.split(".")
    target = copy
    for key in parents:
        target = target[key]
    del target[last]
    return copy


BAD_CRDS = [
    ("kind: [", "neither JSON nor YAML at line"),
    ("a: 1\nb: }\n", "neither JSON nor YAML at line 2"),
    ("\x00\x01", "neither JSON nor YAML"),
    ("just text", "a text where an object is expected at line 1"),
    ("kind: Pod", "expected CustomResourceDefinition, found Pod"),
    ("a: 1", "expected CustomResourceDefinition, found None"),
    ("kind: List\nitems: [{kind: Secret}]", "expected CustomResourceDefinition, found Secret"),
    ("kind: List\nitems: [5]", "a number as item 0 where an object is expected at line 1"),
    (yaml.safe_dump(without("metadata.name")), "metadata.name is missing"),
    (yaml.safe_dump(without("spec.group")), "spec.group is missing"),
    (yaml.safe_dump(without("spec.versions")), "spec.versions must be a list"),
]


@pytest.mark.parametrize(("text", "told"), BAD_CRDS, ids=[row[1] for row in BAD_CRDS])
@pytest.mark.parametrize("verb", ["serve", "replay"])
def test_a_bad_file_of_definitions_is_told_with_its_name(tmp_path, text, told, verb):
    path = tmp_path / "crds.yaml"
    path.write_text(text)
    rest = ["--cert-dir", str(tmp_path)] if verb == "serve" else ["-"]
    result = CliRunner().invoke(main, [verb, "--crds", str(path), *rest], input="")
    assert result.exit_code == 2
    assert f"--crds {path}: " in result.stderr
    assert told in result.stderr


def test_a_file_of_definitions_that_is_missing_or_a_folder_is_told(tmp_path):
    missing = serve("--crds", tmp_path / "missing", "--cert-dir", tmp_path)
    assert f"--crds {tmp_path}/missing: No such file or directory" in missing.stderr
    folder = serve("--crds", tmp_path, "--cert-dir", tmp_path)
    assert folder.exit_code == 2
    assert "is a directory" in folder.stderr.lower()


def test_a_certificate_that_cannot_be_used_is_told(tmp_path):
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("canary-7f3a")
    result = serve(
        "--tls-cert-file", tmp_path / "tls.crt", "--tls-private-key-file", tmp_path / "tls.key"
    )
    assert result.exit_code == 1
    assert str(tmp_path / "tls.crt") in result.stderr
    assert "canary" not in result.stderr


def test_a_recording_that_cannot_be_written_is_told(tmp_path):
    result = serve("--record", tmp_path / "no" / "file", "--cert-dir", tmp_path)
    assert result.exit_code == 1
    assert "No such file or directory; --record needs a folder that is there" in result.stderr
    assert f"{tmp_path}/no/file" in result.stderr


def test_definitions_of_any_shape_are_read(tmp_path):
    """Several documents, a List and an empty document in one file; the flag after it is wrong."""
    path = tmp_path / "crds.yaml"
    documents = [DEFINITION, {"kind": "List", "items": [DEFINITION]}, None]
    path.write_text(yaml.safe_dump_all(documents))
    result = serve("--crds", path, "--flip-status", "deployments.apps", "--cert-dir", tmp_path)
    assert "--flip-status deployments.apps" in result.stderr
    write_lines(path, {"kind": "List", "items": [DEFINITION]})
    assert serve("--crds", path, "--flip-status", "deployments.apps").exit_code == 2
