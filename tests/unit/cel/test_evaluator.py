"""matchConditions are evaluated within limits, whatever they say and whatever they read."""

import json
import multiprocessing
import os
import resource
import signal
import sys
import threading

import pytest

from genguard.admission.decode import decode_review
from genguard.admission.review import AdmissionRequest
from genguard.objects.selectors import Truth
from tests.cases_loader import table
from tests.costly_objects import costly_object
from tests.reviews import make_review
from webhook.cel.evaluator import LONGEST, MOST_BYTES, Evaluator
from webhook.cel.programs import MOST_CONDITIONS
from webhook.cel.worker import MOST_MEMORY, Limits

SMALL = {"metadata": {"name": "web"}, "spec": {"replicas": 3}}
HONEST = "object.spec.replicas == 3"
FOREVER = "object.spec.list.all(x, x in oldObject.spec.list)"


def request(stored=SMALL) -> AdmissionRequest:
    asked = make_review(new=stored, old=stored)
    return decode_review(json.dumps(asked).encode())


@pytest.fixture
def evaluator():
    with Evaluator() as made:
        yield made


def ask(evaluator: Evaluator, expression: str, stored=SMALL) -> Truth:
    return evaluator.evaluate([expression], request(stored))[expression]


@pytest.mark.slow
@table("conditions/costly.yaml", "expression", "over", "costly")
def test_what_costs_too_much_is_unknown_and_never_asked_again(case, evaluator):
    filled, expression = costly_object(case["over"]), case["expression"]
    assert ask(evaluator, expression, filled) is Truth.UNKNOWN, case.because
    assert evaluator.costly == case["costly"]
    assert ask(evaluator, HONEST) is Truth.TRUE, "the next is evaluated by a new worker"
    started = evaluator.started
    assert ask(evaluator, expression, filled) is Truth.UNKNOWN
    assert ask(evaluator, HONEST) is Truth.TRUE
    assert evaluator.started == started, "it was not evaluated again"


def test_the_kernel_holds_the_worker_to_its_memory_and_keeps_no_core_of_it(evaluator):
    ask(evaluator, HONEST)
    assert resource.prlimit(evaluator.pid, resource.RLIMIT_AS) == (MOST_MEMORY, MOST_MEMORY)
    assert resource.prlimit(evaluator.pid, resource.RLIMIT_CORE) == (0, 0)


def test_the_worker_forgets_the_variables_of_the_server(evaluator, monkeypatch):
    monkeypatch.setenv("PASSWORD", "secret")
    ask(evaluator, HONEST)
    assert evaluator._pool.submit(os.getenv, "PASSWORD").result() is None


def test_a_worker_that_somebody_ended_is_replaced_and_no_expression_is_blamed(evaluator):
    ask(evaluator, HONEST)
    before = evaluator.started
    os.kill(evaluator.pid, signal.SIGKILL)
    assert ask(evaluator, HONEST) is Truth.TRUE
    assert evaluator.started > before
    assert evaluator.costly == 0


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false"])
def test_where_no_worker_can_be_started_all_is_unknown_and_it_is_tried_again_later(
    evaluator, monkeypatch, program
):
    multiprocessing.set_executable(program)
    assert ask(evaluator, HONEST) is Truth.UNKNOWN
    multiprocessing.set_executable(sys.executable)
    assert ask(evaluator, HONEST) is Truth.UNKNOWN
    assert (evaluator.started, evaluator.costly) == (0, 0)
    monkeypatch.setattr(evaluator, "_not_before", 0.0)
    assert ask(evaluator, HONEST) is Truth.TRUE


def test_who_waits_for_an_answer_gets_none_when_the_server_ends():
    with Evaluator(answer_seconds=60.0) as evaluator:
        ask(evaluator, HONEST)
        os.kill(evaluator.pid, signal.SIGSTOP)  # it will not answer
        answers = []
        waits = threading.Thread(target=lambda: answers.append(ask(evaluator, HONEST)))
        waits.start()
    waits.join(30.0)
    assert answers == [Truth.UNKNOWN]
    assert (evaluator.pid, evaluator.costly) == (None, 0)
    assert ask(evaluator, HONEST) is Truth.UNKNOWN
    assert evaluator.pid is None, "none is started after the end"


@pytest.mark.slow
def test_a_worker_that_does_not_answer_is_ended_and_another_one_is_asked(evaluator):
    # With the real patience: the other worker needs it too, where the machine is busy.
    ask(evaluator, "true")
    stopped = evaluator.pid
    os.kill(stopped, signal.SIGSTOP)
    assert ask(evaluator, HONEST) is Truth.TRUE
    assert evaluator.costly == 0
    assert evaluator.pid != stopped


@pytest.mark.parametrize(
    ("expression", "stored", "holds", "because"),
    [
        ("true" + " " * (LONGEST - 4), SMALL, Truth.TRUE, "just short enough"),
        ("true" + " " * (LONGEST - 3), SMALL, Truth.UNKNOWN, "too long"),
        ("object != null", {**SMALL, "spec": "x" * MOST_BYTES}, Truth.UNKNOWN, "too large"),
    ],
)
def test_what_is_too_long_or_too_large_is_not_evaluated(
    evaluator, expression, stored, holds, because
):
    assert ask(evaluator, expression, stored) is holds, because
    assert evaluator.costly == 0


@pytest.mark.slow
def test_as_many_of_the_largest_programs_as_are_kept_fit_into_the_memory():
    # A machine that is busy takes longer for each: here it is about memory alone.
    with Evaluator(Limits(cpu_seconds=60.0), answer_seconds=60.0) as evaluator:
        for number in range(MOST_CONDITIONS + 5):
            largest = "[" + "1," * ((LONGEST - 20) // 2) + f"{number}].size() > 1"
            assert ask(evaluator, largest) is Truth.TRUE
        assert (evaluator.started, evaluator.costly) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression",
    [
        "(" * 2_000 + "true" + ")" * 2_000,
        "!" * 4_000 + "object.nope",
        "+".join(["1"] * 2_000) + " > 0",
        "object" + ".a" * 2_000 + " == 1",
        " || ".join(["object.nope"] * 250),
        "[1, 2, 3].all(a, " * 12 + "true" + ")" * 12,
        "''.matches('((((a{1,900}){1,900}){1,900}){1,900})')",
        "object.metadata.name == '\x00'",
        "size('\\ud800') == 1",
    ],
    ids=lambda one: ascii(one)[:16],
)
def test_no_expression_harms_the_process(evaluator, expression):
    assert ask(evaluator, expression) in Truth
    assert ask(evaluator, HONEST) is Truth.TRUE


def test_what_costs_too_much_is_counted_and_the_log_quotes_it(evaluator, caplog):
    ask(evaluator, FOREVER, costly_object("numbers"))
    assert evaluator.costly == 1
    assert [record.fields["expression"] for record in caplog.records] == [FOREVER]
