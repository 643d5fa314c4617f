"""The Webfarm example on a control plane: its releases, and clients of both versions."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from integration.command import NO_SERVERS
from kubewright import Client, ObjectMeta
from kubewright.apis.apiextensions.v1 import CustomResourceConversion, CustomResourceDefinition
from kubewright.cache import Event, Informer
from kubewright.client import MergePatch, Unstructured
from kubewright.client._crds import until_established
from kubewright.controllers._loop import PAUSED
from kubewright.machinery.errors import (
    AlreadyExists,
    APIError,
    Conflict,
    ConnectionFailed,
    DeadlineExceeded,
    InternalError,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
)
from kubewright.machinery.json import JSONObject
from kubewright.models import codec, custom_resource_definition
from kubewright.testing import Cluster, eventually
from kubewright.webhooks import conversion_strategy, webhook_configurations
from kubewright_controlplane.apiserver.pki import CertificateAuthority
from kubewright_controlplane.ports import free_port
from robustness import webfarm_alpha
from robustness.processes import OperatorProcess
from webfarm_operator.api.v1.webserver import WebServer
from webfarm_operator.api.v1alpha1 import webserver as v1alpha1
from webfarm_operator.main import manager

CRD: Final = "webservers.farm.my.domain"
OLD: Final = Unstructured.of(v1alpha1.WebServer.__api__)
NEW: Final = Unstructured.of(WebServer.__api__)
RULES: Final = [*manager.rbac_rules(), *webfarm_alpha.manager.rbac_rules()]

FIRST: Final = {"size": 1, "image": "nginx:100", "memoryMb": 100, "port": 100, "public": True}
FIRST_AS_V1: Final = {
    "replicas": 1, "image": "nginx:100", "memory": "100M", "service": {"port": 100, "type": "NodePort"},
}  # fmt: skip
"""What objects have at first, in both versions."""

FIELDS: Final = {
    "v1alpha1": {"size", "image", "memoryMb", "port", "public"},
    "v1": {"replicas", "image", "memory", "service", "env"},
}
"""The fields of the spec in each version."""

PASSING: Final = (
    Conflict, ConnectionFailed, DeadlineExceeded, InternalError, ServerTimeout, ServiceUnavailable, TooManyRequests,
)  # fmt: skip
"""What a client gets while the webhooks are down, or while the API server takes over a changed CRD."""


class Releases:
    """The releases of the operator: which versions the CRD has, and the process that runs."""

    def __init__(self, cluster: Cluster, kubeconfig: Path, folder: Path) -> None:
        """`kubeconfig` has the operator's permissions. Files are written to `folder`."""
        self._client = cluster.client
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._authority = CertificateAuthority.create()
        self._address = f"127.0.0.1:{free_port()}"
        pair = self._authority.issue_server(["127.0.0.1"])
        (folder / "tls.crt").write_bytes(pair.certificate)
        (folder / "tls.key").write_bytes(pair.key)
        self._starts = 0
        self.process: OperatorProcess | None = None

    async def install_first(self) -> None:
        """Install the CRD of the first release: v1alpha1, which is stored."""
        document = _crd()
        document["spec"]["versions"] = [each for each in document["spec"]["versions"] if each["name"] == "v1alpha1"]
        document["spec"]["versions"][0] |= {"storage": True, "deprecated": False}
        document["spec"]["versions"][0].pop("deprecationWarning")
        await self._install(document, None)

    async def install_both(self) -> None:
        """Install the CRD of the second release, which stores v1, and its webhooks."""
        address, bundle = f"https://{self._address}", self._authority.certificate
        await self._install(_crd(), conversion_strategy(address=address, ca_bundle=bundle))
        for each in webhook_configurations(manager.webhooks, address=address, ca_bundle=bundle, prefix="webfarm-"):
            await self._client.apply(each)

    async def install_last(self) -> None:
        """Install the CRD of the last release, without v1alpha1."""
        document = _crd()
        document["spec"]["versions"] = [each for each in document["spec"]["versions"] if each["name"] == "v1"]
        await self._install(document, None)

    async def _install(self, document: JSONObject, conversion: CustomResourceConversion | None) -> None:
        crd = codec.from_dict(CustomResourceDefinition, document)
        crd.spec.conversion = conversion
        await self._client.apply(crd, field_validation="Strict")
        await until_established(self._client, CRD)

    async def remove(self) -> None:
        """Stop the operator, and delete the CRD with all objects, and the webhooks."""
        for each in webhook_configurations(manager.webhooks, address=f"https://{self._address}", prefix="webfarm-"):
            with suppress(NotFound):
                await self._client.delete(each)
        unconverted = MergePatch({"spec": {"conversion": {"strategy": "None", "webhook": None}}})
        with suppress(NotFound):
            await self._client.patch(CustomResourceDefinition, unconverted, name=CRD)
            await self._client.delete(CustomResourceDefinition, CRD)
        await self._client.wait_until_gone(CustomResourceDefinition, CRD)
        await self.kill()

    async def start_first(self) -> None:
        await self._start("robustness.webfarm_alpha")

    async def start_both(self) -> None:
        port = self._address.rpartition(":")[2]
        await self._start("webfarm_operator.main", f"--webhook-port={port}", f"--webhook-cert-path={self._folder}")

    async def ensure_both(self) -> None:
        """Start the second release unless it runs, and wait until it works."""
        if self.process is None or self.process.status is not None:
            await self.start_both()
        await eventually(self.works)

    async def _start(self, module: str, *arguments: str) -> None:
        self._starts += 1
        log = self._folder / f"{self._starts}.log"
        self.process = await OperatorProcess.start(module, self._kubeconfig, log, (*NO_SERVERS, *arguments))

    async def works(self) -> None:
        """Raises AssertionError while the operator does not."""
        assert self.process is not None
        await self.process.works()

    def logs(self) -> list[str]:
        """Return the logs of all processes so far."""
        return [(self._folder / f"{number}.log").read_text() for number in range(1, self._starts + 1)]

    def strike(self) -> None:
        """Kill the operator, without waiting for its end."""
        if self.process is not None and self.process.status is None:
            os.kill(self.process.pid, 9)

    async def kill(self) -> None:
        self.strike()
        if self.process is not None:
            await self.process.ended()


def _crd() -> JSONObject:
    return custom_resource_definition(WebServer, v1alpha1.WebServer)


@dataclass(frozen=True)
class Writer:
    """A client that writes one field of every object: growing numbers, so that a lost write is seen."""

    name: str
    kind: type[Unstructured]
    write: Callable[[Client, str, str, int], Awaitable[object]]
    """Writes a number into the object of a namespace and a name."""
    read_new: Callable[[Unstructured], int]
    """Returns the number, from the object in v1."""
    read_old: Callable[[Unstructured], int] | None
    """Returns the number, from the object in v1alpha1, if that version has the field."""
    owns: Callable[[Mapping[str, Any]], object]
    """Returns the entry of its field in its managed fields. Raises KeyError if it is missing."""


async def old_update(client: Client, namespace: str, name: str, number: int) -> None:
    obj = await client.get(OLD, name, namespace=namespace)
    obj["spec"]["memoryMb"] = number
    await client.update(obj, field_manager="old-update")


async def old_patch(client: Client, namespace: str, name: str, number: int) -> None:
    patch = MergePatch({"spec": {"port": number}})
    await client.patch(OLD, patch, name=name, namespace=namespace, field_manager="old-patch")


async def old_apply(client: Client, namespace: str, name: str, number: int) -> None:
    metadata = ObjectMeta(name=name, namespace=namespace, labels={"old-apply": str(number)})
    obj = OLD(metadata=metadata, content={"spec": {"size": number % 2}})
    await client.apply(obj, field_manager="old-apply")


async def new_update(client: Client, namespace: str, name: str, number: int) -> None:
    obj = await client.get(NEW, name, namespace=namespace)
    env = [each for each in obj["spec"].get("env", []) if each["name"] != "UPDATE"]
    obj["spec"]["env"] = [*env, {"name": "UPDATE", "value": str(number)}]
    await client.update(obj, field_manager="new-update")


async def new_patch(client: Client, namespace: str, name: str, number: int) -> None:
    patch = MergePatch({"spec": {"image": f"nginx:{number}"}})
    await client.patch(NEW, patch, name=name, namespace=namespace, field_manager="new-patch")


async def new_apply(client: Client, namespace: str, name: str, number: int) -> None:
    metadata = ObjectMeta(name=name, namespace=namespace)
    variable = {"name": "APPLY", "value": str(number)}
    obj = NEW(metadata=metadata, content={"spec": {"env": [variable]}})
    await client.apply(obj, field_manager="new-apply")


def variable(name: str) -> Callable[[Unstructured], int]:
    """Return a function that reads a number from an environment variable, or 0 if there is none."""

    def read(obj: Unstructured) -> int:
        return next((int(each["value"]) for each in obj["spec"].get("env", []) if each["name"] == name), 0)

    return read


OLD_WRITERS: Final = (
    Writer(
        "old-update",
        OLD,
        old_update,
        lambda new: int(new["spec"]["memory"].removesuffix("M")),
        lambda old: int(old["spec"]["memoryMb"]),
        lambda owned: owned["f:spec"]["f:memoryMb"],
    ),
    Writer(
        "old-patch",
        OLD,
        old_patch,
        lambda new: int(new["spec"]["service"]["port"]),
        lambda old: int(old["spec"]["port"]),
        lambda owned: owned["f:spec"]["f:port"],
    ),
    Writer(
        "old-apply",
        OLD,
        old_apply,
        lambda new: int(new.metadata.labels.get("old-apply", 0)),
        lambda old: int(old.metadata.labels.get("old-apply", 0)),
        lambda owned: (owned["f:spec"]["f:size"], owned["f:metadata"]["f:labels"]["f:old-apply"]),
    ),
)
NEW_WRITERS: Final = (
    Writer(
        "new-update",
        NEW,
        new_update,
        variable("UPDATE"),
        None,
        lambda owned: owned["f:spec"]["f:env"]['k:{"name":"UPDATE"}']["f:value"],
    ),
    Writer(
        "new-patch",
        NEW,
        new_patch,
        lambda new: int(new["spec"]["image"].removeprefix("nginx:")),
        lambda old: int(old["spec"]["image"].removeprefix("nginx:")),
        lambda owned: owned["f:spec"]["f:image"],
    ),
    Writer(
        "new-apply",
        NEW,
        new_apply,
        variable("APPLY"),
        None,
        lambda owned: owned["f:spec"]["f:env"]['k:{"name":"APPLY"}']["f:value"],
    ),
)
WRITERS: Final = (*OLD_WRITERS, *NEW_WRITERS)


@dataclass
class Promise:
    """What one writer knows of its field of one object."""

    first: int
    """The number that the object was created with."""
    acknowledged: int
    tried: int


@dataclass
class Clients:
    """Clients of both versions. Each request that is answered with an error is sent again."""

    client: Client
    namespace: str
    chance: random.Random
    names: list[str]
    """The objects that writers write."""
    idle: list[str]
    """Objects that nothing writes but the migration: the operator pauses for them."""
    promises: dict[tuple[str, str], Promise] = field(default_factory=dict)
    """By writer and object."""
    made: set[str] = field(default_factory=set)
    """Objects that were created meanwhile, and not deleted."""
    done: Counter[str] = field(default_factory=Counter[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    last_errors: dict[str, str] = field(default_factory=dict[str, str])
    wrong: list[str] = field(default_factory=list[str])
    """What watches have shown and should not."""
    stopping: bool = False
    """Whether the clients end after their current request."""

    async def create(self) -> None:
        """Create the objects, as clients of the first release do."""
        for name in (*self.names, *self.idle):
            annotations = {PAUSED: "true"} if name in self.idle else {}
            metadata = ObjectMeta(name=name, namespace=self.namespace, annotations=annotations)
            await self.client.create(OLD(metadata=metadata, content={"spec": dict(FIRST)}))
        for name in self.names:
            for each in WRITERS:
                first = 0 if each.name in ("old-apply", "new-apply", "new-update") else 100
                self.promises[each.name, name] = Promise(first, first, first)

    async def write(self, writer: Writer, pause: float) -> None:
        """Write until `stopping`, with `pause` seconds between two writes. Raises AssertionError for a lost write.

        The pause is longer if writes are slow: otherwise clients that read before they write would find no moment for
        an update without a conflict.
        """
        clock = asyncio.get_running_loop().time
        while not self.stopping:
            began = clock()
            name = self.chance.choice(self.names)
            promise = self.promises[writer.name, name]
            promise.tried += 1
            number = promise.tried
            await self._until_done(writer.name, writer.write, self.client, self.namespace, name, number)
            promise.acknowledged = number
            await asyncio.sleep(max(pause, 2 * (clock() - began)))

    async def read(self, kind: type[Unstructured], pause: float) -> None:
        """Get and list until `stopping`. Raises AssertionError for an object that lost a write or has a wrong shape."""
        while not self.stopping:
            known = {key: promise.acknowledged for key, promise in self.promises.items()}
            kept = {*self.names, *self.idle}
            found = await self._until_done(
                f"list {kind.__api__.version}", self.client.list, kind, namespace=self.namespace
            )
            assert kept <= {each.metadata.name for each in found}
            for each in found:
                check_shape(kind, each)
                if each.metadata.name in self.names:
                    self._check(each, known)
            name = self.chance.choice(self.names)
            known = {key: promise.acknowledged for key, promise in self.promises.items()}
            self._check(
                await self._until_done(
                    f"get {kind.__api__.version}", self.client.get, kind, name, namespace=self.namespace
                ),
                known,
            )
            await asyncio.sleep(pause)

    def _check(self, obj: Unstructured, known: Mapping[tuple[str, str], int]) -> None:
        """Raise AssertionError if an object does not have what was acknowledged before it was read."""
        for each in WRITERS:
            read = each.read_new if isinstance(obj, NEW) else each.read_old
            if read is None:
                continue
            number, least = read(obj), known[each.name, obj.metadata.name]
            promise = self.promises[each.name, obj.metadata.name]
            assert least <= number <= promise.tried, (
                f"{type(obj).__api__.version} {obj.metadata.name}: {each.name} wrote {promise}, {least} before "
                f"the read, which shows {number}"
            )

    async def make(self, pause: float) -> None:
        """Create and delete objects until `stopping`, in both versions."""
        number = 0
        while not self.stopping:
            number += 1
            kind = self.chance.choice([OLD, NEW])
            name = f"made-{number}"
            obj = kind(
                metadata=ObjectMeta(name=name, namespace=self.namespace),
                content={"spec": {"image": "nginx:1", ("size" if kind is OLD else "replicas"): 0}},
            )
            with suppress(AlreadyExists):  # the answer to an earlier attempt was an error
                await self._until_done("create", self.client.create, obj)
            self.made.add(name)
            await asyncio.sleep(pause)
            if len(self.made) > 5:
                name = self.chance.choice(sorted(self.made))
                self.made.discard(name)
                with suppress(NotFound):
                    kind = self.chance.choice([OLD, NEW])
                    await self._until_done("delete", self.client.delete, kind, name, namespace=self.namespace)

    async def _until_done(self, what: str, call: Callable[..., Awaitable[Any]], /, *args: Any, **kwargs: Any) -> Any:
        while True:
            try:
                result = await call(*args, **kwargs)
            except PASSING as error:
                code = error.code if isinstance(error, APIError) else "connection"
                self.errors[f"{what} {code}"] += 1
                self.last_errors[what] = str(error)
                await asyncio.sleep(0.02)
                continue
            self.done[what] += 1
            return result

    def follow(self, kind: type[Unstructured]) -> Informer[Unstructured]:
        """Return an informer, which notes objects of another shape in `wrong`."""

        def see(event: Event[Unstructured]) -> None:
            if event.new is not None:
                obj = event.new.decode()
                extra = set(obj["spec"]) - FIELDS[kind.__api__.version]
                if extra:
                    self.wrong.append(f"a watch of {kind.__api__.version} shows {obj.metadata.name} with {extra}")

        informer = Informer(self.client, kind, namespaces=self.namespace)
        informer.add_handler(on_add=see, on_update=see)
        return informer

    async def check_all(self, kind: type[Unstructured]) -> None:
        """Raise AssertionError unless every object is there, with all that was acknowledged."""
        found = {each.metadata.name: each for each in await self.client.list(kind, namespace=self.namespace)}
        assert set(found) == {*self.names, *self.idle, *self.made}
        known = {key: promise.acknowledged for key, promise in self.promises.items()}
        for name, each in found.items():
            check_shape(kind, each)
            if name in self.names:
                self._check(each, known)
            if name in self.idle:
                assert each["spec"] == (FIRST if kind is OLD else FIRST_AS_V1)

    def check_owners(self, obj: Unstructured) -> None:
        """Raise AssertionError unless each writer owns the field that it wrote."""
        entries = {each.manager: each for each in obj.metadata.managed_fields if not each.subresource}
        for writer in WRITERS:
            promise = self.promises[writer.name, obj.metadata.name]
            if promise.acknowledged == promise.first:
                continue
            entry = entries.get(writer.name)
            assert entry is not None, f"{obj.metadata.name}: {writer.name} owns nothing; owners are {sorted(entries)}"
            assert entry.api_version == writer.kind.__api__.api_version
            assert entry.operation == ("Apply" if "apply" in writer.name else "Update")
            owned = msgspec.json.decode(entry.fields_v1)
            try:
                writer.owns(owned)
            except KeyError as error:
                raise AssertionError(f"{obj.metadata.name}: {writer.name} does not own {error}: {owned}") from error


def check_shape(kind: type[Unstructured], obj: Unstructured) -> None:
    """Raise AssertionError if an object has fields of another version."""
    version = kind.__api__.version
    extra = set(obj["spec"]) - FIELDS[version]
    assert not extra, f"{version} {obj.metadata.name} has {sorted(extra)}"
