"""What `make mutate` complains about."""

from tools.mutation.__main__ import PACKAGES, Score, complaints
from tools.mutation.mutants import ROOT, Mutant


def faults(function: str, count: int) -> list[Mutant]:
    return [Mutant(function, "return 1", f"return {number}") for number in range(count)]


def test_each_package_has_unit_tests_of_its_own():
    for name in PACKAGES:
        assert list((ROOT / "genguard" / name).rglob("*.py"))
        assert list((ROOT / "tests/unit" / name).rglob("test_*.py"))


def test_one_fault_of_twenty_may_be_missed():
    assert list(complaints(Score(faults("f", 20), faults("f", 1)))) == []


def test_two_faults_of_twenty_are_too_many():
    (complaint,) = complaints(Score(faults("f", 20), faults("f", 2)))
    assert "95%" in complaint


def test_a_function_that_nobody_tests_is_named_although_its_package_is_tested_well():
    score = Score([*faults("well_tested", 96), *faults("forgotten", 4)], faults("forgotten", 4))
    assert list(complaints(score)) == ["forgotten: the tests miss 4 of 4 faults"]


def test_a_function_with_few_faults_is_judged_with_its_package():
    score = Score([*faults("well_tested", 97), *faults("short", 3)], faults("short", 3))
    assert list(complaints(score)) == []
