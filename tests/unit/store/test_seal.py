"""What is sealed is opened by who has the key, in the place that it was sealed for."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.store.circuit_breaker import StoreLostError
from webhook.store.seal import SHORTEST, KeyFile, Plain, Sealed, UnsealedError

OLD, NEW = "an old key, which is long enough", "a new key, which is even longer than that"
PLACE, ELSEWHERE = b"i0123", b"t0123"


def seal(*keys: str) -> Sealed:
    found = Sealed()
    found.use(keys)
    return found


@given(st.binary(min_size=1), st.binary())
def test_what_was_sealed_is_opened_and_equal_contents_are_equal_bytes(
    content: bytes, place: bytes
) -> None:
    sealed = seal(OLD).close(place, content)
    assert seal(OLD).open(place, sealed) == content
    assert seal(OLD).close(place, content) == sealed, "the store compares two intents"


def test_nothing_of_the_content_is_seen() -> None:
    assert b"a telling name" not in seal(OLD).close(PLACE, b"a telling name")


@pytest.mark.parametrize(
    "forged",
    [
        b"",
        b"\xc1",
        b"content",
        b"\xc1content that is long enough to hold a tag",
        seal(NEW).close(PLACE, b"content"),
        seal(OLD).close(ELSEWHERE, b"content"),
        seal(OLD).close(PLACE, b"content")[:-1],
        seal(OLD).close(PLACE, b"content") + b"x",
        seal(OLD).close(PLACE, b"content").replace(b"\xc1", b"", 1),
    ],
)
def test_what_nobody_with_the_key_has_sealed_for_this_place_is_refused_and_told(
    forged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UnsealedError):
        seal(OLD).open(PLACE, forged)
    assert [one.message for one in caplog.records] == ["value of the store refused"]


def test_a_key_is_renewed_while_the_one_before_is_still_accepted() -> None:
    renewed = seal(NEW, OLD)
    assert renewed.open(PLACE, seal(OLD).close(PLACE, b"content")) == b"content"
    assert seal(NEW).open(PLACE, renewed.close(PLACE, b"content")) == b"content"
    assert renewed.names == seal(NEW).names != seal(OLD).names


def test_no_version_without_seals_can_read_what_is_sealed() -> None:
    """No value of MessagePack begins with this byte, so it is dropped there unread."""
    assert seal(OLD).close(PLACE, b"content").startswith(b"\xc1")


def test_two_that_have_read_no_key_trust_nobody_and_not_each_other() -> None:
    with pytest.raises(UnsealedError):
        Sealed().open(PLACE, Sealed().close(PLACE, b"content"))


def test_without_a_key_file_values_are_as_they_are() -> None:
    assert Plain().close(PLACE, b"content") == Plain().open(ELSEWHERE, b"content") == b"content"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        (b"\xff" * SHORTEST, "cannot be read"),
        (b"", "no key"),
        (b"\n\n", "no key"),
        (b"x" * (SHORTEST - 1), "too short"),
        (OLD.replace(" ", "-").encode() + b"\nshort\n", "too short"),
    ],
)
async def test_where_there_is_no_key_nothing_is_shared_and_the_reason_says_what_to_do(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(StoreLostError, match=f"{reason}.*openssl rand -hex 32.*install --ha"):
        await KeyFile(file).read()


async def test_a_key_that_is_spoilt_later_is_told_and_the_last_good_one_goes_on(
    tmp_path: Path,
) -> None:
    file, other = tmp_path / "key", "k" * SHORTEST
    keys = KeyFile(file)
    file.write_text(f"{other}\n")
    await keys.read()
    file.write_text("short")
    with pytest.raises(StoreLostError):
        await keys.read()
    assert seal(other).open(PLACE, keys.seal.close(PLACE, b"content")) == b"content"
    file.write_text(f"{'n' * SHORTEST}\r\n{other}\r\n")
    await keys.read()
    assert keys.seal.names == seal("n" * SHORTEST).names
    assert keys.seal.open(PLACE, seal(other).close(PLACE, b"content")) == b"content"
