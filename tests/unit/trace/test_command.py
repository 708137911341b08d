"""`genguard trace`: flags that cannot be are refused, each with what and what to do."""

import pytest
from click.testing import CliRunner

from tests.cases_loader import table
from webhook.cli import main


@table("trace/flags.yaml", "arguments", "told")
def test_a_flag_that_cannot_be_is_refused(case):
    result = CliRunner().invoke(main, ["trace", *case["arguments"]])
    assert result.exit_code == 2
    assert case["told"] in " ".join(result.stderr.split()), case.because


@pytest.mark.parametrize("given", [["--kubeconfig", "/nowhere"], []])
def test_without_a_cluster_it_says_where_it_looked(given, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    result = CliRunner().invoke(main, ["trace", "deploy/web", *given])
    assert result.exit_code == 1
    expected = "--kubeconfig /nowhere: " if given else "no cluster: set $KUBECONFIG"
    assert expected in " ".join(result.stderr.split())
