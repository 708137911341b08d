"""Several kubeconfig files are read as kubectl reads them; tests/malformed has those of no use."""

import os

import pytest

from webhook.cluster.connection import NoClusterError, check_kubeconfig

GOOD = """
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a, namespace: shop}}]
users: [{name: a, user: {token: secret}}]
current-context: a
"""


def test_of_several_files_one_may_be_missing_and_the_first_counts(tmp_path):
    (tmp_path / "good").write_text(GOOD)
    (tmp_path / "other").write_text(GOOD.replace("shop", "other"))
    files = (str(tmp_path / name) for name in ("missing", "good", "other"))
    assert check_kubeconfig(os.pathsep.join(files))["namespace"] == "shop"


@pytest.mark.parametrize("content", ["clusters: secret", "contexts: [{name: secret}]", "[secret"])
def test_a_bad_file_is_named_and_no_value_of_it(content, tmp_path):
    file = tmp_path / "config"
    file.write_text(content)
    with pytest.raises(NoClusterError) as found:
        check_kubeconfig(str(file))
    assert str(found.value).startswith(f"--kubeconfig {file}: ")
    assert "secret" not in str(found.value)
