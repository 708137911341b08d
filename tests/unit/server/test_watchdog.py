"""A real process whose event loop stands still is ended; one that was frozen is not."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.waiting import PATIENCE
from webhook.server.overload import EXIT_STUCK

SECONDS = 0.5
PROGRAM = f"""
import asyncio, sys, time
from webhook.server.overload import watchdog
from webhook.telemetry.logs import logging_to_stderr

def stands_still():
    time.sleep(3_600)

async def main():
    with watchdog({SECONDS}):
        print("turning", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            stands_still() if line.strip() == "block" else print("answered", flush=True)

with logging_to_stderr():
    asyncio.run(main())
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "turning\n"
        yield started
        started.kill()


def test_a_loop_that_stands_still_ends_its_process_and_the_log_has_every_stack(process):
    _, errors = process.communicate("block\n", timeout=PATIENCE)
    assert process.returncode == EXIT_STUCK
    (line,) = [json.loads(one) for one in errors.splitlines()]
    assert (line["level"], line["seconds"] >= SECONDS // 1) == ("critical", True)
    assert any("in stands_still" in one for one in line["stacks"])
    assert sum(one.startswith(("Thread ", "Current thread ")) for one in line["stacks"]) >= 2


def test_a_process_that_was_frozen_for_longer_goes_on(process):
    process.send_signal(signal.SIGSTOP)
    time.sleep(4 * SECONDS)
    process.send_signal(signal.SIGCONT)
    time.sleep(2 * SECONDS)
    assert process.poll() is None
    process.stdin.write("go on\n")
    process.stdin.flush()
    assert process.stdout.readline() == "answered\n"


def test_a_loop_that_is_busy_and_turns_is_left_alone(process):
    time.sleep(3 * SECONDS)
    out, _ = process.communicate("go on\n", timeout=PATIENCE)
    assert (out, process.returncode) == ("answered\n", 0)
