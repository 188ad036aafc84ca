"""What kind of file system a folder is on: who tells of edits there, and whose word is enough that a write is safe."""

from __future__ import annotations

from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
_REMOTE = ("nfs", "cifs", "smb", "fuse.sshfs", "9p", "afs", "ceph", "glusterfs", "vboxsf", "davfs", "fuse.rclone")


def kind(folder: Path, mounts: Path = MOUNTS) -> str:
    """The kind of file system that a folder is on, such as `ext4`; '' where the system does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    best, found = Path("/"), ""
    for line in lines:
        _, place, name, *_ = [*line.split(" "), "", "", ""]
        mounted = Path(place.replace("\\040", " ") or "/")
        if folder.is_relative_to(mounted) and len(mounted.parts) >= len(best.parts):
            best, found = mounted, name
    return found


def remote(folder: Path, mounts: Path = MOUNTS) -> str:
    """The kind of network file system that a folder is on, or '' where it is on none that is known."""
    found = kind(folder, mounts)
    return found if found.startswith(_REMOTE) else ""


def syncs_files_alone(folder: Path, mounts: Path = MOUNTS) -> bool:
    """Whether to sync the whole file system means nothing there: a program or another machine keeps the files.

    Through FUSE and on most network folders syncfs succeeds without a word to whoever has the device; fsync gets there.
    """
    return kind(folder, mounts).startswith(("fuse", *_REMOTE))
