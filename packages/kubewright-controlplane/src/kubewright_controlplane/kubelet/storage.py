"""Volumes that keep data on this machine: hostPath, and the volumes of claims.

A volume of the built-in provisioner is a folder next to the folders of Pods, with the name of the volume's handle. The
folder is created when a Pod mounts it first. With the reclaim policy `Delete` it is removed with the volume, and with
`Retain` it stays.

Follows k8s.io/kubernetes pkg/volume/hostpath, and
https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kubewright.client._client import Client
from kubewright.controllers import Context, Controller, DeletedContext, controller
from kubewright_controlplane.common.volumes import PROVISIONER, claim_name
from kubewright_controlplane.kubelet.rootfolder import make_below, make_file_below
from kubewright_controlplane.kubelet.sandbox import HostFolders
from kubewright_controlplane.kubelet.sources import SourceMissing

_HANDLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EVERYBODY: Final = 0o777
_CHECKS: Final[dict[str, tuple[str, Callable[[int], bool]]]] = {
    "Directory": ("a directory", stat.S_ISDIR),
    "DirectoryOrCreate": ("a directory", stat.S_ISDIR),
    "File": ("a file", stat.S_ISREG),
    "FileOrCreate": ("a file", stat.S_ISREG),
    "Socket": ("a socket", stat.S_ISSOCK),
    "CharDevice": ("a character device", stat.S_ISCHR),
    "BlockDevice": ("a block device", stat.S_ISBLK),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a volume is on this machine."""

    folder: Path
    within: str = ""
    """A path below `folder`, in which no symbolic link is followed."""
    read_only: bool = False
    keeps_owner: bool = False
    """Whether the group of a Pod does not get its files."""


def host_path(folders: HostFolders, path: str, kind: str | None) -> Place:
    """Return the place of a hostPath volume, which is created if its type says so. Raises SourceMissing."""
    found = Path(os.path.normpath(f"/{path.lstrip('/')}")).resolve()
    allowed = _allowed(folders, path)
    if allowed is None:
        raise SourceMissing(_refusal(path))
    try:
        within = "" if found == allowed else str(found.relative_to(allowed))
        _create(allowed, within, kind or "")
        _check(found, path, kind or "")
    except OSError as error:
        raise SourceMissing(f"hostPath {path}: {error.strerror or error}") from error
    return Place(allowed, within, keeps_owner=True)


def refused_host_path(folders: HostFolders, pod: Pod) -> str | None:
    """Return why the Pod can never start: a hostPath that it may not use; None if there is none."""
    for volume in pod.spec.volumes:
        path = volume.host_path.path if volume.host_path is not None else None
        if path is not None and _allowed(folders, path) is None:
            return _refusal(path)
    return None


def _allowed(folders: HostFolders, path: str) -> Path | None:
    """Return the allowed folder above a path of this machine; None if there is none."""
    found = Path(os.path.normpath(f"/{path.lstrip('/')}")).resolve()
    return next((root for each in folders.allowed if found.is_relative_to(root := each.resolve())), None)


def _refusal(path: str) -> str:
    return (
        f"hostPath {path}: Pods may not use this folder; allow it or a folder above it with "
        "--allow-host-path, or Environment(host_paths=[...])"
    )


def _create(allowed: Path, within: str, kind: str) -> None:
    """Create what a hostPath names. Raises OSError if a program replaces a folder on the way by a symbolic link."""
    if (allowed / within).exists():
        return
    if kind in ("", "DirectoryOrCreate"):
        allowed.mkdir(parents=True, exist_ok=True)
        make_below(allowed, within, 0o755)
    elif kind == "FileOrCreate" and (allowed / within).parent.is_dir():
        make_file_below(allowed, within, 0o644)


def _check(path: Path, shown: str, kind: str) -> None:
    if kind in _CHECKS:
        name, is_kind = _CHECKS[kind]
        if not path.exists() or not is_kind(path.stat().st_mode):
            raise SourceMissing(f"hostPath type check failed: {shown} is not {name}")


async def claimed_volume(client: Client, folders: HostFolders, volume: Volume, pod: Pod) -> Place:
    """Return the place of the volume that a claim is bound to. Raises SourceMissing."""
    name = claim_name(pod, volume) or ""
    claim = await client.get_or_none(PersistentVolumeClaim, name, namespace=pod.metadata.namespace)
    if claim is None:
        raise SourceMissing(f'persistentvolumeclaim "{name}" not found')
    owners = {each.uid for each in claim.metadata.owner_references}
    if volume.ephemeral is not None and pod.metadata.uid not in owners:
        raise SourceMissing(f'PVC "{name}" was not created for pod "{pod.metadata.name}" (pod is not owner)')
    if claim.status.phase != "Bound" or not claim.spec.volume_name:
        raise SourceMissing(f'persistentvolumeclaim "{name}" is not bound to a volume')
    bound = await client.get_or_none(PersistentVolume, claim.spec.volume_name)
    if bound is None:
        raise SourceMissing(f'persistentvolume "{claim.spec.volume_name}" not found')
    if bound.spec.claim_ref is None or bound.spec.claim_ref.uid != claim.metadata.uid:
        raise SourceMissing(f'persistentvolume "{bound.metadata.name}" is bound to another claim than "{name}"')
    place = _of_persistent_volume(folders, bound)
    asked = volume.persistent_volume_claim
    return replace(place, read_only=bool(asked is not None and asked.read_only))


def _of_persistent_volume(folders: HostFolders, volume: PersistentVolume) -> Place:
    spec, name = volume.spec, volume.metadata.name
    if spec.volume_mode == "Block":
        raise SourceMissing(f'persistentvolume "{name}": volumeMode Block is not supported for Pods that are processes')
    if (handle := handle_of(volume)) is not None:
        folder = folders.volumes / handle
        if not folder.exists():
            folder.mkdir(parents=True)
            folder.chmod(_EVERYBODY)
        return Place(folder)
    if spec.host_path is not None:
        return host_path(folders, spec.host_path.path, spec.host_path.type)
    if spec.local is not None:
        return replace(host_path(folders, spec.local.path, "Directory"), keeps_owner=False)
    raise SourceMissing(
        f'persistentvolume "{name}": Pods that are processes use hostPath and local volumes, and those of the '
        f"provisioner {PROVISIONER}; use a claim of the class `standard`"
    )


def handle_of(volume: PersistentVolume) -> str | None:
    """Return the name of the folder of a volume of the built-in provisioner; None for other volumes."""
    csi = volume.spec.csi
    if csi is None or csi.driver != PROVISIONER or not _HANDLE.fullmatch(csi.volume_handle):
        return None
    return csi.volume_handle


class VolumeCleaner:
    """Removes the folders of volumes that were deleted."""

    def __init__(self, folders: HostFolders) -> None:
        self._folders = folders
        self._handles: dict[str, str] = {}
        """The folders of the volumes that do not outlive their objects, by the names of the volumes."""

    async def reconcile(self, ctx: Context[PersistentVolume] | DeletedContext[PersistentVolume]) -> None:
        if isinstance(ctx, DeletedContext):
            handle = self._handles.pop(ctx.request.name, None)
            if handle is not None:
                shutil.rmtree(self._folders.volumes / handle, ignore_errors=True)
            return
        handle = handle_of(ctx.object)
        if handle is not None and ctx.object.spec.persistent_volume_reclaim_policy == "Delete":
            self._handles[ctx.request.name] = handle
        else:
            self._handles.pop(ctx.request.name, None)


def volume_cleaner(folders: HostFolders) -> Controller[PersistentVolume]:
    """Return the part of the kubelet that removes the folders of deleted volumes."""
    declare = controller(PersistentVolume, name="kubelet-volumes", reconcile_deleted=True)
    return declare(VolumeCleaner(folders).reconcile)
