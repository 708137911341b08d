"""Nothing that comes from an object becomes a part of a page: not a tag, not an attribute."""

from functools import partial
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genguard.admission.matching import Matched
from genguard.detection.finding import Actor, Confidence, Finding, FixStep, FoundObject, Severity
from genguard.detection.sample import PatchedField, ShownField, ShownValue, WriteDiff
from genguard.detection.webhook_changes import ChangedField, WebhookChanges
from genguard.status.terminating_pods import Agreement, Count
from genguard.status.view import Health
from tests.cases_loader import read_beside
from webhook.dashboard import findings, objects, terminating, webhooks
from webhook.dashboard.broken import Broken, NotSettled, OverallState
from webhook.dashboard.headlines import happening, headline, kinds
from webhook.dashboard.object_page import Branch, ObjectPage
from webhook.dashboard.page import BadQueryError
from webhook.dashboard.rendering import render
from webhook.dashboard.runbook import runbook_of
from webhook.dashboard.timeline import Step, Stored, plot

ABOUT = {"mode": "enforcing", "version": "1", "instance": "here", "store": "memory"}
NOW = 1_750_000_000.0
THEN = "2025-06-15T15:00:00Z"
NASTY = st.text(max_size=40) | st.sampled_from(read_beside(__file__, "words.yaml")["nasty"])


class Shape(HTMLParser):
    """The tags of a page with the names of their attributes, and all that links lead to."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []
        self.links: list[str] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, *(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]

    def handle_endtag(self, tag):
        self.tags.append((f"/{tag}",))


def shown(template, model, **values):
    common = {"now": NOW, "path": "/", "last_review": NOW, "about": ABOUT}
    common |= {"headline": partial(headline, kind_of=kinds(()))}
    page = render(template, {"model": model, **values, **common})
    text = page.decode()
    assert all(one.isprintable() or one == "\n" for one in text), "nothing that cannot be seen"
    shape = Shape(page)
    assert all(link.startswith(("/", "#")) for link in shape.links)
    for tag in shape.tags:
        assert not [name for name in tag[1:] if name.startswith("on") or name == "style"]
    return shape.tags


def found(text):
    return Finding(
        id=text,
        detector="status-clobbered",
        severity=Severity.WARNING,
        state="open",
        object=FoundObject("g", "v1", text or "r", text or "n", text, text),
        subresource=text or "status",
        paths=(text,),
        actors=(Actor("webhook", text, text or "m", Confidence.CERTAIN),),
        count=3,
        first_seen=THEN,
        last_seen=THEN,
        message=text,
        evidence=(
            {"time": THEN, "user": text, "what": text, "many": [text, {text: text}]},
            {"time": THEN, "actor": text, "note": text or "created 4 s before the first signal"},
        ),
    )


def field(text):
    values = (ShownValue(value=text), ShownValue(hidden=text or "A"), ShownValue(absent=True))
    return ShownField(text, text, *values)


def patched(text):
    return PatchedField("replace", text, text)


def tracked(text):
    return objects.TrackedObject(
        group=text or "g", resource=text, kind=text, namespace=text or "n", name=text, uid=text,
        generation=1, observed_generation=1, reconciled_generation=1, ready=True, settled=True,
        health=Health.GREEN, since=THEN, intent_since=None, observation_lag_seconds=None,
        reconcile_duration_seconds=None, ready_flips=0, blocked_by=text or "b",
    )  # fmt: skip


def step(text):
    return Step(
        time=NOW - 5, user=text, field_manager=text or "m", subresource=text or "status",
        stored=Stored.YES, generation=1, counted=False, observed=1, changed=(text,),
        changed_count=1, others=(text,), mended=(text,), lost=(text,), fields=(field(text),),
    )  # fmt: skip


def not_settled(text):
    return NotSettled(
        group=text, resource=text or "r", kind=text, namespace=text or "n", name=text, uid=text,
        health=Health.RED, since=THEN, blocks=text or "b", blocked_object=text or "o", more=1,
        stuck=True, finding=text or "f", culprit=text, relation="owned",
    )  # fmt: skip


def findings_page(text):
    asked = {"q": "", "namespace": text[:20].strip() or "n", "culprit": "c"}
    asked = findings.parse(asked, state="open", limit=1)
    known = [msgspec.structs.replace(found(text), id=one) for one in (text or "f", "another")]
    thing = not_settled(text)
    things = (thing,) * 6
    broken = Broken(OverallState.BROKEN, THEN, 3, 2, 6, 1, things, things, ("no cluster",))
    wanted = msgspec.structs.replace(asked, namespace="", culprit="")
    data = findings.home(known, wanted, broken, NOW, kinds(()))
    first = msgspec.structs.replace(known[0], diff=diff_of(text))
    values = {**data.values, "asked": asked, "tracked": 1, "first": first, "connected": True}
    values["first_step"] = FixStep(text, text, text or "c")
    values["happenings"] = {one.id: happening(first) for one in known}
    return shown("findings.html", data.model, **values)


def diff_of(text):
    return WriteDiff(THEN, f"by {text}", text or "m", (field(text),), (patched(text),), 1)


def finding_page(text):
    model = msgspec.structs.replace(
        found(text),
        fix=(
            FixStep(text, text, stanza=text or "s"),
            FixStep(text, text, text or "c", lasting=True),
        ),
        diff=diff_of(text),
    )
    page = runbook_of(model, "audit-only", text)
    beside = {"cause": found(text), "consequences": [found(text)], "again": ""}
    return shown("finding.html", model, page=page, **beside)


def objects_page(text):
    page = objects.ObjectsPage((tracked(text),), "00", 2, 1)
    asked = {"q": text or "q", "namespace": text or "n"}
    values = {"asked": asked, "healths": (), "kinds": ["Pod"], "known": 2, "limit": 1, "stuck": ()}
    values |= {"since": "", "shown": asked, "most": 1}
    return shown("objects.html", page, **values)


def object_page(text):
    one = tracked(text)
    tree = Branch(one, (Branch(msgspec.structs.replace(one, uid="child"), (), 1),), 0)
    page = ObjectPage(
        text or "g", text, text or "n", text or "name", text, True, one, (step(text),), (),
        (found(text),), tree,
    )  # fmt: skip
    return shown(
        "object.html", page, plot=plot(page.writes, (), NOW), stuck=(),
    )  # fmt: skip


def webhooks_page(text):
    policy = f"is {text}"  # what is not `Ignore` stands out
    named = webhooks.NamedBy(text, text, Severity.WARNING, Confidence.CERTAIN, 1)
    changes = WebhookChanges(text, text, 2, 1, 1, (ChangedField(text, text, 1),))
    link = webhooks.ListedWebhook(
        1,
        text,
        text,
        webhooks.Role.SUSPECT,
        "",
        True,
        (text,),
        (text,),
        policy,
        10,
        1,
        1,
        (named,),
        (changes,),
    )
    write = Matched("", "v1", text or "r", text or "s", "UPDATE", text or "n", "")
    page = webhooks.WebhooksPage((text,), (link,), 1, True)
    return shown("webhooks.html", page, write=write, named=True, operations=webhooks.OPERATIONS)


def terminating_page(text):
    count = Count(text, text, 1, 2, 1.0, "TerminationComplete")
    kind = terminating.KindCounts("Deployment", Agreement(0, 1, 0), (count,), 1)
    pod = terminating.ListedPod(text, text, text, text, THEN, THEN, 30, -1.0, text, (text,), text)
    page = terminating.TerminatingPage(
        {text or "Job": 1}, {text: 1}, 1, (pod,), 1, 1, 2, (kind,), {text: False}, ()
    )
    return shown("terminating.html", page, q=text)


@pytest.mark.parametrize(
    "page",
    [findings_page, finding_page, objects_page, object_page, webhooks_page, terminating_page],
    ids=lambda page: page.__name__,
)
def test_a_page_has_the_same_tags_whatever_names_and_messages_say(page):
    expected = page("plain")

    @given(NASTY)
    def same(text):
        assert page(text) == expected

    same()


@given(NASTY)
def test_a_message_of_what_is_wrong_is_text(text):
    common = {"now": NOW, "path": text, "last_review": None, "about": ABOUT}
    page = render("message.html", {"title": text, "why": text, **common})
    assert "script" not in {tag[0] for tag in Shape(page).tags if len(tag) == 1}


@given(
    st.dictionaries(
        st.sampled_from(["q", "severity", "state", "since", "page", "limit", "x"]), NASTY
    )
)
def test_any_query_is_answered_or_said_to_be_wrong(query):
    try:
        asked = findings.parse(query, state="open", limit=100)
    except BadQueryError as error:
        assert str(error)
        return
    assert findings.select((found("a"),), asked, NOW).total in (0, 1)


@given(
    st.lists(st.tuples(st.sampled_from(list(Severity)), st.booleans(), st.sampled_from("abc"))),
    st.integers(1, 5),
)
def test_every_finding_is_on_one_page_the_worst_first(kinds, limit):
    every = [
        msgspec.structs.replace(
            found(name), id=str(number), severity=severity, state="open" if is_open else "resolved"
        )
        for number, (severity, is_open, name) in enumerate(kinds)
    ]
    asked = findings.parse({"state": "all", "limit": str(limit)}, state="open", limit=100)
    pages = findings.select(every, asked, NOW).pages
    seen = [
        one
        for page in range(1, pages + 1)
        for one in findings.select(every, msgspec.structs.replace(asked, page=page), NOW).findings
    ]
    assert sorted(one.id for one in seen) == sorted(one.id for one in every)
    ranks = [(one.state != "open", findings.SEVERITIES.index(one.severity)) for one in seen]
    assert ranks == sorted(ranks)
