"""Where experiments take place: a namespace, the running operator, its samples, and what has happened so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from kubewright.apis.core.v1 import Container, Pod, PodSpec
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.client import Client, Config, MergePatch, RESTMapper, Unstructured
from kubewright.machinery.errors import KubewrightError, NotFound
from kubewright.machinery.json import JSONObject, copied, is_object
from kubewright.models import codec
from kubewright.testing._cluster import Cluster
from kubewright.testing._waiting import eventually
from kubewright.testing.levels._declaration import Declaration
from kubewright.testing.levels._documents import WORKLOADS, Readiness, reason_unhealthy
from kubewright.testing.levels._operator import Operator, Program, Running, start
from kubewright.testing.levels._recorder import Recorder, Version
from kubewright.testing.levels._report import Evidence

GATE: Final = "testing.kubewright.dev/hold"
FIELD_MANAGER: Final = "kubewright-test"
"""The field manager of everything that the suite and its experiments write."""
_PAUSE: Final = 0.05
_NOISE: Final = ("Event", "Lease", "EndpointSlice")
_OF_NAMESPACE: Final = ("ConfigMap/kube-root-ca.crt", "ServiceAccount/default")


class NotShown(Exception):
    """Nothing was declared, or nothing can be tried, that would show the claim."""


class NotApplicable(Exception):
    """The operator has nothing that the claim is about."""


class Lab:
    """A namespace in which the operator runs, and what experiments do and observe there.

    `did` and `saw` add evidence to the claim that is shown now.
    """

    def __init__(
        self, operator: Operator, declaration: Declaration, cluster: Cluster, account: Config, namespace: str
    ) -> None:
        self.operator = operator
        self.declaration = declaration
        self.client: Client = cluster.client
        """A client with all permissions."""
        self.namespace = namespace
        self.recorder = Recorder(cluster.client, namespace, {each["spec"]["group"] for each in operator.crds})
        self.readiness = Readiness(operator.crds, declaration.ready)
        self.facts: dict[str, int] = {}
        """Revisions that later claims refer to: the start and end of earlier experiments."""
        self._mapper = RESTMapper(cluster.client)
        self._cluster = cluster
        self._account = account
        self._running: Running | None = None
        self._prepared: set[str] = set()
        self._evidence: list[Evidence] = []
        self._began = asyncio.get_running_loop().time()
        self.samples: list[Unstructured] = []
        """The samples, as they were created."""

    # ---- evidence

    def did(self, text: str, object: str = "") -> None:
        """Add to the evidence what the experiment does. `object` is written as `Deployment/web`."""
        self.recorder.touch()
        self._evidence.append(Evidence(self.elapsed(), "did", text, object))

    def saw(self, text: str, object: str = "") -> None:
        """Add to the evidence what the experiment observes."""
        self._evidence.append(Evidence(self.elapsed(), "saw", text, object))

    def causes(self) -> int:
        """Return how often `did` was called for the current claim."""
        return sum(each.action == "did" for each in self._evidence)

    def elapsed(self) -> float:
        """Return the seconds since the start of the measurement."""
        return round(asyncio.get_running_loop().time() - self._began, 3)

    def take_evidence(self) -> tuple[Evidence, ...]:
        """Return the evidence since the last call, and begin that of the next claim."""
        found, self._evidence = tuple(self._evidence), []
        return found

    # ---- the operator

    async def start(self, program: Program | None = None) -> None:
        """Start the operator, or another program in its place."""
        self._running = await start(program or self.operator.program, self._account, self._cluster, self.namespace)
        self.did("started the operator")

    async def stop(self) -> None:
        """Stop the operator gracefully."""
        running, self._running = self._running, None
        if running is not None:
            await running.stop()
            self.did("stopped the operator")

    async def kill(self) -> None:
        """Kill the operator."""
        running, self._running = self._running, None
        if running is not None:
            await running.kill()
            self.did("killed the operator")

    async def metrics(self) -> str | None:
        """Return the operator's metrics as text; None if it serves none. Raises OSError if they cannot be read."""
        return await self._running.metrics() if self._running is not None else None

    def check_operator(self) -> None:
        """Raise AssertionError if the operator has ended on its own."""
        failure = self._running.failure() if self._running is not None else ""
        assert not failure, failure

    # ---- objects

    async def create(self, document: JSONObject) -> Unstructured:
        """Create an object from a document: in the namespace, unless its kind is cluster-scoped."""
        document = copied(document)
        kind = await self._mapper.kind(document["apiVersion"], document["kind"])
        place = {"namespace": self.namespace} if kind.__api__.namespaced else {}
        obj = codec.from_dict(kind, {**document, "metadata": {**document["metadata"], **place}})
        obj.content = {key: value for key, value in document.items() if key not in ("apiVersion", "kind", "metadata")}
        created = await self.client.create(obj)
        self.did("created it", name_of(created))
        return created

    async def get(self, api_version: str, kind: str, name: str) -> Unstructured:
        """Return an object of the namespace, or a cluster-scoped one. Raises NotFound."""
        found = await self._mapper.kind(api_version, kind)
        return await self.client.get(found, name, namespace=self.namespace if found.__api__.namespaced else None)

    async def delete(self, obj: Unstructured | Version) -> None:
        """Delete an object."""
        name = obj.name if isinstance(obj, Version) else name_of(obj)
        target = obj if isinstance(obj, Unstructured) else await self._live(obj)
        self.did("deleted it", name)
        await self.client.delete(target)

    async def patch(self, obj: Unstructured, patch: JSONObject, *, subresource: str | None = None) -> Unstructured:
        """Send a merge patch of an object, and return the object."""
        return await self.client.patch(obj, MergePatch(patch), subresource=subresource)

    async def _live(self, version: Version) -> Unstructured:
        document = version.document
        return await self.get(document["apiVersion"], document["kind"], document["metadata"]["name"])

    def sample(self, kind: str) -> Unstructured:
        """Return the first sample of a kind. Raises AssertionError if there is none."""
        found = next((each for each in self.samples if each.__api__.kind == kind), None)
        assert found is not None, f"the declaration names the kind {kind}, but no sample has it"
        return found

    def version_of(self, obj: Unstructured) -> Version | None:
        """Return the newest version of an object that has been seen; None if it does not exist."""
        history = self.recorder.history(obj.metadata.uid or "")
        return history[-1] if history and not history[-1].deleted else None

    # ---- what the operator manages

    def operands(self) -> list[Version]:
        """Return the objects that exist because of the samples."""
        return [each for each in self.recorder.now() if self.is_operand(each)]

    def is_operand(self, version: Version) -> bool:
        """Return whether an object exists, or has existed, because of the samples."""
        return version.uid not in self._prepared and self.is_other(version)

    def is_other(self, version: Version) -> bool:
        """Return whether an object is neither of the operator's own kinds nor one that every namespace has."""
        kinds = {each["spec"]["names"]["kind"] for each in self.operator.crds}
        return version.kind not in (*_NOISE, *kinds) and version.name not in _OF_NAMESPACE

    def created_by_experiments(self) -> list[Version]:
        """Return the objects of the operator's own kinds in the namespace, other than the samples."""
        kinds = {each["spec"]["names"]["kind"] for each in self.operator.crds}
        samples = {each.metadata.uid for each in self.samples}
        found = [each for each in self.recorder.now() if each.kind in kinds and each.uid not in samples]
        return [each for each in found if each.document["metadata"].get("namespace") == self.namespace]

    def managed(self) -> list[Version]:
        """Return the operands that no other operand owns: those that the operator itself writes."""
        found = self.operands()
        uids = {each.uid for each in found}
        return [each for each in found if not uids & {owner["uid"] for owner in owners_of(each)}]

    def pods(self) -> list[Version]:
        """Return the Pods among the operands."""
        return [each for each in self.operands() if each.kind == "Pod"]

    def workloads(self) -> list[Version]:
        """Return the managed objects that have Pods of their own."""
        return [each for each in self.managed() if each.kind in WORKLOADS]

    # ---- waiting

    async def until(self, check: Callable[[], Awaitable[object] | object], *, within: float | None = None) -> None:
        """Wait until `check` raises no AssertionError. Fails with its last error, or if the operator has ended."""

        async def checked() -> None:
            self.check_operator()
            found = check()
            if isinstance(found, Awaitable):
                await found

        await eventually(checked, within=self.declaration.timeout if within is None else within)

    async def settle(self, *, within: float | None = None) -> None:
        """Wait until nothing has been written for a while. Raises AssertionError if that does not happen."""
        began, limit = asyncio.get_running_loop().time(), self.declaration.timeout if within is None else within
        while self.recorder.quiet_for() < self.declaration.quiet:
            self.check_operator()
            if asyncio.get_running_loop().time() - began > limit:
                newest = max(self.recorder.now(), key=lambda each: each.revision)
                raise AssertionError(f"{newest.name} is still being written after {limit:g} s")
            await asyncio.sleep(_PAUSE)

    async def until_ready(self, *samples: Unstructured) -> None:
        """Wait until samples (by default all) and what is managed for them are ready."""

        def check() -> None:
            for each in samples or tuple(self.samples):
                reason = self.reason_not_ready(each)
                assert not reason, f"{name_of(each)}: {reason}"
            for operand in self.operands():
                reason = reason_unhealthy(operand.document)
                assert not reason, f"{operand.name}: {reason}"

        await self.until(check)

    def reason_not_ready(self, sample: Unstructured) -> str:
        """Return why a sample is not ready, in its own words; empty if it is."""
        version = self.version_of(sample)
        return "it does not exist" if version is None else self.readiness.reason_not_ready(version.document)

    # ---- the environment

    async def prepare(self) -> None:
        """Create what the samples need. These objects are not operands."""
        for each in self.operator.prerequisites:
            await self.create(each)
        if self.declaration.prepare is not None:
            await self.declaration.prepare(self)
        if self.operator.prerequisites or self.declaration.prepare is not None:
            await self.settle()
        self._prepared = {each.uid for each in self.recorder.now()}

    @asynccontextmanager
    async def pods_on_hold(self) -> AsyncGenerator[None]:
        """Keep new Pods of the namespace from being scheduled while the block runs.

        An admission policy adds a scheduling gate to them. Raises NotShown if the API server has no such policies.
        """
        documents = [await self._of(each) for each in _gate_policy(self.namespace)]
        try:
            for each in documents:
                await self.client.apply(each)
            await eventually(self._check_gated)
            self.did("keep new Pods from being scheduled")
            yield
        finally:
            for each in reversed(documents):
                with suppress(NotFound):
                    await self.client.delete(each)
        await self._release_pods()
        self.did("let the Pods be scheduled")

    async def _of(self, document: JSONObject) -> Unstructured:
        try:
            kind = await self._mapper.kind(document["apiVersion"], document["kind"])
        except KubewrightError as error:
            raise NotShown(f"Pods cannot be held back on this cluster: {error}") from error
        obj = codec.from_dict(kind, document)
        obj.content = {"spec": document["spec"]}
        return obj

    async def _check_gated(self) -> None:
        assert await self._is_gated(), "the policy that holds Pods back is not in force"

    async def _is_gated(self) -> bool:
        pod = Pod(
            metadata=ObjectMeta(name="kubewright-probe", namespace=self.namespace),
            spec=PodSpec(containers=[Container(name="probe", image="probe")]),
        )
        answer = await self.client.create(pod, dry_run=True)
        return any(each.name == GATE for each in answer.spec.scheduling_gates)

    async def _release_pods(self) -> None:
        async def check() -> None:
            assert not await self._is_gated(), "the policy that holds Pods back is still in force"

        await eventually(check)
        for each in await self.client.list(Pod, namespace=self.namespace):
            if any(gate.name == GATE for gate in each.spec.scheduling_gates):
                with suppress(NotFound):
                    await self.client.patch(each, MergePatch({"spec": {"schedulingGates": None}}))

    @asynccontextmanager
    async def under_load(self) -> AsyncGenerator[list[str]]:
        """Use the operand while the block runs, as the declaration says. Yields the failures."""
        failures: list[str] = []
        load = self.declaration.load
        if load is None:
            yield failures
            return

        async def use() -> None:
            while True:
                try:
                    await load(self)
                except (AssertionError, OSError, KubewrightError) as error:
                    failures.append(str(error) or type(error).__name__)
                await asyncio.sleep(_PAUSE)

        task = asyncio.create_task(use())
        try:
            yield failures
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def owners_of(version: Version) -> list[JSONObject]:
    """Return the owner references of an object."""
    return [each for each in version.document["metadata"].get("ownerReferences") or [] if is_object(each)]


def counted(number: int, noun: str) -> str:
    """Return a number with a noun: `1 sample`, `2 samples`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def name_of(obj: Unstructured) -> str:
    """Return the kind and name, as `Deployment/web`."""
    return f"{obj.__api__.kind}/{obj.metadata.name}"


def _gate_policy(namespace: str) -> list[JSONObject]:
    name = f"kubewright-hold-{namespace}"
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    expression = f'Object{{spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: "{GATE}"}}]}}}}'
    policy = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
        },
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
    }
    return [
        {**api, "kind": "MutatingAdmissionPolicy", "spec": policy},
        {**api, "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": name}},
    ]
