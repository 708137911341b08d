"""`genguard serve`: flags that cannot be are refused, each with what, where and what to do."""

import sys

import pytest
import yaml
from click.testing import CliRunner

from tests.cases_loader import table
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


@table("cli/bad_definitions.yaml", "text", "told")
@pytest.mark.parametrize("verb", ["serve", "replay"])
def test_a_bad_file_of_definitions_is_told_with_its_name(tmp_path, case, verb):
    path = tmp_path / "crds.yaml"
    path.write_text(case["text"])
    rest = ["--cert-dir", str(tmp_path)] if verb == "serve" else ["-"]
    result = CliRunner().invoke(main, [verb, "--crds", str(path), *rest], input="")
    assert result.exit_code == 2
    assert f"--crds {path}: " in result.stderr
    assert case["told"] in result.stderr


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
