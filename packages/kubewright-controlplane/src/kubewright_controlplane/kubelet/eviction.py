"""The eviction of Pods that use more disk than their limits: `sizeLimit` of emptyDir, and `ephemeral-storage`.

The disk usage of a Pod with such limits is measured every ten seconds, so a Pod exceeds its limit for some time first.

Follows k8s.io/kubernetes pkg/kubelet/eviction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from kubewright.apis.core.v1 import Container, Pod
from kubewright.machinery.quantity import Quantity

EVICTED: Final = "Evicted"
"""The reason in the status and in the event."""
INTERVAL: Final = 10.0
"""Seconds between two measurements."""
GRACE: Final = 1.0
"""Seconds that the containers of an evicted Pod have to end."""
_STORAGE: Final = "ephemeral-storage"
_CRITICAL: Final = 2_000_000_000
"""Pods with this priority, or a higher one, are never evicted."""
_BLOCK: Final = 512


def has_limits(pod: Pod) -> bool:
    """Return whether the Pod can be evicted because of its disk usage."""
    limited = any(_limit(each) for each in pod.spec.containers) or any(_size_limits(pod))
    return limited and (pod.spec.priority or 0) < _CRITICAL


def excess(
    pod: Pod, volume: Callable[[str], Path | None], root: Callable[[Container], Path], logs: Callable[[str], Path]
) -> str | None:
    """Measure the Pod, and return which limit it exceeds; None if it exceeds none.

    `volume` returns the folder of a volume, `root` the files of a container, and `logs` the logs of a container.
    """
    return next(_excesses(pod, volume, root, logs), None)


def _excesses(
    pod: Pod, volume: Callable[[str], Path | None], root: Callable[[Container], Path], logs: Callable[[str], Path]
) -> Iterator[str]:
    volumes = {each.name: volume(each.name) for each in pod.spec.volumes if each.empty_dir is not None}
    used = {name: usage(folder) for name, folder in volumes.items() if folder is not None}
    for name, limit in _size_limits(pod):
        if used.get(name, 0) > Quantity.parse(limit).value:
            yield f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    containers = {each.name: usage(root(each)) + usage(logs(each.name)) for each in pod.spec.containers}
    limits = {each.name: limit for each in pod.spec.containers if (limit := _limit(each))}
    total = sum(Quantity.parse(each).value for each in limits.values())
    if limits and sum(containers.values()) + sum(used.values()) > total:
        shown = next(iter(limits.values())) if len(limits) == 1 else str(total)
        yield f"Pod ephemeral local storage usage exceeds the total limit of containers {shown}. "
    for name, limit in limits.items():
        if containers[name] > Quantity.parse(limit).value:
            yield f'Container {name} exceeded its local ephemeral storage limit "{limit}". '


def usage(folder: Path) -> int:
    """Return the bytes on disk of all files below a folder. No symbolic link is followed."""
    found = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # it was removed meanwhile
                found += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                if entry.is_dir(follow_symlinks=False):
                    found += usage(Path(entry.path))
    return found


def _size_limits(pod: Pod) -> Iterator[tuple[str, str]]:
    for volume in pod.spec.volumes:
        limit = volume.empty_dir.size_limit if volume.empty_dir is not None else None
        if limit and Quantity.parse(limit).value > 0:
            yield volume.name, limit


def _limit(container: Container) -> str:
    return container.resources.limits.get(_STORAGE, "") if container.resources is not None else ""
