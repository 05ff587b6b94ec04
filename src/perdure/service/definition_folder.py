"""Keeps definitions of the catalog in step with the files of a folder.

A file owns the definition that it has: it is changed in the file, and refused elsewhere. Its owner is written as the name of the folder and the path in it, so
several processes that watch copies of one folder agree: what one has done, the others find done. A file that is not valid is reported, and its definition stays
as it is. The definition of a file that is gone is deleted; its versions are kept. If no file is left at all, nothing is deleted, since the folder may just not
be mounted.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from perdure.core.attribute_filter import attribute_conditions
from perdure.core.errors import BadDefinition, BadName, BadValue, DefinitionOwned, PerdureError, StoreError
from perdure.service.catalog import delete_definition
from perdure.service.catalog_changes import ChangeOutcome, Edit
from perdure.service.catalog_records import DEFINITIONS
from perdure.service.catalog_sync import SyncDocument, sync_definition
from perdure.service.store_access import StoreAccess

logger = logging.getLogger("perdure.catalog")

SUFFIXES = frozenset((".yaml", ".yml", ".json"))
LEFT_OUT = frozenset(("__pycache__", "node_modules", "site-packages"))
"""Directories that are not looked into, beside hidden ones."""

LOOK_S = 0.5
"""The time between two looks at the files."""

FILES_MAX = 1_000
AUTHOR = "files"
"""The author of changes that come from files, in histories."""

FileStamps = dict[Path, tuple[int, int]]
"""The files of a folder, each with the time of its last change and its size."""


class FileChange(msgspec.Struct, frozen=True):
    """What happened to the definition of a file: its slug, with its version; or why the file has none, and what had become of it before stays."""

    file: str
    outcome: ChangeOutcome | None
    slug: str = ""
    version: str = ""
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"{self.file} is not published: {self.error}"
        return f"{self.file}: {self.slug} is at version {self.version}" if self.outcome else f"{self.file} is gone, so {self.slug} is deleted"


def folder_files(directory: Path) -> list[Path]:
    """The files of definitions in a folder and in those below it, in order of their paths.

    Raises:
        BadValue: there are too many.
    """
    found = list[Path]()
    for place, inner, names in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in LEFT_OUT)
        found += (Path(place, name) for name in names if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."))
        if len(found) > FILES_MAX:
            raise BadValue("folder", str(directory), f"a folder with at most {FILES_MAX:,} files of YAML and JSON; name one that has definitions alone")
    return sorted(found)


def folder_documents(directory: Path) -> list[SyncDocument]:
    """The documents of a folder, with their files.

    Raises:
        BadValue: a file can't be read, is empty, or there are too many.
    """
    found = list[SyncDocument]()
    for file in folder_files(directory):
        try:
            document = file.read_bytes()
        except OSError as error:
            raise BadValue("file", str(file), f"one that can be read: {error.strerror}") from error
        if not document.strip():
            raise BadValue("file", str(file), "a definition; it is empty, so remove it or write one")
        found.append(SyncDocument(document, file=file.relative_to(directory).as_posix()))
    return found


class DefinitionFolder:
    """A folder whose definitions are kept in step with the catalog of a tenant as long as it runs. `report` is told of each change and each failure."""

    def __init__(
        self, access: StoreAccess, tenant: str, directory: Path, report: Callable[[FileChange], None] = lambda _: None, look_s: float = LOOK_S
    ) -> None:
        self._access, self._tenant = access, tenant
        self._directory, self._report, self._look_s = directory.resolve(), report, look_s
        self._stopped, self._synced = asyncio.Event(), asyncio.Event()
        self._stamps: FileStamps | None = None
        self._slugs: dict[str, str] = {}  # of the definitions that files have now, by their owners

    def owner(self, file: Path) -> str:
        """The owner of the definition in a file."""
        return f"{self._directory.name}/{file.relative_to(self._directory).as_posix()}"

    async def ready(self) -> None:
        """Waits until the folder was synced for the first time."""
        await self._synced.wait()

    def stop(self, grace_s: float = 0.0) -> None:
        """Makes `run` return."""
        self._stopped.set()

    async def run(self) -> None:
        """Syncs the folder, and again each time that a file has changed, until stopped. While the store can't be reached, it looks again later."""
        while not self._stopped.is_set():
            try:
                await self.look()
            except StoreError as error:
                self._stamps = None
                logger.warning("could not sync %s with the catalog: %s. It is tried again", self._directory, error)
            except BadValue as error:
                self._report(FileChange(str(self._directory), None, error=str(error)))
            self._synced.set()
            try:
                await asyncio.wait_for(self._stopped.wait(), self._look_s)
            except TimeoutError:
                continue

    async def look(self) -> bool:
        """Looks at the files, and syncs those that have changed since the last look; returns whether any has.

        Raises:
            StoreError: the store can't be reached; the next look begins anew.
            BadValue: there are too many files, or no folder.
        """
        stamps, before = await asyncio.to_thread(_stamps, self._directory), self._stamps
        if stamps == before:
            return False
        self._stamps = stamps
        gone = await self._gone(stamps)
        for file in stamps:
            if before is None or before.get(file) != stamps[file]:
                self._tell(await self._sync(file, frozenset(owner for owner, _ in gone)))
        if stamps:
            for owner, slug in await self._gone(stamps):
                await self._delete(owner, slug)
        elif gone:
            why = f"it has no definitions any more, so {len(gone)} that were there are kept; delete them with perdure workflow delete"
            self._report(FileChange(self._directory.name, None, error=why))
        return True

    async def _gone(self, files: Iterable[Path]) -> list[tuple[str, str]]:
        """The owners and slugs of definitions that no file has any more: their file is gone, or has another slug now."""
        there, prefix = set(map(self.owner, files)), f"{self._directory.name}/"
        listed = DEFINITIONS.all(self._access.store, self._tenant, where=attribute_conditions({"listed": True}))
        owned = [(one.value.owner, one.key) async for one in listed if one.value.owner.startswith(prefix)]
        return [(owner, slug) for owner, slug in owned if owner not in there or self._slugs.get(owner, slug) != slug]

    async def _sync(self, file: Path, gone: frozenset[str]) -> FileChange:
        owner, edit = self.owner(file), Edit(AUTHOR, file=self.owner(file), gone=gone)
        try:
            document = await asyncio.to_thread(file.read_bytes)
            found = await sync_definition(self._access, self._tenant, document, edit, file=file.name)
        except (BadDefinition, BadValue, BadName, DefinitionOwned, OSError) as error:
            return FileChange(owner, None, error=str(error))
        self._slugs[owner] = found.definition.slug
        return FileChange(owner, found.outcome, found.definition.slug, found.definition.version)

    async def _delete(self, owner: str, slug: str) -> None:
        try:
            await delete_definition(self._access, self._tenant, slug, Edit(AUTHOR, f"{owner} is gone", file=owner))
        except StoreError:
            raise
        except PerdureError as error:  # another process was faster, or a person has changed it
            logger.info("%s is gone, and %s was not deleted: %s", owner, slug, error)
            return
        self._report(FileChange(owner, None, slug))

    def _tell(self, change: FileChange) -> None:
        if change.outcome != "unchanged":
            self._report(change)


def _stamps(directory: Path) -> FileStamps:
    if not directory.is_dir():
        raise BadValue("folder", str(directory), "a directory with definitions; it is not there, and nothing was changed")
    found: FileStamps = {}
    for file in folder_files(directory):
        try:
            known = file.stat()
        except FileNotFoundError:  # it was removed meanwhile
            continue
        found[file] = (known.st_mtime_ns, known.st_size)
    return found
