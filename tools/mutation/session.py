"""`python -m tools.mutation.session FILE CHILDREN TESTS...`: tries each fault in the copy.

FILE lists the faults; at the end it lists those that no test has noticed. The tests are collected
once and run once without a fault. Then the process forks for each fault and runs the tests that
call the changed function until one fails. Modules are not imported again, so a fault in what runs
at import is not tried.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state
from mutmut.utils.format_utils import mangled_name_from_mutant_name

_ARGUMENTS = ("-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--timeout=3000")
_TIMES_AS_LONG = 20
_SECONDS = 3
_BYTES = 4 << 30


class Mutating:
    """A pytest plugin that replaces pytest's loop over the tests."""

    def __init__(self, file: Path, children: int) -> None:
        self._file = file
        self._children = children
        self._calls: dict[str, list[pytest.Item]] = {}
        self._seconds: dict[pytest.Item, float] = {}
        self._is_child = False

    def pytest_sessionstart(self) -> None:
        """Stop Hypothesis at the first failing example: nobody reads the smallest one here."""
        from hypothesis import Phase, settings  # noqa: PLC0415 - pytest has to come first

        phases = Phase.explicit, Phase.generate
        settings.register_profile("mutation", settings(), phases=phases, database=None)
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all tests without a fault, then those that matter with each fault."""
        set_mutant_under_test("stats")
        for item in _run(session.items):
            for function in state()._stats:
                self._calls.setdefault(function, []).append(item)
            state()._stats.clear()
        if not session.testsfailed:
            set_mutant_under_test("")
            names = json.loads(self._file.read_text())
            self._file.write_text(json.dumps(list(self._survivors(names))))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End a forked process with its first failing test."""
        if self._is_child and report.failed:
            os._exit(1)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Measure the processor time of a test."""
        begun = time.process_time()
        found = yield
        self._seconds[item] = time.process_time() - begun
        return found

    def _survivors(self, names: list[str]) -> Iterator[str]:
        running: dict[int, str] = {}
        for name in [*names, *[None] * self._children]:
            if len(running) == self._children or (name is None and running):
                process, status = os.wait()
                ended = running.pop(process)
                if status == 0:
                    yield ended
            if name is not None:
                running[self._fork(name)] = name

    def _fork(self, name: str) -> int:
        items = self._calls.get(mangled_name_from_mutant_name(name), [])
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            self._is_child = True
            try:
                self._try(name, items)
            except BaseException:
                os._exit(1)
            os._exit(0)
        return process

    def _try(self, name: str, items: list[pytest.Item]) -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        allowed = int(_TIMES_AS_LONG * sum(self._seconds[item] for item in items)) + _SECONDS
        spent = int(time.process_time())
        resource.setrlimit(resource.RLIMIT_CPU, (spent + allowed, spent + allowed))
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
        set_mutant_under_test(name)
        for _ in _run(sorted(items, key=lambda item: self._seconds[item])):
            pass


def _run(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        yield item


if __name__ == "__main__":
    listed, processes, *tests = sys.argv[1:]
    loop = Mutating(Path(listed), int(processes))
    raise SystemExit(pytest.main([*_ARGUMENTS, *tests], plugins=[loop]))
