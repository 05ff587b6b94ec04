"""Documents and steps of tests of proposals."""

from perdure.core.errors import PerdureError
from perdure.service import catalog
from perdure.service.callers import Caller, Role
from perdure.service.catalog import CatalogDefinition
from perdure.service.catalog_changes import Edit
from perdure.service.proposals import proposal_changes, proposal_details
from perdure.service.proposals.proposal_changes import Proposer
from perdure.service.proposals.proposal_details import ProposalDetails
from perdure.service.proposals.proposal_records import ProposalRecord
from perdure.service.record_kinds import KeptValue
from perdure.service.store_access import StoreAccess
from perdure.stores.records import RecordFilter, StoredRecord

T = "acme"
AUTHOR: frozenset[Role] = frozenset(("author",))
ADA, BEN, EVE = Caller(T, "oidc:ada", AUTHOR), Caller(T, "oidc:ben", AUTHOR), Caller(T, "oidc:eve", frozenset(("admin",)))


def document(value: int = 1, more: str = "", name: str = "invoice", *, self_edit: bool = True) -> bytes:
    """A definition whose result is `value`, with `more` fields. It allows proposals, unless told otherwise."""
    allow = "allow: {self_edit: true}\n" if self_edit else ""
    return f"perdure: 1\nname: {name}\n{allow}{more}vars: {{n: 0}}\nsteps:\n  - {{id: note, set: {{n: {value}}}}}\noutput: '@vars.n'\n".encode()


async def publish(access: StoreAccess, value: int = 1, *, self_edit: bool = True) -> CatalogDefinition:
    """The definition of the tests, created or with a new version."""
    try:
        _ = await catalog.read_definition(access, T, "invoice")
    except PerdureError:
        return await catalog.create_definition(access, T, document(value, self_edit=self_edit), Edit("ada"))
    return await catalog.update_definition(access, T, "invoice", Edit("ada"), document(value, self_edit=self_edit))


async def propose(access: StoreAccess, value: int = 2, by: Caller = ADA, more: str = "", base: str | None = None) -> KeptValue[ProposalRecord]:
    """A proposal for the definition of the tests, based on its current version unless a base is given."""
    if base is None:
        base = (await catalog.read_definition(access, T, "invoice")).hash
    return await proposal_changes.propose(access, T, "invoice", document(value, more), base, Proposer(by.subject), note="better")


async def approve(access: StoreAccess, id: str, by: Caller = BEN) -> KeptValue[ProposalRecord]:
    """Approves a proposal."""
    return await proposal_changes.review(access, by, id, "", approve=True, notes="fine")


async def apply(access: StoreAccess, id: str, by: Caller = BEN) -> KeptValue[ProposalRecord]:
    """Applies a proposal."""
    return await proposal_changes.apply(access, T, id, "", by.subject)


async def shown(access: StoreAccess, id: str) -> ProposalDetails:
    """A proposal as clients see it."""
    return await proposal_details.read_proposal(access, T, id)


KINDS = ("proposal", "proposal content", "definition", "definition version", "definition release", "definition event")


async def all_records(access: StoreAccess) -> list[StoredRecord]:
    """All records of proposals and definitions."""
    return [one for kind in KINDS for one in await access.store.records(RecordFilter(T, kind, limit=1_000))]
