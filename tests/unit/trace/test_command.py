"""`genguard trace`: flags that cannot be are refused, each with what and what to do."""

import pytest
from click.testing import CliRunner

from webhook.cli import main


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give KIND/NAME, such as deployment/web"),
        (["deploy/web", "--timeout=soon"], "'soon' is not a time up to 1h, such as 30s or 5m"),
        (["deploy/web", "--timeout=soon"], "'soon' is not a time up to 1h, such as 30s or 5m"),
        (["deploy/web", "--timeout=0s"], "'0s' is not a time"),
        (["deploy/web", "--timeout=2h"], "'2h' is not a time"),
        (["deploy/web", "--timeout=-1s"], "is not a time"),
        (["deploy/web", "--writes=0"], "0 is not in the range x>=1"),
        (["deploy/web", "--url=http://h:1"], "'http://h:1' is not https://HOST:PORT"),
        (["deploy/web", "--url=https://h:99999"], "is not https://HOST:PORT"),
        (["deploy/web", "--url=https://h/path"], "is not https://HOST:PORT"),
        (["deploy/web", "--url=https://"], "is not https://HOST:PORT"),
        (["deploy/web", "--listen=h"], "'h' is not ADDRESS:PORT"),
        (["deploy/web", "--listen=h:x"], "'h:x' is not ADDRESS:PORT"),
        (["deploy/web", "-o", "yaml"], "is not one of"),
    ],
)
def test_a_flag_that_cannot_be_is_refused(arguments, told):
    result = CliRunner().invoke(main, ["trace", *arguments])
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize("given", [["--kubeconfig", "/nowhere"], []])
def test_without_a_cluster_it_says_where_it_looked(given, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    result = CliRunner().invoke(main, ["trace", "deploy/web", *given])
    assert result.exit_code == 1
    expected = "--kubeconfig /nowhere: " if given else "no cluster: set $KUBECONFIG"
    assert expected in " ".join(result.stderr.split())
