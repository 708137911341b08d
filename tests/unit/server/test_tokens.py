"""The tokens of the ops port: those of a cluster, and the token in a file."""

import asyncio

import pytest

from webhook.server.access import (
    ALLOWED_SECONDS,
    MOST_ASKED,
    MOST_KEPT,
    REFUSED_SECONDS,
    BadTokenFileError,
    Part,
    ReviewedTokens,
    TokenFile,
)

ALICE, BOB, NOBODY = ("alice", True), ("bob", False), ("", False)


class Api:
    """Knows some tokens; while it is not `open` it holds its answers back."""

    def __init__(self, **known) -> None:
        self.known = known
        self.asked = []
        self.open = asyncio.Event()
        self.open.set()
        self.at_once = self.most = 0

    async def review(self, token, verb, path):
        self.asked.append((token, verb, path))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.open.wait()
        self.at_once -= 1
        return self.known.get(token, NOBODY)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def status(tokens, token, part=Part.OBSERVED):
    refusal = await tokens.refuses(token, part)
    return refusal and refusal.status


@pytest.mark.parametrize(("token", "seconds"), [("a", ALLOWED_SECONDS), ("b", REFUSED_SECONDS)])
async def test_an_answer_is_kept_for_a_while_and_no_longer(token, seconds):
    api, clock = Api(a=ALICE, b=BOB), Clock()
    tokens = ReviewedTokens(api.review, clock)
    first = await status(tokens, token)
    api.known[token] = BOB if first is None else ALICE
    clock.now = seconds - 0.1
    assert await status(tokens, token) == first
    clock.now = seconds
    assert await status(tokens, token) != first
    assert len(api.asked) == 2


async def test_an_api_server_that_does_not_answer_is_asked_again_at_once():
    api = Api(a=None)
    tokens = ReviewedTokens(api.review)
    assert await status(tokens, "a") == 503
    api.known["a"] = ALICE
    assert await status(tokens, "a") is None


async def test_made_up_tokens_do_not_flood_the_api_server():
    api = Api()
    api.open.clear()
    tokens = ReviewedTokens(api.review)
    asking = [asyncio.create_task(status(tokens, str(one))) for one in range(80)]
    while not api.at_once:
        await asyncio.sleep(0)
    api.open.set()
    found = await asyncio.gather(*asking)
    assert api.most <= MOST_ASKED
    assert set(found) == {401}


async def test_what_is_kept_is_bounded():
    tokens = ReviewedTokens(Api().review)
    for one in range(MOST_KEPT + 5):
        await status(tokens, str(one))
    assert len(tokens._kept) == MOST_KEPT


GOOD = "0123456789abcdef"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "token"
    write_token(path, GOOD)
    return path


def write_token(path, text):
    path.write_text(text)
    path.chmod(0o600)


async def file_status(tokens, token):
    refusal = await tokens.refuses(token, Part.OBSERVED)
    return refusal and refusal.status


async def test_the_token_of_the_file_shows_everything_and_no_other_does(file):
    write_token(file, f"  {GOOD}\n")
    tokens = TokenFile(file)
    for part in Part:
        assert await tokens.refuses(GOOD, part) is None
    for wrong in ("", GOOD[:-1], GOOD + "x", GOOD.upper(), "é" * 16):
        assert await file_status(tokens, wrong) == 401


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o666, 0o602])
async def test_what_everybody_can_read_or_write_is_no_secret(file, mode):
    file.chmod(mode)
    with pytest.raises(BadTokenFileError, match="chmod o="):
        TokenFile(file)


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o600, 0o640])
async def test_a_group_may_read_it_as_that_of_a_mounted_secret_does(file, mode):
    file.chmod(mode)
    assert await file_status(TokenFile(file), GOOD) is None


@pytest.mark.parametrize("text", ["", "short", " " * 40, "a\nb" * 10, "x" * 9_000])
def test_a_file_without_one_usable_token_says_how_to_make_one(file, text):
    write_token(file, text)
    with pytest.raises(BadTokenFileError, match="openssl rand"):
        TokenFile(file)
