"""Operations on people: what is known of a person. People see and change their own, and admins that of everybody."""

from perdure.core.errors import Forbidden
from perdure.service.callers import Caller
from perdure.service.page_cursors import page_limit
from perdure.service.people import person_records
from perdure.service.people.person_records import PersonDetails, PersonPage, PersonSettings
from perdure.service.store_access import StoreAccess


async def page(access: StoreAccess, tenant: str, limit: int = 100, after: str = "") -> PersonPage:
    """Lists the people of whom something is known, in order of name, behind `after`. Others decide on approvals as well; they need no record.

    Raises:
        BadValue: the limit is invalid, or `after` is not the `next` of a page.
    """
    return await person_records.list_people(access.store, tenant, page_limit(limit), after or None)


async def read_person(access: StoreAccess, caller: Caller, person: str) -> PersonDetails:
    """What is known of a person: when they are out of office, who then stands in, and what they are not notified of.

    Raises:
        Forbidden: it is another person, and the caller is no admin.
        BadName: it is no name.
    """
    _expect_own(caller, person, "people.read_person")
    return await person_records.read_person(access.store, caller.tenant, person)


async def save_person(access: StoreAccess, caller: Caller, person: str, settings: PersonSettings, revision: int | None = None) -> PersonDetails:
    """Saves what is known of a person, in place of what was. From the beginning of an absence to its end, the substitute may decide in their place.

    Raises:
        Forbidden: it is another person, and the caller is no admin.
        BadName, BadValue: the name, a time, the substitute, the address or a kind is not valid.
        StaleRecord: the record is not at the revision, or was changed at the same time.
    """
    _expect_own(caller, person, "people.save_person")
    return await person_records.save_person(access.store, caller.tenant, person, settings, revision)


def _expect_own(caller: Caller, person: str, operation: str) -> None:
    if not caller.may("admin") and not (caller.is_person and person == caller.decides_as("")):
        raise Forbidden(caller.subject, operation, "admin")
