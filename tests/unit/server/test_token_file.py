"""One token in a file."""

import pytest

from webhook.server.access import Part
from webhook.server.token_file import BadTokenFileError, TokenFile

GOOD = "0123456789abcdef"
OTHER = "fedcba9876543210"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "token"
    write(path, GOOD)
    return path


def write(path, text, mode=0o600):
    """As a mounted Secret changes: another file in the place of the first."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(mode)
    new.replace(path)


async def status(tokens, token):
    refusal = await tokens.refuses(token, Part.OBSERVED)
    return refusal and refusal.status


async def test_the_token_of_the_file_shows_everything_and_no_other_does(file):
    write(file, f"  {GOOD}\n")
    tokens = TokenFile(file)
    for part in Part:
        assert await tokens.refuses(GOOD, part) is None
    for wrong in ("", GOOD[:-1], GOOD + "x", GOOD.upper(), "é" * 16):
        assert await status(tokens, wrong) == 401


async def test_it_is_read_again_when_the_file_is_another(file):
    tokens = TokenFile(file)
    write(file, OTHER)
    assert await status(tokens, GOOD) == 401
    assert await status(tokens, OTHER) is None


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o666, 0o602])
async def test_what_everybody_can_read_or_write_is_no_secret(file, mode):
    file.chmod(mode)
    with pytest.raises(BadTokenFileError, match="chmod o="):
        TokenFile(file)


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o600, 0o640])
async def test_a_group_may_read_it_as_that_of_a_mounted_secret_does(file, mode):
    file.chmod(mode)
    assert await status(TokenFile(file), GOOD) is None


@pytest.mark.parametrize("text", ["", "short", " " * 40, "a\nb" * 10, "x" * 9_000])
def test_a_file_without_one_usable_token_says_how_to_make_one(file, text):
    write(file, text)
    with pytest.raises(BadTokenFileError, match="openssl rand"):
        TokenFile(file)


def test_bytes_that_are_no_text_are_no_token(file):
    file.write_bytes(b"\xff" * 32)
    with pytest.raises(BadTokenFileError, match="must hold one token"):
        TokenFile(file)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadTokenFileError, match="No such file"):
        TokenFile(tmp_path / "none")


async def test_while_the_file_is_of_no_use_nobody_is_let_in(file, caplog):
    tokens = TokenFile(file)
    file.unlink()
    assert await status(tokens, GOOD) == 503
    assert await status(tokens, GOOD) == 503
    assert [record.message for record in caplog.records] == ["token file refused"], "told once"
    write(file, OTHER)
    assert await status(tokens, OTHER) is None
    file.chmod(0o644)
    assert await status(tokens, OTHER) == 503
