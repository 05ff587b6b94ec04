"""Operations that maintain a store: export, import, verification and retention."""

from perdure.core.paths import Key
from perdure.service import execution_bundles, log_archives, queries, retention, verification
from perdure.service.blob_collection import ArchiveFilter, CollectedBlobs, collect_blobs
from perdure.service.execution_bundles import ImportedExecution
from perdure.service.log_archives import LogArchive
from perdure.service.retention import PRUNED_STATUSES, PrunedExecution, RetentionFilter
from perdure.service.store_access import StoreAccess
from perdure.service.verification import VerificationFinding
from perdure.stores.month_removal import MONTH_REMOVAL, StoredMonth


async def export(access: StoreAccess, key: Key, secret: bytes, children: bool = False) -> bytes:
    """An export of an execution, with `children` of all below it, as a file that `import_` reads. It is signed with the secret, if there is one.

    Raises:
        NotFound: there is no such execution.
        LogDamaged: a part of it is missing.
    """
    return execution_bundles.encode_bundle(await execution_bundles.export_bundle(access.store, key, children), secret)


async def import_(
    access: StoreAccess, raw: bytes, secret: bytes, id: str | None = None, paused: bool = False, unsigned: bool = False
) -> list[ImportedExecution]:
    """Imports an export; the executions continue here, under a new `id` if one is given.

    Raises:
        ExportRefused: the file is damaged, or is not signed with this secret, and `unsigned` is false.
        AlreadyExists: there is an execution of this id; nothing was changed.
    """
    found = execution_bundles.expect_signed(execution_bundles.decode_bundle(raw, secret), unsigned)
    return await execution_bundles.import_bundle(access.store, found, id=id, paused=paused)


async def verify(access: StoreAccess, keys: list[Key]) -> list[VerificationFinding]:
    """Verifies executions, or all if no keys are given: that what is stored of them is whole, and fits together. An empty list is good.

    Raises:
        NotFound: there is no such execution.
    """
    heads = await verification.heads_to_verify(access.store, keys or None)
    return [finding async for one in verification.verify_executions(access.store, [head.key for head in heads]) for finding in one.findings]


async def prune(
    access: StoreAccess,
    tenant: str,
    older_than_s: float,
    *,
    status: tuple[str, ...] = tuple(PRUNED_STATUSES),
    workflow: str | None = None,
    dry_run: bool = False,
    forget_ids: bool = False,
) -> list[PrunedExecution]:
    """Removes the logs of executions that ended longer ago than `older_than_s`; their ids, statuses and times are kept, unless `forget_ids`.

    Raises:
        BadValue: a status is invalid.
    """
    before_s = (await access.store.store_time()).now_s - older_than_s
    which = RetentionFilter(tenant=tenant, before_s=before_s, statuses=frozenset(status), workflow=workflow, forget_ids=forget_ids)
    return [one async for one in retention.prune_executions(access.store, which, None, dry_run)]


async def archives(access: StoreAccess, key: Key) -> list[LogArchive]:
    """The archives of forgotten iterations of an execution, oldest first.

    Raises:
        NotFound: there is no such execution.
        LogDamaged: a part of it cannot be read.
    """
    return await log_archives.archives_of(access.store, key)


async def prune_archives(
    access: StoreAccess, tenant: str, older_than_s: float, status: tuple[str, ...] | None = None, workflow: str | None = None, dry_run: bool = False
) -> CollectedBlobs:
    """Removes archives that are older than `older_than_s`, and large values that nothing needs.

    Raises:
        BadValue: a status is invalid.
        LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
    """
    before_s = (await access.store.store_time()).now_s - older_than_s
    old = ArchiveFilter(tenant=tenant, before_s=before_s, statuses=queries.checked_statuses(status), workflow=workflow)
    return await collect_blobs(access.store, old, dry_run)


async def prune_values(access: StoreAccess, dry_run: bool = False) -> CollectedBlobs:
    """Removes large values that nothing needs any more. It reads all logs; engines may work at the same time.

    Raises:
        LogDamaged, SealedPayload: a log, a message or an archive can't be read; nothing was removed.
    """
    return await collect_blobs(access.store, None, dry_run)


async def prune_months(access: StoreAccess, older_than_s: float) -> list[StoredMonth]:
    """Removes whole months of which nothing is left, on a store that keeps logs by months.

    Raises:
        StoreError: the role of the database may not remove tables.
    """
    before_s = (await access.store.store_time()).now_s - older_than_s
    removal = access.store.part(MONTH_REMOVAL)
    return [] if removal is None else await removal.remove_months(before_s)
