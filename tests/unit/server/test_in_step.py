"""Requests that came together are answered in step."""

import asyncio
from dataclasses import dataclass, field

from webhook.server.in_step import MOST_AT_ONCE, Steps, Together


@dataclass(eq=False)
class Asker:
    """Writes down each of its steps."""

    name: str
    steps: int
    done: list[str] = field(default_factory=list)

    def answer(self) -> Steps:
        """Answer it."""
        for number in range(self.steps):
            self.done.append(f"{self.name}{number}")
            yield


def askers(*steps: int) -> tuple[list[Asker], list[str]]:
    done: list[str] = []
    return [Asker(chr(ord("a") + at), many, done) for at, many in enumerate(steps)], done


async def test_the_first_step_of_each_comes_before_the_second_of_any():
    together, (some, done) = Together(), askers(3, 1, 2)
    for one in some:
        together.join(one)
    assert done == []
    await asyncio.sleep(0)
    assert done == ["a0", "b0", "c0", "a1", "c1", "a2"]


async def test_who_joins_twice_is_answered_once():
    together, ((one, other), done) = Together(), askers(1, 1)
    for joins in (one, other, one):
        together.join(joins)
    await asyncio.sleep(0)
    assert done == ["a0", "b0"]


async def test_who_comes_in_a_later_turn_is_answered_in_that():
    together, ((one, other), done) = Together(), askers(1, 1)
    together.join(one)
    await asyncio.sleep(0)
    together.join(other)
    assert done == ["a0"]
    await asyncio.sleep(0)
    assert done == ["a0", "b0"]


async def test_the_first_does_not_wait_for_all_of_very_many():
    together, (some, done) = Together(), askers(*[2] * (MOST_AT_ONCE + 1))
    for one in some:
        together.join(one)
    await asyncio.sleep(0)
    assert len(done) == 2 * (MOST_AT_ONCE + 1)
    assert {one[0] for one in done[: 2 * MOST_AT_ONCE]} == {one.name for one in some[:-1]}
