"""The volumes of a Pod as folders, and their mounts in containers.

All files of a volume that comes from objects of the API change at once, by the exchange of one symbolic link. A reader
sees either the old or the new version, as with a real kubelet.

Without a sandbox, a container's mounts are links under its root folder, `$CONTAINER_SANDBOX_MOUNT_POINT`, as in
Kubernetes' host process containers:
https://kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod/#volume-mounts.

Follows k8s.io/kubernetes pkg/volume/util/atomic_writer.go.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Final

from kubewright.apis.core.v1 import (
    Container,
    DownwardAPIVolumeFile,
    KeyToPath,
    Pod,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
)
from kubewright_controlplane.kubelet import sources
from kubewright_controlplane.kubelet.helpers.exec_helper import open_below
from kubewright_controlplane.kubelet.rootfolder import Mount, absolute, make_below
from kubewright_controlplane.kubelet.sandbox import PodSandbox
from kubewright_controlplane.kubelet.sources import SourceMissing, expand
from kubewright_controlplane.kubelet.storage import Place, claimed_volume, host_path

_DATA: Final = "..data"
_MODE: Final = 0o644
_SHARED_MODE: Final = 0o777
_TOKEN_MODE: Final = 0o600
_RENEW_AT: Final = 0.8
"""The fraction of a token's lifetime after which a kubelet requests another one."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int
    owner: int = field(default=-1, compare=False)
    """The user that owns it; -1 for the user of the control plane."""


@dataclass(slots=True)
class _Token:
    text: str
    renew_at: datetime


class Volumes:
    """The volumes of one Pod, in the folder `volumes` of its sandbox."""

    def __init__(self, sandbox: PodSandbox) -> None:
        self._sandbox = sandbox
        self._folder = sandbox.folder / "volumes"
        self._client = sandbox.client
        self._clock = sandbox.clock
        self._tokens: dict[tuple[str, str], _Token] = {}
        self._places: dict[str, Place] = {}
        """The volumes that are not made of files from the API."""
        self._memory: Path | None = None

    async def write(self, pod: Pod) -> None:
        """Create all volumes, or update them. Raises SourceMissing."""
        group = _group_of(pod)
        for volume in pod.spec.volumes:
            if not _is_shared(volume):
                write_atomically(self._folder / volume.name, await self._files(volume, pod), group)
            elif volume.name not in self._places:
                place = self._places[volume.name] = await self._place(volume, pod)
                if group is not None and not place.keeps_owner:
                    await asyncio.to_thread(give_to_group, place.folder, place.within, group)

    async def _place(self, volume: Volume, pod: Pod) -> Place:
        """Return the place of a volume that is not made of files from the API. Raises SourceMissing."""
        folders = self._sandbox.folders
        if volume.host_path is not None:
            return host_path(folders, volume.host_path.path, volume.host_path.type)
        if volume.empty_dir is None:
            return await claimed_volume(self._client, folders, volume, pod)
        memory = folders.memory() if volume.empty_dir.medium == "Memory" else None
        target = (memory / (pod.metadata.uid or "") if memory is not None else self._folder) / volume.name
        if memory is not None:
            self._memory = target.parent
        if not target.exists():
            target.mkdir(parents=True)
            target.chmod(_SHARED_MODE)
        return Place(target)

    def folder(self, name: str) -> Path | None:
        """Return the folder of an emptyDir; None if it was not created yet."""
        place = self._places.get(name)
        return place.folder if place is not None else None

    def remove(self) -> None:
        """Remove what is not in the Pod's folder."""
        if self._memory is not None:
            shutil.rmtree(self._memory, ignore_errors=True)

    @property
    def renewal(self) -> datetime | None:
        """When the next token has to be renewed; None without tokens."""
        return min((each.renew_at for each in self._tokens.values()), default=None)

    def mounts(self, container: Container, environment: Mapping[str, str]) -> list[Mount]:
        """Return the mounts of a container. Creates the folders of its subPaths. Raises SourceMissing."""
        return [self._mount(each, environment) for each in container.volume_mounts]

    def link(self, container: Container, mounts: Iterable[Mount]) -> None:
        """Link mounts under the root folder of a container without a sandbox. Raises SourceMissing."""
        root = self._sandbox.root(container)
        for mount in sorted(mounts, key=lambda each: each.target):
            link = self._sandbox.path(container, mount.target)
            if link == root or not self._sandbox.holds(link.parent):
                raise SourceMissing(f"cannot mount at {mount.target}: choose a folder below the container's root")
            link.parent.mkdir(parents=True, exist_ok=True)
            if link.is_dir() and not link.is_symlink():
                with suppress(OSError):  # if it is not empty, the link below fails
                    link.rmdir()
            _replace_link(link, str(mount.source / mount.within))

    def _mount(self, mount: VolumeMount, environment: Mapping[str, str]) -> Mount:
        within = mount.sub_path or (expand(mount.sub_path_expr, environment) if mount.sub_path_expr else "")
        known = self._places.get(mount.name)
        folder = known.folder / known.within if known is not None else self._folder / mount.name
        target = absolute(mount.mount_path)
        if target == "/":
            raise SourceMissing(f"cannot mount at {mount.mount_path}: choose a folder below the container's root")
        if not (folder / within).resolve().is_relative_to(folder.resolve()):
            raise SourceMissing(f'subPath "{within}" of the mount {mount.mount_path} points outside its volume')
        if known is None:
            source = folder / within
            if not source.exists():
                source.mkdir(parents=True)
            return Mount(source, target, read_only=True)
        inner = "/".join(part for part in (known.within, within) if part)
        if within:
            try:
                make_below(known.folder, inner, _SHARED_MODE)
            except OSError as error:
                reason = error.strerror or str(error)
                raise SourceMissing(f'subPath "{within}" of the mount {mount.mount_path}: {reason}') from error
        return Mount(known.folder, target, bool(mount.read_only) or known.read_only, inner)

    async def _files(self, volume: Volume, pod: Pod) -> dict[str, File]:
        namespace = pod.metadata.namespace or ""
        if volume.config_map is not None:
            source = volume.config_map
            found = await sources.config_map(self._client, namespace, source.name or "", optional=bool(source.optional))
            return _chosen(found, source.items, source.default_mode, optional=bool(source.optional))
        if volume.secret is not None:
            secret = volume.secret
            found = await sources.secret(
                self._client, namespace, secret.secret_name or "", optional=bool(secret.optional)
            )
            return _chosen(found, secret.items, secret.default_mode, optional=bool(secret.optional))
        if volume.downward_api is not None:
            return self._downward(volume.downward_api.items, volume.downward_api.default_mode, pod)
        if volume.projected is not None:
            return await self._projected(volume, pod)
        given = next((key for key in _sources_of(volume)), "no source")
        raise SourceMissing(f'volume "{volume.name}": {given} is not supported for Pods that are processes')

    async def _projected(self, volume: Volume, pod: Pod) -> dict[str, File]:
        assert volume.projected is not None
        namespace, mode = pod.metadata.namespace or "", volume.projected.default_mode
        files: dict[str, File] = {}
        for source in volume.projected.sources:
            if source.config_map is not None:
                each = source.config_map
                found = await sources.config_map(self._client, namespace, each.name or "", optional=bool(each.optional))
                files |= _chosen(found, each.items, mode, optional=bool(each.optional))
            elif source.secret is not None:
                secret = source.secret
                found = await sources.secret(self._client, namespace, secret.name or "", optional=bool(secret.optional))
                files |= _chosen(found, secret.items, mode, optional=bool(secret.optional))
            elif source.downward_api is not None:
                files |= self._downward(source.downward_api.items, mode, pod)
            elif source.service_account_token is not None:
                token = await self._token(volume.name, source.service_account_token, pod)
                files[source.service_account_token.path] = _token_file(token.encode(), mode, pod)
            else:
                raise SourceMissing(
                    f'volume "{volume.name}": a projected source is not supported for Pods that are processes'
                )
        return files

    def _downward(self, items: Iterable[DownwardAPIVolumeFile], mode: int | None, pod: Pod) -> dict[str, File]:
        files: dict[str, File] = {}
        for item in items:
            try:
                text = self._value(item, pod)
            except KeyError as error:
                raise SourceMissing(f"unsupported downward API field: {error.args[0]}") from None
            files[item.path] = File(text.encode(), item.mode or mode or _MODE)
        return files

    def _value(self, item: DownwardAPIVolumeFile, pod: Pod) -> str:
        if item.field_ref is not None:
            return sources.pod_field(pod, self._sandbox, item.field_ref.field_path)
        selector = item.resource_field_ref
        if selector is None:
            raise KeyError(item.path)
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if container.name == selector.container_name:
                return sources.container_resource(container, self._sandbox.allocatable, selector)
        raise KeyError(f"container {selector.container_name}")

    async def _token(self, volume: str, wanted: ServiceAccountTokenProjection, pod: Pod) -> str:
        now, key = self._clock.now(), (volume, wanted.path)
        known = self._tokens.get(key)
        if known is None or known.renew_at <= now:
            text, end = await sources.token(self._client, pod, wanted.audience, wanted.expiration_seconds)
            known = self._tokens[key] = _Token(text, now + (end - now) * _RENEW_AT + timedelta(seconds=1))
        return known.text


def _is_shared(volume: Volume) -> bool:
    """Return whether containers share a folder, instead of files from the API."""
    return volume.empty_dir is not None or volume.host_path is not None or _has_claim(volume)


def _has_claim(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def _group_of(pod: Pod) -> int | None:
    """Return the group that owns the volumes; None if only root could set it, or none is asked for."""
    context = pod.spec.security_context
    return context.fs_group if context is not None and os.geteuid() == 0 else None


def _token_file(content: bytes, mode: int | None, pod: Pod) -> File:
    """Return the file of a token. Others can read it, unless the Pod says who uses it."""
    context = pod.spec.security_context
    user = _common_user(pod)
    if (context is None or context.fs_group is None) and user is None:
        return File(content, mode or _MODE)
    return File(content, _TOKEN_MODE, -1 if user is None or os.geteuid() != 0 else user)


def _common_user(pod: Pod) -> int | None:
    """Return the user of all containers; None if they differ or none is given."""
    context = pod.spec.security_context
    shared = context.run_as_user if context is not None else None
    users = {
        shared if each.security_context is None or each.security_context.run_as_user is None
        else each.security_context.run_as_user
        for each in (*pod.spec.init_containers, *pod.spec.containers)
    }  # fmt: skip
    return users.pop() if len(users) == 1 else None


def give_to_group(folder: Path, within: str, group: int) -> None:
    """Let a group read and write everything at `within` below `folder`. No symbolic link is followed."""
    top = open_below(str(folder), within)
    try:
        for _, _, names, above in os.fwalk(".", dir_fd=top):
            os.fchown(above, -1, group)
            os.fchmod(above, os.fstat(above).st_mode | 0o2770)
            for name in names:
                with suppress(OSError):  # it was removed, or it is a link or a socket
                    _give_file(name, above, group)
    finally:
        os.close(top)


def _give_file(name: str, above: int, group: int) -> None:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=above)
    try:
        os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, os.fstat(descriptor).st_mode | 0o660)
    finally:
        os.close(descriptor)


def write_atomically(folder: Path, files: Mapping[str, File], group: int | None = None) -> None:
    """Replace the content of `folder` by `files`, by their relative paths. Does nothing if there is no difference.

    Raises SourceMissing for a path that leads out of the folder. With a `group`, its members can read the files.
    """
    if group is not None:
        files = {path: replace(file, mode=file.mode | 0o440) for path, file in files.items()}
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / _DATA
    if data.exists() and _content(data) == dict(files):
        return
    fresh = folder / f"..{secrets.token_hex(6)}"
    for path, file in files.items():
        if path.startswith(("/", "..")) or ".." in path.split("/"):
            raise SourceMissing(f'the path "{path}" of a file must be relative, and without ".."')
        target = fresh / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        if group is not None or file.owner >= 0:
            os.chown(target, file.owner, -1 if group is None else group)
        target.chmod(file.mode)
    fresh.mkdir(exist_ok=True)
    old = data.readlink() if data.is_symlink() else None
    _replace_link(data, fresh.name)
    names = {PurePosixPath(path).parts[0] for path in files}
    for name in names:
        _replace_link(folder / name, f"{_DATA}/{name}")
    for link in folder.iterdir():
        if link.name not in names and link.is_symlink() and not link.name.startswith(".."):
            link.unlink()
    if old is not None:
        shutil.rmtree(folder / old, ignore_errors=True)


def _content(data: Path) -> dict[str, File]:
    found = (path for path in data.rglob("*") if path.is_file())
    return {path.relative_to(data).as_posix(): File(path.read_bytes(), path.stat().st_mode & 0o777) for path in found}


def _replace_link(link: Path, target: str) -> None:
    """Point `link` to `target` atomically. Raises SourceMissing if there is a folder that is not empty."""
    if link.is_symlink() and os.readlink(link) == target:
        return
    temporary = link.with_name(f"..{link.name}-{secrets.token_hex(3)}")
    temporary.symlink_to(target)
    try:
        temporary.replace(link)
    except OSError as error:
        temporary.unlink()
        raise SourceMissing(f"cannot mount at {link}: {error.strerror}") from error


def _chosen(
    found: Mapping[str, bytes] | None, items: Iterable[KeyToPath], mode: int | None, *, optional: bool
) -> dict[str, File]:
    """Return the entries that a volume selects: all of them, unless it has items."""
    if found is None:
        return {}
    wanted = list(items)
    if not wanted:
        return {key: File(value, mode or _MODE) for key, value in found.items()}
    files: dict[str, File] = {}
    for item in wanted:
        if item.key in found:
            files[item.path] = File(found[item.key], item.mode or mode or _MODE)
        elif not optional:
            raise SourceMissing(f"references non-existent config key: {item.key}")
    return files


def _sources_of(volume: Volume) -> Iterable[str]:
    return (key for key in volume.__struct_encode_fields__ if key != "name" and _is_given(volume, key))


def _is_given(volume: Volume, key: str) -> bool:
    fields = dict(zip(volume.__struct_encode_fields__, volume.__struct_fields__, strict=True))
    return getattr(volume, fields[key]) is not None
