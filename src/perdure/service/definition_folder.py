"""Keeps definitions of the catalog in step with the files of a folder.

A file owns the definition that it has: it is changed in the file, and refused elsewhere. Its owner is written as the name of the folder and the path in it, so
several processes that watch copies of one folder agree: what one has done, the others find done. A file that is not valid is reported, and its definition stays
as it is. The definition of a file that is gone is deleted; its versions are kept. If no file is left at all, nothing is deleted, since the folder may just not
be mounted. A file that was refused is tried again when another has changed, and now and then: the definition that it has may no longer be another's.
"""

import asyncio
import logging
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from perdure.core.attribute_filter import attribute_conditions
from perdure.core.errors import BadValue, DefinitionOwned, PerdureError, StoreError
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

REPLACE_S = 0.2
"""How long a file may be away before it counts as gone: some editors move the old one away before they write the new one."""

REPEAT_S = 5.0
"""How often a file is tried again that could not be read, or whose definition is another's."""

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
    """The files of definitions in a folder and in those below it, in order of their paths. Pipes, sockets and devices are left out: reading one may not end.

    Raises:
        BadValue: there are too many, or a folder below it can't be read.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # that one was removed meanwhile
            raise BadValue("folder", path_text(error.filename), f"a folder that can be read: {error.strerror}; nothing was changed")

    found = list[Path]()
    for place, inner, names in os.walk(directory, onerror=refuse):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in LEFT_OUT)
        files = (Path(place, name) for name in names if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."))
        found += (file for file in files if not _is_special(file))
        if len(found) > FILES_MAX:
            raise BadValue("folder", path_text(directory), f"a folder with at most {FILES_MAX:,} files of YAML and JSON; name one that has definitions alone")
    return sorted(found)


def _is_special(file: Path) -> bool:
    try:
        return not stat.S_ISREG(file.stat().st_mode)
    except OSError:  # reading it says why
        return False


def path_text(path: Path | str) -> str:
    """A path as text that can be stored and printed. Bytes of a name that are not UTF-8 are written as escapes."""
    return str(path).encode(errors="backslashreplace").decode()


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
            raise BadValue("file", path_text(file), f"one that can be read: {error.strerror}") from error
        if not document.strip():
            raise BadValue("file", path_text(file), "a definition; it is empty, so remove it or write one")
        found.append(SyncDocument(document, file=path_text(file.relative_to(directory).as_posix())))
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
        self._refused: dict[Path, str] = {}  # the files that have none, and why
        self._repeated: set[Path] = set()  # those of them that are tried again though no file changes
        self._repeat_at_s = 0.0
        self._trouble = ""  # with the folder as a whole, as it was reported last

    def owner(self, file: Path) -> str:
        """The owner of the definition in a file."""
        return path_text(f"{self._directory.name}/{file.relative_to(self._directory).as_posix()}")

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
                self._trouble = ""
            except StoreError as error:
                self._stamps = None
                logger.warning("could not sync %s with the catalog: %s. It is tried again", path_text(self._directory), error)
            except BadValue as error:
                if str(error) != self._trouble:
                    self._report(FileChange(path_text(self._directory), None, error=str(error)))
                self._trouble = str(error)
            self._synced.set()
            try:
                await asyncio.wait_for(self._stopped.wait(), self._look_s)
            except TimeoutError:
                continue

    async def look(self) -> bool:
        """Looks at the files, and syncs those that have changed since the last look, or are to be tried again; returns whether there was any.

        Raises:
            StoreError: the store can't be reached; the next look begins anew.
            BadValue: there are too many files, or no folder.
        """
        stamps, now_s = await asyncio.to_thread(_stamps, self._directory), time.monotonic()
        if stamps == self._stamps and not (self._repeated and now_s >= self._repeat_at_s):
            return False
        if await self._gone(stamps):
            await asyncio.sleep(REPLACE_S)
            stamps = await asyncio.to_thread(_stamps, self._directory)
        before, self._stamps, self._repeat_at_s = self._stamps, stamps, now_s + REPEAT_S
        gone = await self._gone(stamps)
        again = self._repeated if stamps == before else self._refused.keys()
        for file in [file for file in stamps if before is None or before.get(file) != stamps[file] or file in again]:
            self._tell(file, await self._sync(file, frozenset(owner for owner, _ in gone)))
        self._refused = {file: why for file, why in self._refused.items() if file in stamps}
        self._repeated &= self._refused.keys()
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
            found = await sync_definition(self._access, self._tenant, document, edit, file=path_text(file.name))
        except StoreError:
            raise
        except OSError as error:
            self._repeated.add(file)
            return FileChange(owner, None, error=f"it can't be read: {error.strerror}")
        except PerdureError as error:
            (self._repeated.add if isinstance(error, DefinitionOwned) else self._repeated.discard)(file)
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

    def _tell(self, file: Path, change: FileChange) -> None:
        before = self._refused.pop(file, "")
        if change.error:
            self._refused[file] = change.error
        else:
            self._repeated.discard(file)
        if change.outcome != "unchanged" and not (change.error and change.error == before):
            self._report(change)


def _stamps(directory: Path) -> FileStamps:
    if not os.path.isdir(directory):  # noqa: PTH112 # Path.is_dir raises an error where the path can't be read
        raise BadValue("folder", path_text(directory), "a directory with definitions; it is not there, and nothing was changed")
    found: FileStamps = {}
    for file in folder_files(directory):
        try:
            known = file.stat()
        except FileNotFoundError:  # it was removed meanwhile
            continue
        except OSError:  # reading it says why
            found[file] = (0, 0)
            continue
        found[file] = (known.st_mtime_ns, known.st_size)
    return found
