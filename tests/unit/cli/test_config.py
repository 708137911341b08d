"""`genguard serve --config`: a file of flags."""

import pytest

from tests.cases_loader import table
from tests.unit.cli.samples import serve
from webhook.cli.serve import serve as command

ADDRESSES = {"bind-address": "GENGUARD_BIND_ADDRESS", "ops-address": "GENGUARD_OPS_ADDRESS"}


@table("cli/bad_config.yaml", "text", "told")
def test_a_bad_configuration_is_told_with_its_file_or_flag(tmp_path, case):
    path, told = tmp_path / "genguard.yaml", case["told"]
    path.write_text(case["text"])
    result = serve("--config", path)
    assert result.exit_code == 2
    assert told in result.stderr, case.because
    if "unknown" in told or "not YAML" in told:
        assert str(path) in result.stderr


def test_a_configuration_is_read_as_text_and_its_lists_as_flags(tmp_path):
    """As a number 1.40 would be 1.4, of which nobody would be told."""
    path = tmp_path / "genguard.yaml"
    path.write_text("server-version: 1.40\nflip-status: [deployments.apps, pods]\ndns-name: a\n")
    result = serve("--config", path, "--cert-dir", tmp_path)
    assert "--flip-status deployments.apps: " in result.stderr


@pytest.mark.parametrize(("flag", "variable"), ADDRESSES.items())
def test_the_environment_says_where_to_listen_by_default(flag, variable, monkeypatch):
    """The image sets both variables: published ports lead to its container's own address."""
    monkeypatch.delenv(variable, raising=False)
    assert address(flag) == "127.0.0.1"
    monkeypatch.setenv(variable, "192.0.2.3")
    assert address(flag) == "192.0.2.3"


@pytest.mark.parametrize(("flag", "variable"), ADDRESSES.items())
def test_flag_and_configuration_win_over_the_environment(flag, variable, tmp_path, monkeypatch):
    monkeypatch.setenv(variable, "192.0.2.3")
    path = tmp_path / "genguard.yaml"
    path.write_text(f"{flag}: 192.0.2.1\n")
    assert address(flag, "--config", str(path)) == "192.0.2.1"
    assert address(flag, "--config", str(path), f"--{flag}", "192.0.2.2") == "192.0.2.2"


def address(flag: str, *arguments: str) -> str:
    """What a command line makes of the flag; nothing is started."""
    context = command.make_context("serve", list(arguments))
    found: str = context.params[flag.replace("-", "_")]
    return found
