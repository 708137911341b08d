"""The image's recipe, read line by line: small, pinned, without root and without surprises."""

import re
import subprocess

import pytest

from tests.unit.manifest_files import REPOSITORY, container, pod_spec

TEXT = (REPOSITORY / "Dockerfile").read_text()


def instructions():
    """(word, rest) of each instruction, continued lines joined and comments left out."""
    lines = [line for line in TEXT.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


def stages():
    found = []
    for word, rest in instructions():
        if word == "FROM":
            found.append([])
        if found:
            found[-1].append((word, " ".join(rest.split())))
    return found


BUILD, FINAL = stages()


def values(stage, word):
    return [rest for found, rest in stage if found == word]


def test_two_stages_begin_with_one_image_that_a_digest_can_pin():
    assert BUILD[0] == ("FROM", "${PYTHON_IMAGE} AS build")
    assert FINAL[0] == ("FROM", "${PYTHON_IMAGE}")


def test_the_base_image_is_exact_and_has_the_fix_for_failed_handshakes():
    """python/cpython#109534: before 3.11.9 each failed handshake leaks a buffer."""
    argument = next(rest for word, rest in instructions() if word == "ARG")
    match = re.fullmatch(r"PYTHON_IMAGE=python:3\.11\.(\d+)-slim-[a-z]+", argument)
    assert match
    assert int(match[1]) >= 9
    assert ":latest" not in TEXT


@pytest.mark.parametrize(
    "command",
    [part.strip() for run in values(BUILD, "RUN") for part in run.split("&&") if "pip" in part],
)
def test_pip_takes_nothing_that_is_not_locked(command):
    if command.startswith("python -m venv"):
        assert "--without-pip" in command
        return
    if command.startswith("pip config"):
        assert "global.cert" in command
        return
    assert "--no-deps" in command
    locked = "--require-hashes" in command and "--only-binary :all:" in command
    assert locked or "--no-index" in command


def test_the_build_tool_is_one_pinned_line_of_the_developers_lock():
    (expression,) = re.findall(r"sed -n '([^']+)' requirements-dev\.lock", TEXT)
    lock = REPOSITORY / "requirements-dev.lock"
    done = subprocess.run(
        ["sed", "-n", expression, lock], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(
        r"setuptools==[\d.]+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+", done.stdout
    )


def test_what_the_image_needs_is_in_the_lock_with_hashes():
    lock = (REPOSITORY / "requirements.lock").read_text()
    pinned = re.findall(r"^[a-z0-9][a-z0-9._-]*==\S+ \\$", lock, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[a-z0-9]", lock, re.MULTILINE)) > 0


def test_an_index_and_a_ca_are_for_the_build_alone():
    """An argument without a value leaves pip's own setting; the image's history has neither."""
    assert {"PIP_INDEX_URL", "CA_CERTIFICATES"} <= set(values(BUILD, "ARG"))
    assert not {"PIP_INDEX_URL", "CA_CERTIFICATES"} & set(values(FINAL, "ARG"))
    assert "http" not in TEXT


def test_both_builders_can_build_it():
    """Docker's classic builder has no mounts and no files written in place."""
    assert "--mount" not in TEXT
    assert "<<" not in TEXT
    assert "syntax=" not in TEXT


def test_the_user_is_the_one_of_the_deployment():
    (user,) = values(FINAL, "USER")
    context = pod_spec()["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_it_starts_without_a_shell_and_with_the_verb_of_the_deployment():
    (entry,), (command,) = values(FINAL, "ENTRYPOINT"), values(FINAL, "CMD")
    assert entry == '["/opt/genguard/bin/genguard"]'
    assert command == f'["{container()["args"][0]}"]'
    assert "command" not in container()


def test_the_context_holds_what_is_copied_and_nothing_else():
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    copied = {name for rest in values(BUILD, "COPY") for name in rest.split()[:-1]}
    action = (REPOSITORY / "Dockerfile.action").read_text()
    copied |= {
        name
        for rest in re.findall(r"^COPY (.+)$", action, re.MULTILINE)
        for name in rest.split()[:-1]
    }
    assert lines[1] == "*"
    assert kept == copied
