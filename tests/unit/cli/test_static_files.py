"""`--static-webhooks`: files and folders that are read, and how one that is not is refused."""

from pathlib import Path

import pytest

from tests.reviews import make_review
from tests.unit.cli.samples import clobbered, lines, recorded, replay, serve, write_lines
from tests.unit.detection.policies import binding, policy
from tests.unit.detection.test_static_manifests import BINDING, HOOK, POLICY
from webhook.files.given import BadFileError, load_static

NAME = "pins.static.k8s.io/h.example.org"


def test_the_manifests_of_a_folder_are_read_as_the_api_server_does(tmp_path):
    write_lines(tmp_path / "b.json", POLICY)
    write_lines(tmp_path / "a.YAML", {"kind": "List", "items": [HOOK]})
    write_lines(tmp_path / "c.yml", BINDING)
    (tmp_path / "README.md").write_text("no manifest")
    (tmp_path / "inside.yaml").mkdir()
    write_lines(tmp_path / "inside.yaml" / "a.json", {"kind": "ConfigMap"})
    found = load_static([tmp_path])
    assert [one.name for one in found.webhooks] == [NAME]
    assert [one.name for one in found.policies] == ["pins.static.k8s.io"]


def test_a_mounted_configmap_is_read_once(tmp_path):
    # kubelet: each key is a link into a folder that is replaced as a whole.
    (tmp_path / "..2026").mkdir()
    write_lines(tmp_path / "..2026" / "a.json", HOOK)
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "a.json").symlink_to("..data/a.json")
    assert [one.name for one in load_static([tmp_path]).webhooks] == [NAME]


def test_a_binding_may_be_in_another_folder_than_its_policy(tmp_path):
    first = write_lines(tmp_path / "a.json", BINDING)
    second = write_lines(tmp_path / "b.json", POLICY)
    assert len(load_static([first, second]).policies) == 1


@pytest.mark.parametrize(
    ("documents", "place", "told"),
    [
        ([HOOK, {"kind": "ConfigMap"}], "a.json:2", "give the files of the API server's"),
        ([HOOK, HOOK], "a.json:2", "of the same name as at"),
        ([{"kind": "List", "items": [HOOK, HOOK]}], "a.json:1", "remove one of them"),
        ([POLICY, BINDING | binding("other.static.k8s.io") | {"metadata": BINDING["metadata"]}],
         "a.json:2", "give its file as well"),
        ([policy("pins")], "a.json:1", "whose name does not end with .static.k8s.io"),
        ([HOOK | {"webhooks": "canary"}], "a.json:1", "$.webhooks"),
        (["canary"], "a.json", "at line 1"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_one_line_with_its_place(tmp_path, documents, place, told):
    given = write_lines(tmp_path / "a.json", *documents)
    for refused in (
        replay("--static-webhooks", given, write_lines(tmp_path / "log", clobbered())),
        serve("--static-webhooks", given),
    ):
        assert refused.exit_code == 2
        (line,) = [one for one in refused.stderr.splitlines() if "--static-webhooks" in one]
        assert place in line
        assert told in line
        assert "canary" not in line


def test_a_folder_without_manifests_is_refused_with_what_to_give(tmp_path):
    with pytest.raises(BadFileError, match=r"no \.yaml.* give none instead"):
        load_static([tmp_path])


def test_a_path_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadFileError, match="No such file"):
        load_static([tmp_path / "x"])


def test_none_is_not_the_same_as_nothing_given():
    assert load_static([]) is None
    assert load_static([Path("none")]) == ((), ())


def test_replay_names_a_static_webhook_and_its_requester_is_likely(tmp_path):
    rows = []
    for turn in range(6):
        sides = {"status": {"observedGeneration": 1}}, {"status": {"turn": turn}}
        user, (new, old) = ("a", sides) if turn % 2 == 0 else ("b", sides[::-1])
        asked = make_review(new=new, old=old, subresource="status", user=user)
        rows += [recorded(phase, asked, turn) for phase in ("intent", "mutate", "outcome")]
    log = write_lines(tmp_path / "a", *rows)
    given = write_lines(tmp_path / "static.json", HOOK)
    for flags, first in (([], "b"), (["--static-webhooks", "none"], "b"),
                         (["--static-webhooks", given], NAME)):  # fmt: skip
        told = lines(replay("-o", "json", *flags, log))
        (found,) = [one for one in told if one.get("detector") == "observed-generation-cleared"]
        assert found["actors"][0]["name"] == first
