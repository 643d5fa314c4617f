"""The volumes of a Pod as folders, and their mounts in containers.

All files of a volume that comes from objects of the API change at once, by the exchange of one symbolic link. A reader
sees either the old or the new version, as with a real kubelet.

A container's mounts are links under its root folder, `$CONTAINER_SANDBOX_MOUNT_POINT`, as in Kubernetes' host process
containers: https://kubernetes.io/docs/tasks/configure-pod-container/create-hostprocess-pod/#volume-mounts.

Follows k8s.io/kubernetes pkg/volume/util/atomic_writer.go.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
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
)
from kubewright_controlplane.kubelet import sources
from kubewright_controlplane.kubelet.sandbox import PodSandbox
from kubewright_controlplane.kubelet.sources import SourceMissing, expand

_DATA: Final = "..data"
_MODE: Final = 0o644
_RENEW_AT: Final = 0.8
"""The fraction of a token's lifetime after which a kubelet requests another one."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    content: bytes
    mode: int


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

    async def write(self, pod: Pod) -> None:
        """Create all volumes, or update them. Raises SourceMissing."""
        for volume in pod.spec.volumes:
            target = self._folder / volume.name
            if volume.empty_dir is not None:
                target.mkdir(parents=True, exist_ok=True)
            else:
                write_atomically(target, await self._files(volume, pod))

    @property
    def renewal(self) -> datetime | None:
        """When the next token has to be renewed; None without tokens."""
        return min((each.renew_at for each in self._tokens.values()), default=None)

    def mount(self, container: Container, environment: Mapping[str, str]) -> None:
        """Link the container's mounts under its root folder. Raises SourceMissing."""
        root = self._sandbox.root(container)
        for mount in sorted(container.volume_mounts, key=lambda each: each.mount_path):
            within = mount.sub_path or (expand(mount.sub_path_expr, environment) if mount.sub_path_expr else "")
            source = self._folder / mount.name / within
            link = self._sandbox.path(container, mount.mount_path)
            if link == root or not self._sandbox.holds(link.parent):
                raise SourceMissing(f"cannot mount at {mount.mount_path}: choose a folder below the container's root")
            if not source.resolve().is_relative_to(self._folder.resolve()):
                raise SourceMissing(f'subPath "{within}" of the mount {mount.mount_path} points outside its volume')
            if not source.exists():
                source.mkdir(parents=True)
            link.parent.mkdir(parents=True, exist_ok=True)
            if link.is_dir() and not link.is_symlink():
                with suppress(OSError):  # if it is not empty, the link below fails
                    link.rmdir()
            _replace_link(link, str(source))

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
                files[source.service_account_token.path] = File(token.encode(), 0o600)
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


def write_atomically(folder: Path, files: Mapping[str, File]) -> None:
    """Replace the content of `folder` by `files`, by their relative paths. Does nothing if there is no difference.

    Raises SourceMissing for a path that leads out of the folder.
    """
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
        target.chmod(file.mode)
    fresh.mkdir(exist_ok=True)
    old = data.readlink() if data.is_symlink() else None
    _replace_link(data, fresh.name)
    names = {PurePosixPath(path).parts[0] for path in files}
    for name in names:
        _replace_link(folder / name, f"{_DATA}/{name}")
    for link in folder.iterdir():
        if link.name not in names and not link.name.startswith(".."):
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
