"""Where `genguard serve` listens by default."""

import pytest

from webhook.cli.serve import serve as command

ADDRESSES = {"bind-address": "GENGUARD_BIND_ADDRESS", "ops-address": "GENGUARD_OPS_ADDRESS"}


@pytest.mark.parametrize(("flag", "variable"), ADDRESSES.items())
def test_the_environment_says_where_to_listen_by_default(flag, variable, monkeypatch):
    """The image sets both variables: published ports lead to its container's own address."""
    monkeypatch.delenv(variable, raising=False)
    assert address(flag) == "127.0.0.1"
    monkeypatch.setenv(variable, "192.0.2.3")
    assert address(flag) == "192.0.2.3"


@pytest.mark.parametrize(("flag", "variable"), ADDRESSES.items())
def test_a_flag_wins_over_the_environment(flag, variable, monkeypatch):
    monkeypatch.setenv(variable, "192.0.2.3")
    assert address(flag, f"--{flag}", "192.0.2.2") == "192.0.2.2"


def address(flag: str, *arguments: str) -> str:
    """What a command line makes of the flag; nothing is started."""
    context = command.make_context("serve", list(arguments))
    found: str = context.params[flag.replace("-", "_")]
    return found
