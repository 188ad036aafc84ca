"""History: every change of the vault as a git commit. The only importer of pygit2.

The git directory is `.memory_fs/git` and the vault is its work tree, so plain git reads it:
`git --git-dir=vault/.memory_fs/git log -p`. A commit rebuilds only the trees on the paths it changes and touches
neither git's index nor the work tree; files and their durability are the vault's business.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pygit2
from pygit2.enums import FileMode, ObjectType, RepositoryInitFlag, SortMode

from memory_fs.change import AGENT, Author, Change
from memory_fs.errors import VaultError
from memory_fs.events import clean
from memory_fs.history_trees import patches_of, touches, walk
from memory_fs.objects import Objects

MAIN = "refs/heads/main"
_PATIENCE = 100  # hundredths of a second for another git to let go of the branch
_HEAD = re.compile(r"HEAD(?![\w-])")  # the vault writes to main, whatever a person has checked out beside it


class History:
    """The git repository of one vault."""

    def __init__(self, folder: Path, whole_sync: bool) -> None:
        """Open the repository, or make it.

        Args:
            folder: the git directory, two levels below the vault.
            whole_sync: the caller syncs the file system before it relies on a commit; else libgit2 syncs each object.

        Raises:
            VaultError: the folder holds no repository, or cannot be written.
        """
        if not whole_sync:  # for the whole process, so it stays on
            pygit2.settings.enable_fsync_gitdir(True)
        self._folder = folder
        self._packs = folder / "objects" / "pack"
        self._opened: tuple[object, pygit2.Repository] | None = None
        try:
            if not (folder / "HEAD").exists():
                self._make(folder)
            _ = self.repo
        except (pygit2.GitError, OSError) as error:
            raise VaultError(f"the history cannot be opened ({error})", path=folder) from error

    @property
    def repo(self) -> pygit2.Repository:
        """The repository, opened anew when packs came or went: somebody pruned, and what was known here may be gone."""
        with _reading():
            packs = self._packs.stat()
            known = (packs.st_ino, packs.st_mtime_ns)
            if self._opened is None or self._opened[0] != known:
                self._opened = (known, pygit2.Repository(str(self._folder)))
            return self._opened[1]

    @property
    def objects(self) -> Objects:
        """Its objects, one by one."""
        return Objects(self.repo)

    def _make(self, folder: Path) -> None:
        """Make the repository; aside and then in place, so that there is a whole one or none."""
        if folder.exists():  # somebody's, without its HEAD
            return self._create(folder)
        aside = folder.with_name("git.new")
        shutil.rmtree(aside, ignore_errors=True)
        self._create(aside)
        aside.rename(folder)

    @staticmethod
    def _create(folder: Path) -> None:
        flags = RepositoryInitFlag.BARE | RepositoryInitFlag.NO_DOTGIT_DIR | RepositoryInitFlag.MKPATH
        repo = pygit2.init_repository(str(folder), flags=flags, initial_head="main")
        # Only now the work tree, and relative: libgit2 would leave an absolute path and a `.git` file in the vault,
        # which could then neither be moved nor kept in a repository of its owner's.
        repo.config["core.bare"] = False
        repo.config["core.worktree"] = "../.."
        repo.config["core.logAllRefUpdates"] = False
        repo.config["core.autocrlf"] = False
        (folder / "info").mkdir(exist_ok=True)
        (folder / "info" / "exclude").write_text(".memory_fs/\n")
        (folder.parent / ".gitignore").write_text(
            "# Made by memory_fs: a repository around the vault leaves this out.\n*\n"
        )

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def head(self) -> str | None:
        """The newest commit, or None in a new vault.

        Raises:
            VaultError: the branch is damaged.
        """
        try:
            reference = self.repo.references.get(MAIN)
        except (OSError, pygit2.GitError) as error:
            raise VaultError(f"the history's branch is damaged ({error}); see `memory-fs doctor`") from error
        return str(reference.target) if reference else None

    def blob_id(self, path: str, rev: str | None = None) -> str | None:
        """The blob id of a file at a commit (default: the newest), or None where it is not there."""
        rev = rev or self.head
        if rev is None:
            return None
        with _reading():
            try:
                found = self._commit(rev).tree[path]
            except KeyError:
                return None
            return str(found.id) if found.type == ObjectType.BLOB else None

    def read(self, path: str, rev: str | None = None) -> bytes | None:
        """The bytes of a file at a commit, or None where it is not there."""
        blob = self.blob_id(path, rev)
        with _reading():
            return None if blob is None else self.repo[blob].read_raw()

    def tree(self, rev: str | None = None) -> dict[str, str]:
        """path -> blob id of every file at a commit."""
        rev = rev or self.head
        with _reading():
            return dict(walk(self._commit(rev).tree)) if rev else {}

    def show(self, rev: str) -> Change:
        """One change by its id, or the start of its id.

        Raises:
            VaultError: there is no such change.
        """
        return self._change(self._commit(rev))

    def parent(self, rev: str) -> str | None:
        """The commit before this one, or None for the first."""
        parents = self._commit(rev).parent_ids
        return str(parents[0]) if parents else None

    def log_of(self, paths: Iterable[str] | None, start: str | None = None) -> Iterator[Change]:
        """Changes that touched any of these files or folders (None: all changes), newest first.

        Args:
            start: the commit to go back from; the newest by default.

        Raises:
            VaultError: what is read was pruned meanwhile, or is damaged.
        """
        wanted = None if paths is None else tuple(paths)
        first = start or self.head
        with _reading():
            for commit in self.repo.walk(first, SortMode.NONE) if first else ():
                if wanted is None or touches(commit, wanted):
                    yield self._change(commit)

    def log(self, path: str | None = None, start: str | None = None) -> Iterator[Change]:
        """Changes, newest first; with a path only those that touched it (a file or a folder). Else as `log_of`."""
        return self.log_of(None if path is None else (path,), start)

    def count(self) -> int:
        """How many changes there are."""
        with _reading():
            return sum(1 for _ in self.repo.walk(self.head, SortMode.NONE)) if self.head else 0

    def merge(self, base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | None:
        """A three-way merge of one file; None where both changed the same lines, or one deleted the file."""
        if base is None or ours is None or theirs is None:
            return None
        with guard():
            blobs = [self.repo.create_blob(data) for data in (base, ours, theirs)]
        old, mine, other = (pygit2.IndexEntry("text", blob, FileMode.BLOB) for blob in blobs)
        try:
            merged = self.repo.merge_file_from_index(old, mine, other)
        except UnicodeDecodeError:
            return None
        return merged.contents.encode() if merged.automergeable else None

    def contents(self, rev: str) -> list[tuple[str, bytes | None, bytes | None]]:
        """(path, bytes before, bytes after) for each file that a change touched; None where there was none."""
        commit = self._commit(rev)
        before = str(commit.parent_ids[0]) if commit.parent_ids else None
        with _reading():
            paths = [delta.new_file.path or delta.old_file.path for delta in self._diff(commit).deltas]
        return [(path, self.read(path, before) if before else None, self.read(path, str(commit.id))) for path in paths]

    @staticmethod
    def _diff(commit: pygit2.Commit) -> pygit2.Diff:
        if commit.parents:
            return commit.parents[0].tree.diff_to_tree(commit.tree)
        return commit.tree.diff_to_tree(swap=True)

    def patches(self, rev: str) -> Iterator[tuple[str, str]]:
        """(path, unified diff) for each file that a change touched."""
        with _reading():
            yield from patches_of(self._diff(self._commit(rev)))

    def compare(self, old: str, new: str) -> Iterator[tuple[str, str]]:
        """(path, unified diff) for each file that differs between the states at two commits."""
        return patches_of(self._commit(old).tree.diff_to_tree(self._commit(new).tree))

    def _commit(self, rev: str) -> pygit2.Commit:
        try:
            found = self.repo.revparse_single(MAIN + rev[4:] if _HEAD.match(rev) else rev)
            return found.peel(pygit2.Commit)
        except (KeyError, OSError, ValueError, pygit2.GitError, pygit2.InvalidSpecError) as error:
            raise VaultError(f"no change {rev!r} in the history; see `memory-fs log`") from error

    def _change(self, commit: pygit2.Commit) -> Change:
        subject, _, rest = commit.message.partition("\n")
        trailers = dict(line.split(": ", 1) for line in rest.strip().split("\n") if ": " in line)
        zone = timezone(timedelta(minutes=commit.author.offset))
        moment = datetime.fromtimestamp(commit.author.time, UTC).astimezone(zone)
        return Change(str(commit.id), commit.author.name, moment, subject, trailers, self.patches)

    # -- writing ------------------------------------------------------------------------------------------------

    def prepare(
        self,
        changes: Mapping[str, bytes | None],
        author: Author,
        subject: str,
        trailers: Mapping[str, str],
        when: datetime,
    ) -> str | None:
        """Write the objects of a commit on top of the newest, without moving the branch.

        Args:
            changes: path -> new bytes, or None to delete.
            author: (name, e-mail).
            subject: one line; line breaks become spaces.
            when: aware.

        Returns:
            The commit's id, or None when nothing differs.
        """
        head = self.head
        base = self._commit(head).tree if head else None
        with guard():
            tree = self._tree(base, changes)
        if base is not None and tree == base.id:
            return None
        offset = when.utcoffset() or timedelta()
        stamp = (int(when.timestamp()), int(offset.total_seconds() // 60))
        name = "".join(c for c in author[0] if c not in "<>\n").strip() or "person"
        by = pygit2.Signature(name, author[1].strip("<> \n") or "person@memory-fs.invalid", *stamp)
        program = pygit2.Signature("memory_fs", "program@memory-fs.invalid", *stamp)
        message = _line(subject) + "\n"
        if trailers:
            message += "\n" + "".join(f"{key}: {_line(value)}\n" for key, value in trailers.items())
        parents = [pygit2.Oid(hex=head)] if head else []
        with guard():
            return str(self.repo.create_commit(None, by, program, message, tree, parents))

    def _tree(self, base: pygit2.Tree | None, changes: Mapping[str, bytes | None]) -> pygit2.Oid:
        builder = self.repo.TreeBuilder(base) if base is not None else self.repo.TreeBuilder()
        folders: dict[str, dict[str, bytes | None]] = {}
        for path, data in changes.items():
            name, _, rest = path.partition("/")
            if rest:
                folders.setdefault(name, {})[rest] = data
            elif data is not None:
                builder.insert(name, self.repo.create_blob(data), FileMode.BLOB)
            elif builder.get(name) is not None:
                builder.remove(name)
        for name, inside in folders.items():
            entry = builder.get(name)
            old = entry if isinstance(entry, pygit2.Tree) else None
            tree = self._tree(old, inside)
            if self.repo[tree].read_raw():
                builder.insert(name, tree, FileMode.TREE)
            elif entry is not None:
                builder.remove(name)
        return builder.write()

    def finish(self, rev: str) -> None:
        """Move the branch to a prepared commit.

        Git's own lock on it is left over when it stays: the vault's is held here, and git holds its own for moments.
        """
        with guard():
            left_over = self._folder / f"{MAIN}.lock"
            for _ in range(_PATIENCE if left_over.exists() else 0):
                time.sleep(0.01)
                if not left_over.exists():
                    break
            else:
                left_over.unlink(missing_ok=True)
            self.repo.references.create(MAIN, rev, force=True)

    def reset(self, rev: str | None) -> None:
        """Let the branch name this commit, whatever a power cut made of it."""
        (Path(self.repo.path) / MAIN).unlink(missing_ok=True)
        if rev:
            self.finish(rev)

    def holds(self, rev: str) -> bool:
        """Whether a commit is the newest one or comes before it."""
        head = self.head
        return head == rev or (head is not None and self.repo.descendant_of(head, rev))

    def close(self) -> None:
        """Release the files of the repository."""
        if self._opened:
            self._opened[1].free()


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """What is not there any more is an error of the vault, said in one line."""
    try:
        yield
    except (KeyError, OSError, pygit2.GitError) as error:
        told = "was pruned meanwhile or is damaged; try again, else see `memory-fs doctor`"
        raise VaultError(f"an object of the history {told}") from error


@contextlib.contextmanager
def guard() -> Iterator[None]:
    """What libgit2 cannot write is an error of the vault, said in one line."""
    try:
        yield
    except (KeyError, OSError, pygit2.GitError) as error:
        raise VaultError(f"the history cannot be written ({error}); nothing is lost") from error


def _line(text: str) -> str:
    """Text from anywhere as one line of a commit message."""
    return " ".join(clean(text).split())


def person() -> Author:
    """Who edits files by hand: git's configured name, else `person`."""
    try:
        config = pygit2.Config.get_global_config()
        email = config["user.email"] if "user.email" in config else ""  # noqa: SIM401 (a Config has no get)
        return config["user.name"] or "person", email or "person@memory-fs.invalid"
    except (KeyError, OSError, pygit2.GitError):
        return "person", "person@memory-fs.invalid"


__all__ = ["AGENT", "Author", "Change", "History", "person"]
