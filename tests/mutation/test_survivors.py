"""The list of mutants that may live speaks of the code as it is."""

import importlib
import inspect

import pytest

from tests.mutation.__main__ import PACKAGES, _is_of
from tests.mutation.mutants import ROOT, Mutant
from tests.mutation.survivors import load

LISTED = load()


@pytest.mark.parametrize("one", LISTED, ids=lambda one: one.function.removeprefix("webhook."))
def test_each_names_a_function_that_has_its_lines_and_the_reason(one: Mutant):
    assert any(_is_of(name, one.function) for name in PACKAGES)
    module, _, name = one.function.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        module, _, owner = module.rpartition(".")
        found = vars(getattr(importlib.import_module(module), owner))[name]
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    lines = " ".join(line.strip() for line in inspect.getsource(found).splitlines())
    assert one.was in lines
    assert one.was != one.now
    assert LISTED[one]


def test_every_package_and_its_tests_are_there():
    for package in PACKAGES.values():
        for path in (*package.sources, *package.tests):
            assert (ROOT / path).exists()
