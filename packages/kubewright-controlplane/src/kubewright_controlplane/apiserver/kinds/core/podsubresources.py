"""Subresources of a Pod: binding, ephemeralcontainers, log, and those that connect to a running process.

Follows k8s.io/kubernetes pkg/registry/core/pod/storage and pkg/registry/core/pod/rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qs, quote, urlencode

from msgspec.structs import replace as replace_struct

from kubewright.http.message import Handler, Request, Response
from kubewright.machinery import time
from kubewright.machinery.errors import APIError, BadRequest, Conflict, InternalError, Invalid, Status, StatusDetails
from kubewright.machinery.fields import FieldError, forbidden, not_supported, required
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.integers import parse_flag
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.core import podspec
from kubewright_controlplane.apiserver.kinds.core.logoptions import check_log_options
from kubewright_controlplane.apiserver.kinds.core.logsockets import log_over_websocket
from kubewright_controlplane.apiserver.kinds.generic import existing, success
from kubewright_controlplane.apiserver.registry import checks
from kubewright_controlplane.apiserver.registry.model import Action, Attributes, Connection, Strategy, View
from kubewright_controlplane.apiserver.registry.objects import set_condition
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet

LOG_ANNOTATION: Final = "simulation.kubewright.dev/log"
"""The log of a simulated Pod; `simulation.kubewright.dev/log.<container>` for one of several containers."""

_CHANNELS: Final = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_KIND: Final = GroupVersionKind("", "v1", "Binding")
MIRROR: Final = "kubernetes.io/config.mirror"
"""The annotation of a mirror Pod, which stands for a static Pod that a node has from a file."""
VERSIONING: Final = ("resourceVersion", "uid", "managedFields")
"""The metadata that a write of a part of a Pod may have."""


@dataclass(frozen=True, kw_only=True)
class Binding(Action):
    """Binds a Pod to a node."""

    kind: GroupVersionKind | None = _KIND
    resources: ResourceSet

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        if (body.get("metadata") or {}).get("name") != attributes.name:
            raise BadRequest("name in URL does not match name in Binding object")
        target = body.get("target") or {}
        errors: list[FieldError] = []
        if target.get("kind") not in (None, "", "Node"):
            errors.append(not_supported("target.kind", target["kind"], ("Node", "<empty>")))
        if not target.get("name"):
            errors.append(required("target.name"))
        if errors:
            raise Invalid.of("Binding", "", attributes.name, errors)
        self._bind(body, target["name"], attributes)
        return success()

    def _bind(self, body: JSONObject, node: str, attributes: Attributes) -> None:
        registry = self.resources.registry("pods")
        pod = existing(self.resources, "pods", attributes.name, attributes.namespace)
        metadata, spec = pod["metadata"], pod["spec"]
        wanted_uid = body["metadata"].get("uid")
        if wanted_uid and wanted_uid != metadata["uid"]:
            why = f"Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {metadata['uid']}"
            raise _binding_conflict(attributes, why)
        if metadata.get("deletionTimestamp"):
            raise _binding_conflict(attributes, f"pod {attributes.name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise _binding_conflict(
                attributes, f'pod {attributes.name} is already assigned to node "{spec["nodeName"]}"'
            )
        if spec.get("schedulingGates"):
            raise _binding_conflict(attributes, f"pod {attributes.name} has non-empty .spec.schedulingGates")
        spec["nodeName"] = node
        for field in ("annotations", "labels"):
            if body["metadata"].get(field):
                metadata[field] = {**(metadata.get(field) or {}), **body["metadata"][field]}
        set_condition(pod, {"type": "PodScheduled", "status": "True"}, time.format(registry.clock.now()))
        pod["status"].pop("nominatedNodeName", None)
        if not attributes.dry_run:
            registry.commit(pod)


_PORT = re.compile("[0-9]{1,5}")


class BindingStrategy(Strategy):
    """`bindings`, the older resource with the same effect. The Binding names the Pod."""

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    @property
    def action(self) -> Action | None:
        return _NamedBinding(resources=self._resources)


@dataclass(frozen=True, kw_only=True)
class _NamedBinding(Binding):
    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        return super().create(body, replace(attributes, name=(body.get("metadata") or {}).get("name") or ""))


@dataclass(frozen=True)
class EphemeralContainers(View):
    """Adds containers to a running Pod. They never change and cannot be removed."""

    def write(self, view: JSONObject, old: JSONObject, attributes: Attributes) -> JSONObject:
        given = (view.get("spec") or {}).get("ephemeralContainers")
        spec = {key: value for key, value in old["spec"].items() if key != "ephemeralContainers"}
        if given:
            spec["ephemeralContainers"] = given
        kept = {**old["metadata"], **{key: view["metadata"][key] for key in VERSIONING if key in view["metadata"]}}
        return {**old, "metadata": kept, "spec": spec}

    def validate(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        if MIRROR in (old["metadata"].get("annotations") or {}):
            return [forbidden("[]", "static pods do not support ephemeral containers")]
        path = "spec.ephemeralContainers"
        errors = podspec.validate("spec", obj["spec"], pod_name=obj["metadata"]["name"])
        now = {each.get("name"): each for each in obj["spec"].get("ephemeralContainers") or ()}
        for container in old["spec"].get("ephemeralContainers") or ():
            name = container.get("name")
            if name not in now:
                errors.append(forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
            elif not checks.same(now[name], container):
                errors.append(forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n'))
        return errors


@dataclass(frozen=True, kw_only=True)
class Log(Connection):
    """The log of a container: from the kubelet for a running container, from an annotation for a simulated one.
    Without either, a line says that there is no log.
    """

    is_admitted: bool = False
    resources: ResourceSet
    kubelet: Handler | None

    async def connect(self, request: Request, attributes: Attributes) -> Response:
        pod = existing(self.resources, "pods", attributes.name, attributes.namespace)
        query = parse_qs(request.query, keep_blank_values=True)
        check_log_options(query)
        container = _container(pod, query.get("container", [""])[0])
        answer = await self._kubelet_log(request, attributes, container)
        if answer is None:
            answer = self._simulated_log(pod, container)
        is_stream = request.upgrade == "websocket" and answer.status == 200
        return await log_over_websocket(request, answer) if is_stream else answer

    async def _kubelet_log(self, request: Request, attributes: Attributes, container: str) -> Response | None:
        """Return the kubelet's answer; None if the container is not running."""
        if self.kubelet is None:
            return None
        path = "/".join(quote(part, safe="") for part in (attributes.namespace, attributes.name, container))
        answer = await self.kubelet(Request("GET", f"/containerLogs/{path}?{request.query}"))
        if answer.status == 404:
            return None
        if answer.status == 400:
            raise BadRequest((await answer.read()).decode())
        return answer

    def _simulated_log(self, pod: JSONObject, container: str) -> Response:
        name = pod["metadata"]["name"]
        annotations = pod["metadata"].get("annotations") or {}
        text = annotations.get(f"{LOG_ANNOTATION}.{container}", annotations.get(LOG_ANNOTATION))
        if text is None and not pod["spec"].get("nodeName"):
            return Response(204)
        if text is None:
            if (pod.get("status") or {}).get("phase") == "Pending":
                where = f'container "{container}" in pod "{name}"'
                raise BadRequest(f"{where} is waiting to start: ContainerCreating")
            text = f"container {container} of pod {name} is simulated and has logged nothing\n"
        return Response(200, {"content-type": "text/plain"}, text.encode())


@dataclass(frozen=True, kw_only=True)
class ExecConnection(Connection):
    """Connects a client to a running container: `exec`, or `attach` to its process. The kubelet handles the stream."""

    verbs: tuple[str, ...] = ("create", "get")
    what: str
    resources: ResourceSet
    kubelet: Handler | None

    def options(self, query: Mapping[str, Sequence[str]]) -> JSONObject:
        options: JSONObject = {
            name: True for name in ("stdin", "stdout", "stderr", "tty") if parse_flag(query.get(name, ["false"])[0])
        }
        if query.get("container"):
            options["container"] = query["container"][0]
        if query.get("command"):
            options["command"] = list(query["command"])
        return options

    async def connect(self, request: Request, attributes: Attributes) -> Response:
        pod = existing(self.resources, "pods", attributes.name, attributes.namespace)
        query = parse_qs(request.query, keep_blank_values=True)
        container = _container(pod, query.get("container", [""])[0])
        path = "/".join(quote(part, safe="") for part in (attributes.namespace, attributes.name, container))
        return await self._forward(
            replace_struct(request, target=f"/{self.what}/{path}?{_kubelet_query(query)}"), attributes
        )

    async def _forward(self, request: Request, attributes: Attributes) -> Response:
        answer = await self.kubelet(request) if self.kubelet is not None else Response(404)
        if answer.status == 404:
            raise unsupported(self.what, attributes, f': pod "{attributes.name}" is simulated, no process runs in it')
        if answer.status == 400:
            raise BadRequest((await answer.read()).decode().strip())
        if answer.status != 101:
            raise InternalError((await answer.read()).decode().strip())
        return answer


@dataclass(frozen=True, kw_only=True)
class PortForward(ExecConnection):
    """Connects a client to the ports of a running Pod."""

    what: str = "port-forward"

    def options(self, query: Mapping[str, Sequence[str]]) -> JSONObject:
        numbers = [int(each) for text in query.get("ports", ()) for each in text.split(",") if _PORT.fullmatch(each)]
        return {"ports": numbers} if numbers else {}

    async def connect(self, request: Request, attributes: Attributes) -> Response:
        existing(self.resources, "pods", attributes.name, attributes.namespace)
        path = "/".join(quote(part, safe="") for part in (attributes.namespace, attributes.name))
        ports = urlencode(
            [
                ("port", str(each))
                for each in self.options(parse_qs(request.query, keep_blank_values=True)).get("ports", ())
            ]
        )
        return await self._forward(replace_struct(request, target=f"/portForward/{path}?{ports}"), attributes)


def _kubelet_query(query: Mapping[str, Sequence[str]]) -> str:
    """Return the options of `exec` and `attach` with the names that kubelets use."""
    wanted = [(word, "1") for name, word in _CHANNELS.items() if parse_flag(query.get(name, ["false"])[0])]
    return urlencode([*wanted, *(("command", each) for each in query.get("command", ()))])


def unsupported(what: str, attributes: Attributes, why: str = "") -> APIError:
    """Return the error of a connection that this server does not support."""
    plural = attributes.resource.plural
    message = f"{what} into {plural} is not supported by the embedded API server{why}"
    return APIError(status=Status(501, "NotImplemented", message, StatusDetails(name=attributes.name, kind=plural)))


def _binding_conflict(attributes: Attributes, why: str) -> Conflict:
    text = f'Operation cannot be fulfilled on pods/binding "{attributes.name}": {why}'
    return Conflict(text, details=StatusDetails(name=attributes.name, kind="pods/binding"))


def _container(pod: JSONObject, asked: str) -> str:
    """Return the name of the requested container, which may be omitted if there is only one."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    known = [
        each["name"]
        for kind in ("initContainers", "containers", "ephemeralContainers")
        for each in spec.get(kind) or ()
    ]
    if asked:
        if asked not in known:
            raise BadRequest(f"container {asked} is not valid for pod {name}")
        return asked
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in known:
        return str(default)
    if len(spec.get("containers") or ()) == 1 and len(known) == 1:
        return str(known[0])
    listed = " ".join(known)
    raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{listed}]")
