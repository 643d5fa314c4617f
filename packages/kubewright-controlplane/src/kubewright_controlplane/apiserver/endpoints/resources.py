"""Requests for resources: each verb, from its query and body to the registry and back to a response.

Follows apiserver's pkg/endpoints/handlers.
"""

from __future__ import annotations

from kubewright._runtime.clock import Clock
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import BadRequest, MethodNotAllowed, NotAcceptable, StatusDetails
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.endpoints import answers, body, parameters, patching
from kubewright_controlplane.apiserver.endpoints.negotiation import JSON, PROTOBUF, check_encoding, negotiate
from kubewright_controlplane.apiserver.endpoints.representation import Form, MetadataForm, Representation, WholeForm
from kubewright_controlplane.apiserver.endpoints.requestinfo import RequestInfo
from kubewright_controlplane.apiserver.endpoints.table import TableForm
from kubewright_controlplane.apiserver.registry.conform import Nonconforming
from kubewright_controlplane.apiserver.registry.failures import not_found, not_served
from kubewright_controlplane.apiserver.registry.listing import list_entries, parse_revision, reject_future
from kubewright_controlplane.apiserver.registry.model import Action, Attributes, Connection, Operation, View
from kubewright_controlplane.apiserver.registry.objects import encode_json, from_stored, served
from kubewright_controlplane.apiserver.registry.options import WriteCall, WriteOptions
from kubewright_controlplane.apiserver.registry.registry import Registry, WriteResult
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.registry.watching import Watch
from kubewright_controlplane.apiserver.storage.events import Entry
from kubewright_controlplane.apiserver.user import UserInfo

_DELETE_OPTIONS = GroupVersionKind("", "v1", "DeleteOptions")


class ResourceEndpoints:
    """Serves the paths below `/api/<version>` and `/apis/<group>/<version>`."""

    def __init__(self, resources: ResourceSet, clock: Clock) -> None:
        self._resources = resources
        self._clock = clock

    async def serve(self, request: Request, info: RequestInfo, user: UserInfo) -> Response:
        """Answer a request for a resource. Raises APIErrors."""
        registry = self._resources.find(info.group, info.version, info.resource)
        if registry is None:
            if self._resources.has_group(info.group):
                raise not_served()
            return answers.page_not_found()
        if info.namespace and not registry.resource.namespaced and info.resource != "namespaces":
            raise not_served()
        call = _ResourceRequest(registry, request, info, user, self._clock)
        response = await call.subresource() if info.subresource else call.resource()
        if registry.resource.deprecation_warning:
            call.warnings.append(registry.resource.deprecation_warning)
        answers.add_warnings(response, call.warnings)
        return response


class _ResourceRequest:
    """One request for one resource."""

    def __init__(self, registry: Registry, request: Request, info: RequestInfo, user: UserInfo, clock: Clock) -> None:
        self.warnings: list[str] = []
        self._registry = registry
        self._resource = registry.resource
        self._request = request
        self._info = info
        self._namespace = info.namespace if registry.resource.namespaced else ""
        self._user = user
        self._clock = clock
        self._query = info.query
        self._accept = request.headers.get("accept", "")

    def resource(self) -> Response:
        """Answer a request for the resource itself."""
        check_encoding(self._accept)
        parameters.check_timeout(self._query)
        info, resource = self._info, self._resource
        everywhere = resource.namespaced and not self._namespace
        if everywhere and info.name:
            raise not_served()
        if self._request.method == "HEAD":
            raise _not_allowed()
        misplaced = (bool(info.name) != (info.verb in _NAMED_VERBS)) and info.verb != "watch"
        if info.verb not in resource.verbs or misplaced or (everywhere and info.verb not in _ALL_NAMESPACES_VERBS):
            raise _not_allowed()
        match info.verb:
            case "get":
                return self._get()
            case "list":
                return self._list()
            case "watch":
                return self._watch()
            case "create":
                return self._create()
            case "update":
                return self._update()
            case "patch":
                return self._patch("", self._representation())
            case "delete":
                return self._delete()
            case "deletecollection":
                return self._delete_collection()
            case _:
                raise _not_allowed()

    def _get(self) -> Response:
        show = self._representation()
        reject_future(self._registry.store, parse_revision(self._query.text("resourceVersion")))
        entry = self._registry.entry(self._info.name, self._namespace)
        return answers.document(200, show.one(served(self._resource, entry)), show.content_type)

    def _list(self) -> Response:
        show = self._representation()
        options = parameters.list_options(self._query, self._namespace)
        page = list_entries(self._registry.store, self._resource, options)
        return answers.document(200, show.page(page), show.content_type)

    def _watch(self) -> Response:
        show = self._representation()
        if show.content_type == PROTOBUF:
            raise NotAcceptable("only the following media types are accepted: application/json;stream=watch")
        options = parameters.watch_options(self._query, self._namespace, self._info.name)
        watch = Watch(self._registry.store, self._resource, options, show, self._clock)
        response = answers.document(200, b"", show.content_type)
        response.body = watch
        return response

    def _create(self) -> Response:
        show = self._representation()
        call = self._write_call("CreateOptions")
        obj = self._decode_body(call)
        action = self._resource.strategy.action
        if action is not None:
            return self._run_action(action, obj, call.options)
        return _answer_write(show, self._registry.create(obj, self._namespace, call))

    def _update(self) -> Response:
        show = self._representation()
        call = self._write_call("UpdateOptions")
        obj = self._decode_body(call)
        return _answer_write(show, self._registry.update(self._info.name, obj, self._namespace, call=call))

    def _delete(self) -> Response:
        show = self._representation()
        options = parameters.delete_options(self._delete_document(), self._query, self._user)
        deleted = self._registry.delete(self._info.name, self._namespace, options, self.warnings)
        if self._resource.strategy.delete_answers_object or not deleted.removed:
            return _answer_write(show, deleted)
        return answers.json_document(200, self._deletion_status(deleted.object))

    def _delete_collection(self) -> Response:
        show = self._representation()
        options = parameters.delete_options(self._delete_document(), self._query, self._user)
        page = list_entries(self._registry.store, self._resource, parameters.list_options(self._query, self._namespace))
        for entry in page.entries:
            self._registry.delete(entry.name, entry.namespace, options, self.warnings)
        return answers.document(200, show.page(page), show.content_type)

    # Subresources

    async def subresource(self) -> Response:
        """Answer a request for a subresource of one object."""
        subresource = self._resource.subresources.get(self._info.subresource)
        if subresource is None:  # for a custom resource, a real API server reports that the object is missing
            raise not_found(self._resource, self._info.name) if self._resource.custom else not_served()
        if self._info.verb not in subresource.verbs:
            raise _not_allowed()
        if isinstance(subresource, Connection):
            return await subresource.connect(self._request, self._attributes("CONNECT"))
        check_encoding(self._accept)
        if isinstance(subresource, Action):
            call = self._write_call("CreateOptions")
            obj = self._decode_body(call, subresource.kind)
            return self._run_action(subresource, obj, call.options)
        if isinstance(subresource, View):
            return self._view(subresource)
        raise _not_allowed()

    def _view(self, view: View) -> Response:
        info, show = self._info, self._representation(view)
        if info.verb == "get":
            entry = self._registry.entry(info.name, self._namespace)
            data = served(self._resource, entry) if view.kind is None else self._read_view(view, entry)
            return answers.document(200, show.one(data), show.content_type)
        if info.verb == "patch":
            return self._patch(info.subresource, show, view)
        call = self._write_call("UpdateOptions")
        obj = self._decode_body(call, view.kind)
        written = self._registry.update(info.name, obj, self._namespace, info.subresource, call)
        return _answer_write(show, written, view)

    def _read_view(self, view: View, entry: Entry) -> bytes:
        return encode_json(view.read(from_stored(self._resource, entry.data)))

    def _run_action(self, action: Action, obj: JSONObject, options: WriteOptions) -> Response:
        attributes = self._attributes("CREATE", obj, options)
        self._registry.admission.admit(attributes)
        self._registry.admission.validate(attributes)
        answer = action.create(obj, attributes)
        code = answer.get("code", 201) if answer.get("kind") == "Status" else 201
        return answers.json_document(code, answer)

    # Parts

    def _patch(self, subresource: str, show: Representation, view: View | None = None) -> Response:
        content_type = body.content_type(self._request.headers.get("content-type", ""))
        patching.check_type(self._resource, content_type)
        if content_type == patching.APPLY_PATCH:
            return _answer_write(show, self._apply(subresource))
        parameters.reject_force(self._query)
        call = self._write_call("PatchOptions")
        document = patching.decode(self._request.body, content_type)
        if content_type != patching.JSON_PATCH and call.options.field_validation != "Ignore":
            call.duplicate_fields = body.duplicate_fields(self._request.body, JSON, document)
        info, registry, kind = self._info, self._registry, view.kind if view is not None else None
        target = registry.open(info.name, self._namespace, subresource)
        patched = patching.apply(self._resource, content_type, target.draft(), document)
        body.check_patched(patched, kind or self._resource.gvk, custom=self._resource.custom and kind is None)
        registry.check_address(patched, info.name, self._namespace)
        try:
            written = registry.replace(target, patched, call)
        except Nonconforming as error:
            raise patching.nonconforming(error, patched) from error
        return _answer_write(show, written, view)

    def _apply(self, subresource: str) -> WriteResult:
        options = parameters.apply_options(self._query, self._request, self._user)
        config = body.decode_apply(self._request.body, self._resource.gvk)
        call = WriteCall(options, self.warnings)
        return self._registry.apply(self._info.name, config, self._namespace, subresource, call)

    def _decode_body(self, call: WriteCall, kind: GroupVersionKind | None = None) -> JSONObject:
        """Return the document in the body. Faults for strict decoding are noted in `call`."""
        content_type = self._request.headers.get("content-type", "")
        expected = kind or self._resource.gvk
        obj = body.decode(self._request.body, content_type, expected)
        body.check_kind(obj, expected, custom=self._resource.custom and kind is None)
        if call.options.field_validation != "Ignore":
            call.duplicate_fields = body.duplicate_fields(self._request.body, content_type, obj)
        return obj

    def _delete_document(self) -> JSONObject | None:
        if not self._request.body:
            return None
        obj = body.decode(self._request.body, self._request.headers.get("content-type", ""), _DELETE_OPTIONS)
        if obj.get("kind") not in (None, "", "DeleteOptions"):
            text = f'no kind "{obj["kind"]}" is registered for version "{obj.get("apiVersion", "")}" in scheme'
            raise BadRequest(f'{text} "pkg/runtime/scheme.go:111"')
        return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}

    def _write_call(self, kind: str) -> WriteCall:
        return WriteCall(parameters.write_options(kind, self._query, self._request, self._user), self.warnings)

    def _representation(self, view: View | None = None) -> Representation:
        """Return how to encode the answer. A view of another kind is always shown whole; it has no Table."""
        foreign = view is not None and view.kind is not None
        accepted = negotiate(self._accept, tables=not foreign, metadata=not foreign)
        if accepted.encoding == PROTOBUF and self._resource.custom and not (accepted.kind or foreign):
            raise NotAcceptable("only the following media types are accepted: application/json, application/yaml")
        form: Form
        if accepted.kind == "Table":
            form = TableForm(self._resource, accepted.version, self._query.text("includeObject"), self._clock)
        elif accepted.kind:
            form = MetadataForm(accepted.version)
        else:
            form = WholeForm(self._resource)
        return Representation(self._resource, form, accepted.encoding)

    def _attributes(
        self, operation: Operation, obj: JSONObject | None = None, options: WriteOptions | None = None
    ) -> Attributes:
        return Attributes(
            operation=operation,
            resource=self._resource,
            namespace=self._namespace,
            name=self._info.name,
            object=obj,
            subresource=self._info.subresource,
            user=self._user,
            dry_run=options is not None and options.dry_run,
            options=options.raw if options is not None else {},
            warnings=self.warnings,
        )

    def _deletion_status(self, obj: JSONObject) -> JSONObject:
        details = {"name": obj["metadata"]["name"], "group": self._resource.group, "kind": self._resource.plural}
        details["uid"] = obj["metadata"]["uid"]
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": {key: value for key, value in details.items() if value},
        }


_NAMED_VERBS = frozenset({"get", "update", "patch", "delete"})
_ALL_NAMESPACES_VERBS = frozenset({"list", "watch"})


def _answer_write(show: Representation, written: WriteResult, view: View | None = None) -> Response:
    """Answer a write with the bytes that it stored, or with what a view of another kind shows of the object."""
    data = written.data if view is None or view.kind is None else encode_json(view.read(written.object))
    return answers.document(201 if written.created else 200, show.one(data), show.content_type)


def _not_allowed() -> MethodNotAllowed:
    text = "the server does not allow this method on the requested resource"
    return MethodNotAllowed(text, details=StatusDetails())
