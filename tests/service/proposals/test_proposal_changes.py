"""Claims about proposals: what is needed to make, review and apply one, what each of these leaves, and what one that is refused leaves."""

import asyncio
from collections.abc import Callable
from random import Random

import msgspec
import pytest

from perdure.core.errors import (
    AlreadyExists,
    BadDefinition,
    BadName,
    BadValue,
    DefinitionOwned,
    Forbidden,
    NotFound,
    ProposalRefused,
    StaleProposal,
    StaleRecord,
    StoreError,
)
from perdure.definitions.format.canonical_form import definition_hash
from perdure.service import access_keys, catalog
from perdure.service.access_keys import KeyRequest
from perdure.service.callers import LOCAL, Caller
from perdure.service.catalog_changes import Edit
from perdure.service.proposals import proposal_changes, proposal_details
from perdure.service.proposals.proposal_changes import PROPOSAL_OPEN_S, Proposer
from perdure.service.store_access import StoreAccess
from perdure.stores.memory import MemoryStore
from perdure.testing.faults import Faults, FaultyStore
from tests.service.proposals.proposed_documents import ADA, BEN, EVE, T, all_records, apply, approve, document, propose, publish, shown

HOOK = "triggers: [{webhook: {path: paid, verify: {scheme: github, secret: '@secrets.HOOK'}}, name: push}]\n"

# Making


async def test_a_proposal_keeps_what_was_proposed_by_whom_on_which_base_and_what_it_changes(access: StoreAccess) -> None:
    made = await publish(access)
    kept = await propose(access)
    found = await shown(access, kept.value.id)
    assert (found.status, found.expired, found.slug, found.workflow_id) == ("pending", False, "invoice", made.id)
    assert (found.base_workflow_hash, found.proposed_by, found.note) == (made.hash, "oidc:ada", "better")
    assert found.received.encode() == document(2)
    assert found.diff_text == "~ note: set.n: 1 -> 2"
    (change,) = found.changes
    assert (change.kind, change.id, change.field, change.before, change.after) == ("changed", "note", "/set/n", 1, 2)
    assert (found.base_received, found.current_workflow_hash, found.stale) == (document(1).decode(), made.hash, False)
    assert found.expires_at_s - found.created_at_s == PROPOSAL_OPEN_S == 14 * 24 * 3600
    assert (found.widens_rights, found.on_behalf_of, found.execution, found.revision) == ((), (), None, 1)
    assert await catalog.read_definition(access, T, "invoice") == made


async def test_an_open_proposal_on_another_version_than_the_current_one_is_stale(access: StoreAccess) -> None:
    _ = await publish(access)
    kept = await propose(access)
    current = await catalog.update_definition(access, T, "invoice", Edit("ada"), document(3))
    found = await shown(access, kept.value.id)
    assert (found.stale, found.current_workflow_hash) == (True, current.hash)
    assert found.base_received == document(1).decode(), "the version that it is based on is still known"


async def test_a_definition_without_self_edit_takes_no_proposals(access: StoreAccess) -> None:
    _ = await publish(access, self_edit=False)
    before = await all_records(access)
    with pytest.raises(ProposalRefused, match="does not allow proposals"):
        await propose(access)
    assert await all_records(access) == before


async def test_a_proposal_on_another_base_is_stale_and_nothing_is_stored(access: StoreAccess) -> None:
    first = await publish(access)
    _ = await publish(access, 3)
    before = await all_records(access)
    with pytest.raises(StaleProposal, match="nothing was changed: its current version is sha256:"):
        await propose(access, base=first.hash)
    with pytest.raises(StaleProposal):
        await propose(access, base="")
    with pytest.raises(NotFound, match="there is no definition 'order'"):
        await proposal_changes.propose(access, T, "order", document(), first.hash, Proposer("oidc:ada"))
    assert await all_records(access) == before


@pytest.mark.parametrize(
    ("raw", "error"),
    [(b"steps: [", BadDefinition), (b"perdure: 1\nname: a\nsteps: [{id: a, sett: 1}]", BadDefinition), (b"  ", BadValue), (document(1), BadValue)],
)
async def test_a_document_that_is_not_valid_or_changes_nothing_is_not_proposed(access: StoreAccess, raw: bytes, error: type[Exception]) -> None:
    made = await publish(access)
    before = await all_records(access)
    with pytest.raises(error):
        await proposal_changes.propose(access, T, "invoice", raw, made.hash, Proposer("oidc:ada"))
    assert await all_records(access) == before


async def test_the_base_of_a_proposal_may_be_given_without_the_name_of_the_hash(access: StoreAccess) -> None:
    made = await publish(access)
    assert made.hash.startswith("sha256:")
    kept = await propose(access, base=made.hash.removeprefix("sha256:"))
    assert kept.value.base == made.hash


async def test_a_document_whose_webhook_has_the_path_of_another_trigger_is_not_proposed(access: StoreAccess) -> None:
    _ = await publish(access)
    _ = await catalog.create_definition(access, T, document(1, HOOK, "order"), Edit("ada"))
    before = await all_records(access)
    with pytest.raises(AlreadyExists, match="the path 'paid' is that of the trigger"):
        await propose(access, more=HOOK)
    assert await all_records(access) == before


async def test_a_large_document_is_kept_in_pieces(access: StoreAccess) -> None:
    _ = await publish(access)
    made = await propose(access, more=f"description: {'x' * 600_000}\n")
    found = await shown(access, made.value.id)
    assert made.value.pieces == 3
    assert found.received.encode() == document(2, f"description: {'x' * 600_000}\n")


async def test_a_new_definition_is_proposed_without_a_base_and_created_when_that_is_applied(access: StoreAccess) -> None:
    kept = await proposal_changes.propose(access, T, "order", document(name="order"), "", Proposer("oidc:ada"))
    assert kept.value.widens_rights == ("allow",)
    with pytest.raises(NotFound):
        await catalog.read_definition(access, T, "order")
    assert [one.slug for one in (await proposal_details.list_proposals(access, T, "order")).items] == ["order"]
    _ = await approve(access, kept.value.id, EVE)
    done = await apply(access, kept.value.id)
    made = await catalog.read_definition(access, T, "order")
    assert (done.value.version, made.version, made.created_by, made.hash) == ("1.0.0", "1.0.0", "oidc:ben", kept.value.hash)
    assert [one.kind for one in (await catalog.read_history(access, T, "order")).items] == ["create"]
    with pytest.raises(BadName):
        await proposal_changes.propose(access, T, "No Slug", document(), "", Proposer("oidc:ada"))


async def test_a_definition_has_a_limited_number_of_open_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposal_changes, "OPEN_MAX", 2)
    clock = Clock()
    access = StoreAccess(MemoryStore(clock))
    _ = await publish(access)
    first, _ = await propose(access, 2), await propose(access, 3)
    with pytest.raises(ProposalRefused, match="has 2 open proposals, which is the limit"):
        await propose(access, 4)
    _ = await proposal_changes.review(access, BEN, first.value.id, "", approve=False)
    _ = await propose(access, 4)
    clock.now_s += PROPOSAL_OPEN_S
    assert (await propose(access, 5)).value.status == "pending", "those that have expired do not count"


async def test_a_definition_that_a_file_owns_takes_no_proposals(access: StoreAccess) -> None:
    made = await publish(access)
    kept = await propose(access)
    _ = await approve(access, kept.value.id)
    _ = await catalog.update_definition(access, T, "invoice", Edit("ada", file="invoice.yaml"), document(1))
    with pytest.raises(DefinitionOwned):
        await propose(access, 3, base=made.hash)
    with pytest.raises(DefinitionOwned):
        await apply(access, kept.value.id)
    assert (await shown(access, kept.value.id)).status == "approved"


# Reviewing


async def test_a_proposal_is_reviewed_once_by_somebody_else(access: StoreAccess) -> None:
    _ = await publish(access)
    id = (await propose(access)).value.id
    with pytest.raises(Forbidden, match="oidc:ada may not review this proposal: oidc:ada proposed it"):
        await approve(access, id, ADA)
    _ = await approve(access, id, BEN)
    found = await shown(access, id)
    assert (found.status, found.reviewed_by, found.review_notes, found.revision) == ("approved", "oidc:ben", "fine", 2)
    with pytest.raises(ProposalRefused, match="the proposal is approved"):
        await proposal_changes.review(access, EVE, id, "", approve=False)


async def test_a_rejected_proposal_is_not_applied(access: StoreAccess) -> None:
    made = await publish(access)
    id = (await propose(access)).value.id
    with pytest.raises(ProposalRefused, match="the proposal is pending, and only approved ones"):
        await apply(access, id)
    _ = await proposal_changes.review(access, BEN, id, "", approve=False, notes="no")
    with pytest.raises(ProposalRefused, match="the proposal is rejected"):
        await apply(access, id)
    assert (await shown(access, id)).status == "rejected"
    assert await catalog.read_definition(access, T, "invoice") == made


async def test_neither_the_maker_of_a_key_reviews_what_it_proposes_nor_a_key_what_its_maker_proposes(access: StoreAccess) -> None:
    _ = await publish(access)
    keys = [await access_keys.create_key(access.store, T, KeyRequest(name=name, roles=("author",)), by) for name, by in (("a", "oidc:ada"), ("b", "oidc:ben"))]
    of_ada, of_ben = (Caller(T, f"key:{one.key.id}", frozenset(("author",))) for one in keys)
    by_key = await propose(access, by=of_ada)
    assert by_key.value.on_behalf_of == ("oidc:ada",)
    for caller in (of_ada, ADA):
        with pytest.raises(Forbidden):
            await approve(access, by_key.value.id, caller)
    by_person = await propose(access, 3)
    with pytest.raises(Forbidden):
        await approve(access, by_person.value.id, of_ada)
    _ = await approve(access, by_key.value.id, of_ben)
    _ = await approve(access, by_person.value.id, of_ben)


async def test_the_developer_at_this_machine_reviews_all_proposals(access: StoreAccess) -> None:
    _ = await publish(access)
    local = Caller(T, LOCAL.subject, LOCAL.roles)
    kept = await propose(access, by=local)
    assert (await approve(access, kept.value.id, local)).value.status == "approved"


@pytest.mark.parametrize(
    ("more", "rights"),
    [
        ("limits: {max_steps: 7}\n", ("limits",)),
        ("triggers: [{schedule: {cron: '* * * * *'}}]\n", ("triggers",)),
        ("description: other\n", ()),
    ],
)
async def test_a_proposal_that_widens_rights_is_for_an_admin_to_review(access: StoreAccess, more: str, rights: tuple[str, ...]) -> None:
    _ = await publish(access)
    kept = await propose(access, more=more)
    assert kept.value.widens_rights == rights
    if rights:
        with pytest.raises(Forbidden, match=f"the proposal changes {rights[0]}, which widens rights: an admin has to review it"):
            await approve(access, kept.value.id, BEN)
    assert (await approve(access, kept.value.id, EVE)).value.status == "approved"


# Applying


async def test_applying_publishes_a_patch_version_and_the_history_names_the_proposal(access: StoreAccess) -> None:
    made = await publish(access)
    id = (await propose(access)).value.id
    _ = await approve(access, id)
    done = await apply(access, id)
    found = await catalog.read_definition(access, T, "invoice")
    assert (found.version, found.updated_by, done.value.version, done.value.applied_by) == ("1.0.1", "oidc:ben", "1.0.1", "oidc:ben")
    entry = (await catalog.read_history(access, T, "invoice")).items[0]
    assert (entry.kind, entry.source, entry.source_proposal_id, entry.note, entry.from_hash) == ("update", "proposal", id, "better", made.hash)
    assert (await catalog.read_version(access, T, "invoice@1.0.0")).hash == made.hash
    version = await catalog.read_version(access, T, "invoice")
    assert (version.source, version.hash) == ("proposal", (await shown(access, id)).workflow_hash)
    with pytest.raises(ProposalRefused, match="the proposal is applied"):
        await apply(access, id)


async def test_an_approved_proposal_fails_when_its_definition_has_another_version(access: StoreAccess) -> None:
    _ = await publish(access)
    id = (await propose(access)).value.id
    _ = await approve(access, id)
    changed = await publish(access, 3)
    with pytest.raises(StaleProposal):
        await apply(access, id)
    found = await shown(access, id)
    assert found.status == "failed"
    assert found.failure is not None and "its current version is" in found.failure
    assert await catalog.read_definition(access, T, "invoice") == changed
    with pytest.raises(ProposalRefused, match="the proposal is failed"):
        await apply(access, id)


async def test_a_proposal_fails_when_its_definition_was_deleted(access: StoreAccess) -> None:
    _ = await publish(access)
    id = (await propose(access)).value.id
    _ = await approve(access, id)
    await catalog.delete_definition(access, T, "invoice", Edit("ada"))
    with pytest.raises(StaleProposal, match="it has no version"):
        await apply(access, id)
    assert (await shown(access, id)).status == "failed"


async def test_a_proposal_fails_when_another_trigger_has_the_path_of_its_webhook(access: StoreAccess) -> None:
    made = await publish(access)
    id = (await propose(access, more=HOOK)).value.id
    _ = await approve(access, id, EVE)
    _ = await catalog.create_definition(access, T, document(1, HOOK, "order"), Edit("ada"))
    with pytest.raises(AlreadyExists, match="the path 'paid' is that of the trigger"):
        await apply(access, id)
    found = await shown(access, id)
    assert found.status == "failed" and found.failure is not None and "the path 'paid'" in found.failure
    assert await catalog.read_definition(access, T, "invoice") == made


async def test_a_draft_of_somebody_else_stays_when_a_proposal_is_applied(access: StoreAccess) -> None:
    _ = await publish(access)
    _ = await catalog.save_draft(access, T, "invoice", b"steps: [", Edit("eve"))
    id = (await propose(access)).value.id
    _ = await approve(access, id)
    _ = await apply(access, id)
    assert (await catalog.read_draft(access, T, "invoice")).document == b"steps: ["


async def test_of_two_calls_that_apply_at_once_one_publishes(access: StoreAccess) -> None:
    _ = await publish(access)
    id = (await propose(access)).value.id
    _ = await approve(access, id)
    answers = await asyncio.gather(*(apply(access, id) for _ in range(4)), return_exceptions=True)
    refused = [one for one in answers if isinstance(one, BaseException)]
    assert len(refused) == 3 and all(isinstance(one, ProposalRefused) and not isinstance(one, StaleProposal) for one in refused), answers
    assert (await catalog.read_definition(access, T, "invoice")).version == "1.0.1"
    assert (await shown(access, id)).status == "applied"


async def test_of_two_proposals_on_one_base_that_are_applied_at_once_the_other_fails(access: StoreAccess) -> None:
    _ = await publish(access)
    ids = [(await propose(access, value)).value.id for value in (2, 3)]
    for id in ids:
        _ = await approve(access, id)
    answers = await asyncio.gather(*(apply(access, id) for id in ids), return_exceptions=True)
    assert sum(isinstance(one, StaleProposal) for one in answers) == 1
    assert sorted([(await shown(access, id)).status for id in ids]) == ["applied", "failed"]


async def test_a_change_expects_the_revision_that_the_caller_has_seen(access: StoreAccess) -> None:
    _ = await publish(access)
    id = (await propose(access)).value.id
    with pytest.raises(StaleRecord, match="the proposal"):
        await proposal_changes.review(access, BEN, id, "", approve=True, revision=7)
    _ = await proposal_changes.review(access, BEN, id, "", approve=True, revision=1)
    with pytest.raises(StaleRecord):
        await proposal_changes.apply(access, T, id, "", "oidc:ben", revision=1)
    assert (await proposal_changes.apply(access, T, id, "", "oidc:ben", revision=2)).version == 3


# Time, faults and tenants


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_proposal_expires_after_14_days_which_is_shown_and_is_no_status() -> None:
    clock = Clock()
    access = StoreAccess(MemoryStore(clock))
    _ = await publish(access)
    pending, approved = [(await propose(access, value)).value.id for value in (2, 3)]
    _ = await approve(access, approved)
    clock.now_s += PROPOSAL_OPEN_S - 1
    assert not (await shown(access, pending)).expired
    clock.now_s += 1
    for id, status in ((pending, "pending"), (approved, "approved")):
        found = await shown(access, id)
        assert (found.status, found.expired) == (status, True)
    with pytest.raises(ProposalRefused, match="the proposal has expired"):
        await approve(access, pending)
    with pytest.raises(ProposalRefused, match="the proposal has expired"):
        await apply(access, approved)
    assert (await shown(access, approved)).status == "approved"
    assert (await catalog.read_definition(access, T, "invoice")).version == "1.0.0"


async def test_whatever_fails_before_or_after_a_write_the_definition_its_history_and_the_proposal_change_together() -> None:
    carried_out = set()
    for number in range(2):
        for when in ("fail_before", "fail_after"):
            store = MemoryStore()
            access = StoreAccess(store)
            _ = await publish(access)
            id = (await propose(access)).value.id
            _ = await approve(access, id)
            before = await all_records(access)
            faults = Faults(**{when: 1.0}, failing=frozenset(("commit",)))
            faulty = StoreAccess(FaultyStore(store, Random(number), faults))
            with pytest.raises(StoreError):
                await apply(faulty, id)
            after = await all_records(access)
            if after == before:
                carried_out.add("nothing")
                assert (await apply(access, id)).value.status == "applied"
            else:
                carried_out.add("everything")
                with pytest.raises(ProposalRefused, match="the proposal is applied"):
                    await apply(access, id)
            entries = (await catalog.read_history(access, T, "invoice")).items
            found = await catalog.read_definition(access, T, "invoice")
            assert [one.source_proposal_id for one in entries] == [id, ""]
            assert (found.version, entries[0].version, (await shown(access, id)).applied_version) == ("1.0.1",) * 3
    assert carried_out == {"nothing", "everything"}


async def test_another_tenant_has_none_of_it(access: StoreAccess) -> None:
    _ = await publish(access)
    id = (await propose(access)).value.id
    with pytest.raises(NotFound):
        await proposal_details.read_proposal(access, "other", id)
    assert (await proposal_details.list_proposals(access, "other")).items == []


async def test_proposals_are_listed_newest_first_in_pages_by_definition_status_and_whether_they_are_open() -> None:
    clock = Clock()
    access = StoreAccess(MemoryStore(clock))
    _ = await publish(access)
    ids = []
    for value in range(2, 7):
        clock.now_s += 1
        ids.append((await propose(access, value)).value.id)
    _ = await approve(access, ids[0])
    _ = await proposal_changes.review(access, BEN, ids[1], "", approve=False)

    async def listed(**which: object) -> list[str]:
        return [one.id for one in (await proposal_details.list_proposals(access, T, **which)).items]  # type: ignore[arg-type]  # as they come

    first = await proposal_details.list_proposals(access, T, limit=3)
    second = await proposal_details.list_proposals(access, T, limit=3, after=first.next or "")
    assert [one.id for page in (first, second) for one in page.items] == ids[::-1]
    assert (first.next, second.next) == (ids[2], None)
    assert await listed(status="approved") == [ids[0]]
    assert await listed(status="rejected", which="invoice") == [ids[1]]
    assert await listed(open=True) == [*ids[:1:-1], ids[0]]
    assert await listed(open=False) == [ids[1]]
    with pytest.raises(NotFound):
        await listed(which="order")
    with pytest.raises(BadValue):
        await listed(after="x")


@pytest.mark.parametrize("wrong", ["", "x", "a\0b", "\ud800", "0" * 40_000, "00000000-0000-0000-0000-000000000000"])
async def test_a_text_that_is_no_id_finds_no_proposal(access: StoreAccess, wrong: str) -> None:
    calls: list[Callable[[], object]] = [lambda: shown(access, wrong), lambda: approve(access, wrong), lambda: apply(access, wrong)]
    for call in calls:
        with pytest.raises(NotFound, match="there is no proposal"):
            await call()  # type: ignore[misc]  # each is a coroutine


# The history


@pytest.mark.parametrize("seed", range(4))
async def test_the_history_folds_to_the_state_with_proposals_among_the_changes(seed: int) -> None:
    random, clock = Random(seed), Clock()
    access = StoreAccess(MemoryStore(clock))
    _ = await publish(access)
    value, open_ids = 2, list[str]()
    for _ in range(30):
        clock.now_s += 1
        value += 1
        match random.choice(("publish", "propose", "review", "apply", "apply", "roll back")):
            case "publish":
                _ = await publish(access, value)
            case "propose":
                open_ids.append((await propose(access, value)).value.id)
            case "review" if open_ids:
                _ = await approve(access, open_ids[-1]) if (await shown(access, open_ids[-1])).status == "pending" else None
            case "apply" if open_ids:
                try:
                    _ = await apply(access, random.choice(open_ids))
                except ProposalRefused:
                    continue
            case "roll back":
                entries = (await catalog.read_history(access, T, "invoice", versions_only=True)).items
                _ = await catalog.roll_back(access, T, "invoice", random.choice(entries).hash, Edit("ada"))
    history = (await catalog.read_history(access, T, "invoice")).items[::-1]
    version = hash = ""
    for number, entry in enumerate(history, 1):
        assert (entry.number, entry.from_version, entry.from_hash) == (number, version, hash)
        version, hash = entry.version, entry.hash
    found = await catalog.read_definition(access, T, "invoice")
    assert (found.version, found.hash, found.revision) == (version, hash, len(history))
    applied = [one for one in (await proposal_details.list_proposals(access, T)).items if one.status == "applied"]
    assert {one.id: one.applied_version for one in applied} == {one.source_proposal_id: one.version for one in history if one.source_proposal_id}
    for one in history:
        canonical = (await catalog.read_version(access, T, f"invoice@{one.version}")).canonical
        assert definition_hash(msgspec.json.decode(canonical)) == one.hash
