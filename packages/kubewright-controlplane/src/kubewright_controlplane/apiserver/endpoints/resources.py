"""Requests for resources: each verb, from its query and body to the registry and back to a response.

Follows apiserver's pkg/endpoints/handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from urllib.parse import parse_qs

from kubewright._runtime.clock import Clock
from kubewright.http.message import Request, Response
from kubewright.machinery.errors import APIError, MethodNotAllowed, NotAcceptable, NotFound, StatusDetails
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.endpoints import answers, body, requestinfo
from kubewright_controlplane.apiserver.endpoints.answers import (
    PROTOBUF,
    Form,
    MetadataForm,
    Representation,
    WholeForm,
    check_encoding,
    negotiate,
)
from kubewright_controlplane.apiserver.endpoints.requestinfo import RequestInfo
from kubewright_controlplane.apiserver.endpoints.table import SCALE_PRINTER, TableForm
from kubewright_controlplane.apiserver.endpoints.watchsockets import watch_over_websocket
from kubewright_controlplane.apiserver.endpoints.worker import LARGE, Steps, Worker, is_large
from kubewright_controlplane.apiserver.registry.conversions import conversions_for, settle
from kubewright_controlplane.apiserver.registry.failures import modified, not_found, not_served
from kubewright_controlplane.apiserver.registry.listing import Listing, Page, parse_revision, reject_future
from kubewright_controlplane.apiserver.registry.metadata import match_namespace, metadata_of
from kubewright_controlplane.apiserver.registry.model import (
    Action,
    Attributes,
    Connection,
    Operation,
    Resource,
    View,
)
from kubewright_controlplane.apiserver.registry.objects import (
    Nonconforming,
    check_metadata,
    conform_to,
    encode_json,
    from_stored,
    served,
)
from kubewright_controlplane.apiserver.registry.options import DeleteOptions, WriteCall, WriteOptions
from kubewright_controlplane.apiserver.registry.registry import Registry
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.registry.views import document_schema
from kubewright_controlplane.apiserver.registry.watching import Watch
from kubewright_controlplane.apiserver.registry.writes import Write, WriteResult
from kubewright_controlplane.apiserver.storage.events import Entry
from kubewright_controlplane.apiserver.user import UserInfo
from kubewright_controlplane.schema.steps import StepTooLong

_READS = frozenset({"get", "list", "watch"})
_WRITE_ATTEMPTS = 5
"""As often kube-apiserver tries a patch; an update without resourceVersion it tries without end."""
_DELETED_TOGETHER = 16
"""Objects of a collection that are deleted before others are served."""
_FEW = 500
"""Objects of a list that is made on the event loop."""
_FEW_COMPARISONS = 20_000
"""Comparisons for the selection of a list on the event loop."""
_FEW_BYTES = 1 << 20
"""Bytes of a list in JSON that is made on the event loop."""


class ResourceEndpoints:
    """Serves the paths below `/api/<version>` and `/apis/<group>/<version>`."""

    def __init__(self, resources: ResourceSet, worker: Worker, clock: Clock) -> None:
        self._resources = resources
        self._worker = worker
        self._clock = clock

    async def serve(self, request: Request, info: RequestInfo, user: UserInfo) -> Response:
        """Answer a request for a resource. Raises APIErrors."""
        registry = self._resources.find(info.group, info.version, info.resource)
        if registry is None:
            if self._resources.has_group(info.group):
                raise not_served()
            return answers.page_not_found()
        if info.below_namespace and not registry.resource.namespaced:
            raise not_served()
        call = _ResourceRequest(registry, request, info, user, Steps(self._worker, user.name), self._clock)
        try:
            response = await (call.subresource() if info.subresource else call.resource())
            if info.verb not in _READS:
                await self._resources.store.flush()
        except APIError as error:
            response = answers.failure(error)
        if registry.resource.deprecation_warning:
            call.warnings.insert(0, registry.resource.deprecation_warning)
        answers.add_warnings(response, call.warnings)
        return response


class _ResourceRequest:
    """One request for one resource."""

    def __init__(
        self, registry: Registry, request: Request, info: RequestInfo, user: UserInfo, steps: Steps, clock: Clock
    ) -> None:
        self.warnings: list[str] = []
        self._steps = steps
        self._registry = registry
        self._resource = registry.resource
        self._request = request
        self._info = info
        self._namespace = info.namespace if registry.resource.namespaced else ""
        self._user = user
        self._clock = clock
        self._query = info.query
        self._accept = request.headers.get("accept", "")

    async def resource(self) -> Response:
        """Answer a request for the resource itself."""
        check_encoding(self._accept)
        requestinfo.check_timeout(self._query)
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
                return await self._get()
            case "list":
                return await self._list()
            case "watch":
                return await self._watch()
            case "create":
                return await self._create()
            case "update":
                return await self._update()
            case "patch":
                return await self._patch("", self._representation())
            case "delete":
                return await self._delete()
            case "deletecollection":
                return await self._delete_collection()
            case _:
                raise _not_allowed()

    async def _get(self) -> Response:
        show = self._representation()
        reject_future(self._registry.store, parse_revision(self._query.text("resourceVersion")))
        entry = self._registry.entry(self._info.name, self._namespace)
        self._steps.are_large = len(entry.data) > LARGE and not show.is_stored_form
        data = await settle(lambda: show.one(served(self._resource, entry)), run=self._steps.run)
        return answers.document(200, data, show.content_type)

    async def _list(self) -> Response:
        show = self._representation()
        return await self._show_page(show, await self._page())

    async def _page(self) -> Page:
        """Return the entries that the request selects."""
        listing = Listing(self._registry.store, self._resource, requestinfo.list_options(self._query, self._namespace))
        self._steps.are_large = len(listing) > _FEW or listing.comparisons > _FEW_COMPARISONS
        return await self._steps.run(listing.page)

    async def _show_page(self, show: Representation, page: Page) -> Response:
        conversions = await conversions_for(self._resource, page.entries)
        few = _FEW_BYTES if show.content_type == answers.JSON else LARGE
        self._steps.are_large = len(page.entries) > _FEW or sum([len(each.data) for each in page.entries]) > few
        async with self._steps.answering():
            body = await settle(lambda: show.page(page), conversions, run=self._steps.run)
            response = answers.document(200, body, show.content_type)
            del body
            if self._steps.are_large:  # others are compressed at last
                answers.indent(self._request, self._info, response)
                await answers.compress(self._request, response)
        return response

    async def _watch(self) -> Response:
        show = self._representation()
        if show.content_type != answers.JSON:
            raise NotAcceptable("only the following media types are accepted: application/json;stream=watch")
        options = requestinfo.watch_options(self._query, self._namespace, self._info.name)
        watch = Watch(self._registry.store, self._resource, options, show, self._clock)
        if self._request.upgrade == "websocket":
            return await watch_over_websocket(self._request, watch, show.event_ending)
        response = answers.document(200, b"", show.content_type)
        response.body = watch
        return response

    async def _create(self) -> Response:
        action = self._resource.strategy.action
        if action is not None:
            return await self._run_action(action)
        show = self._representation()

        def begin() -> Write:
            call = self._write_call("CreateOptions")
            return self._registry.begin_create(self._decode_body(call), self._namespace, call)

        self._steps.are_large = is_large(self._request.body)

        return await self._answer_write(show, await self._write(begin))

    async def _update(self) -> Response:
        return await self._answer_write(self._representation(), await self._replace(""))

    async def _replace(self, subresource: str, kind: GroupVersionKind | None = None) -> WriteResult:
        """Carry out a PUT."""

        def begin() -> Write:
            call = self._write_call("UpdateOptions")
            obj = self._decode_body(call, kind)
            if kind is not None:
                conform_to(document_schema(kind), kind, obj, call)
            return self._registry.begin_update(self._info.name, obj, self._namespace, subresource, call)

        return await self._write_named(begin)

    async def _delete(self) -> Response:
        show = self._representation()
        options = await self._delete_options()
        deleted = await self._remove(self._info.name, self._namespace, options)
        if self._resource.strategy.delete_answers_object or not deleted.removed:
            return await self._answer_write(show, deleted)
        return answers.json_document(200, self._deletion_status(deleted.object))

    async def _delete_collection(self) -> Response:
        show = self._representation()
        options = await self._delete_options()
        page = await self._page()
        options.in_collection = True
        for number, entry in enumerate(page.entries):
            if number % _DELETED_TOGETHER == 0:
                await asyncio.sleep(0)  # let others be served
            with suppress(NotFound):  # another delete came first
                await self._remove(entry.name, entry.namespace, options)
        return await self._show_page(show, page)

    async def _delete_options(self) -> DeleteOptions:
        self._steps.are_large = len(self._request.body) > LARGE
        return await self._steps.run(
            lambda: requestinfo.delete_options(self._delete_document(), self._query, self._user)
        )

    async def _remove(self, name: str, namespace: str, options: DeleteOptions) -> WriteResult:
        self._steps.are_large = self._registry.stored_size(name, namespace) > LARGE
        return await self._write(lambda: self._registry.begin_delete(name, namespace, options, self.warnings))

    # Subresources

    async def subresource(self) -> Response:
        """Answer a request for a subresource of one object."""
        subresource = self._resource.subresources.get(self._info.subresource)
        if subresource is None:  # for a custom resource, a real API server reports that the object is missing
            raise not_found(self._resource, self._info.name) if self._resource.custom else not_served()
        methods = subresource.methods if isinstance(subresource, Connection) else ()
        if self._info.verb not in subresource.verbs and self._request.method not in methods:
            raise _not_allowed()
        if isinstance(subresource, Connection):
            attributes = self._attributes("CONNECT", _connect_options(subresource, self._request))
            if subresource.is_admitted:
                await self._admit(attributes)
            return await subresource.connect(self._request, attributes)
        check_encoding(self._accept)
        if isinstance(subresource, Action):
            return await self._run_action(subresource)
        if isinstance(subresource, View):
            return await self._view(subresource)
        raise _not_allowed()

    async def _view(self, view: View) -> Response:
        info, show = self._info, self._representation(view)
        if info.verb == "get":
            entry = self._registry.entry(info.name, self._namespace)
            read = served if view.kind is None else partial(_read_view, view)
            self._steps.are_large = len(entry.data) > LARGE
            data = await settle(lambda: show.one(read(self._resource, entry)), run=self._steps.run)
            return answers.document(200, data, show.content_type)
        if info.verb == "patch":
            return await self._patch(info.subresource, show, view)
        return await self._answer_write(show, await self._replace(info.subresource, view.kind), view)

    async def _run_action(self, action: Action) -> Response:
        negotiate(self._accept, tables=False, metadata=True)  # what an action answers has no rows
        call = self._write_call("CreateOptions")
        kind = action.kind or self._resource.gvk

        def decode() -> JSONObject:
            obj = self._decode_body(call, kind)
            conform_to(document_schema(kind), kind, obj, call)
            return obj

        self._steps.are_large = len(self._request.body) > LARGE
        obj = await self._steps.run(decode)
        if self._resource.namespaced:
            match_namespace(self._resource, metadata_of(obj), self._namespace)
        attributes = self._attributes("CREATE", obj, call.options)
        await self._admit(attributes)
        admitted = attributes.object
        assert admitted is not None
        if action.only_reads:
            answer = await self._steps.run(lambda: action.create(admitted, attributes))
        else:
            answer = action.create(admitted, attributes)
        code = answer.get("code", 201) if answer.get("kind") == "Status" else 201
        return answers.json_document(code, answer)

    async def _admit(self, attributes: Attributes) -> None:
        """Let admission change and check a request that stores nothing itself."""
        admission = self._registry.admission
        admission.admit(attributes)
        review = admission.review(attributes)
        if review is not None:
            await review.admit()
        admission.validate(attributes)
        if review is not None:
            await review.validate()

    # Parts

    async def _write_named(self, begin: Callable[[], Write]) -> WriteResult:
        """Carry out a write of the object whose name the request has."""
        size = len(self._request.body) + self._registry.stored_size(self._info.name, self._namespace)
        self._steps.are_large = size > LARGE
        return await self._write(begin)

    async def _write(self, begin: Callable[[], Write]) -> WriteResult:
        """Carry out a write. It begins again if the stored object changes while it waits for webhooks or the worker,
        and if its validation is too long for the event loop.
        """
        steps, warned = self._steps, len(self.warnings)

        def restart() -> Write:
            del self.warnings[warned:]
            return begin()

        for _ in range(_WRITE_ATTEMPTS):
            try:
                written = await self._attempt(restart)
            except StepTooLong:
                steps.are_large = True
                written = await self._attempt(restart)
            if written is not None:
                return written
        raise modified(self._resource, self._info.name)

    async def _attempt(self, begin: Callable[[], Write]) -> WriteResult | None:
        """Carry out a write; None if it must begin again. Raises StepTooLong."""
        steps, admission = self._steps, self._registry.admission
        write = await settle(begin, run=steps.run)
        review = admission.review(write.attributes)
        if review is not None:
            await review.admit()
        await steps.run_once(write.validate)
        if review is not None:
            await review.validate()
        elif steps.are_large:
            admission.validate(write.attributes)  # again: quotas and namespaces may have changed
        return await settle(partial(_commit, write))

    async def _answer_write(self, show: Representation, written: WriteResult, view: View | None = None) -> Response:
        """Answer a write with the bytes that it stored, or with what a view of another kind shows of the object."""

        def encode() -> bytes:
            shown = written.data if view is None or view.kind is None else encode_json(view.read(written.object))
            return show.one(shown)

        self._steps.are_large = len(written.entry.data) > LARGE
        data = encode() if show.is_stored_form else await self._steps.run(encode)
        return answers.document(201 if written.created else 200, data, show.content_type)

    async def _patch(self, subresource: str, show: Representation, view: View | None = None) -> Response:
        content_type = body.content_type(self._request.headers.get("content-type", ""))
        body.check_patch_type(self._resource, content_type)
        if content_type == body.APPLY_PATCH:
            written = await self._write_named(lambda: self._begin_apply(subresource, view))
            return await self._answer_write(show, written, view)
        requestinfo.reject_force(self._query)
        kind = view.kind if view is not None else None
        written = await self._write_named(lambda: self._begin_patch(content_type, subresource, kind))
        return await self._answer_write(show, written, view)

    def _begin_patch(self, content_type: str, subresource: str, kind: GroupVersionKind | None) -> Write:
        call = self._write_call("PatchOptions")
        document = body.decode_patch(self._request.body, content_type)
        if call.options.field_validation != "Ignore":
            call.strict_errors = body.patch_errors(self._request.body, content_type, document)
        info, registry = self._info, self._registry
        target = registry.open(info.name, self._namespace, subresource)
        patched = body.apply_patch(self._resource, content_type, target.draft(), document)
        gvk = kind or self._resource.gvk
        try:
            body.check_patched(patched, gvk, content_type, custom=self._resource.custom and kind is None)
            check_metadata(patched, gvk)
            if kind is not None:
                conform_to(document_schema(kind), kind, patched, call)
            registry.check_address(patched, info.name, self._namespace)
            return registry.begin_replace(target, patched, call)
        except Nonconforming as error:
            raise body.unfit_patch(error, content_type, patched, document) from error

    def _begin_apply(self, subresource: str, view: View | None) -> Write:
        options = requestinfo.apply_options(self._query, self._request, self._user)
        config = body.decode_apply(self._request.body, self._kind_of(view))
        call = WriteCall(options, self.warnings)
        errors = body.apply_errors(self._request.body, config) if options.field_validation != "Ignore" else ()
        write = self._registry.begin_apply(self._info.name, config, self._namespace, subresource, call)
        call.strict_errors = errors  # an error of the apply itself comes first
        body.check_applied(call)
        return write

    def _decode_body(self, call: WriteCall, kind: GroupVersionKind | None = None) -> JSONObject:
        """Return the document in the body. Errors for strict decoding are noted in `call`."""
        content_type = self._request.headers.get("content-type", "")
        expected = kind or self._resource.gvk
        obj = body.decode(self._request.body, content_type, expected)
        custom = self._resource.custom and kind is None
        body.check_kind(obj, expected, custom=custom)
        if call.options.field_validation != "Ignore":
            body.note_strict_errors(call, self._request.body, content_type, obj, custom=custom)
        return obj

    def _kind_of(self, view: View | None) -> GroupVersionKind:
        return view.kind if view is not None and view.kind is not None else self._resource.gvk

    def _delete_document(self) -> JSONObject | None:
        if not self._request.body:
            return None
        return body.decode_delete_options(self._request.body, self._request.headers.get("content-type", ""))

    def _write_call(self, kind: str) -> WriteCall:
        return WriteCall(requestinfo.write_options(kind, self._query, self._request, self._user), self.warnings)

    def _representation(self, view: View | None = None) -> Representation:
        """Return how to encode the answer."""
        foreign = view is not None and view.kind is not None
        accepted = negotiate(self._accept, tables=True, metadata=True)
        if accepted.encoding == PROTOBUF and self._resource.custom and not (accepted.kind or foreign):
            raise NotAcceptable("only the following media types are accepted: application/json, application/yaml")
        form: Form
        if accepted.kind == "Table":
            printer = SCALE_PRINTER if foreign else self._resource.printer
            form = TableForm(printer, accepted.version, self._query.text("includeObject"), self._clock)
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


def _read_view(view: View, resource: Resource, entry: Entry) -> bytes:
    return encode_json(view.read(from_stored(resource, entry.data)))


def _commit(write: Write) -> WriteResult | None:
    """Commit a write; None if the stored object has changed while the write waited."""
    return None if write.is_stale else write.commit()


def _connect_options(subresource: Connection, request: Request) -> JSONObject | None:
    """Return the options of a connection as admission sees them, such as PodExecOptions."""
    if subresource.kind is None:
        return None
    kind = {"kind": subresource.kind.kind, "apiVersion": subresource.kind.api_version}
    return kind | subresource.options(parse_qs(request.query, keep_blank_values=True))


def _not_allowed() -> MethodNotAllowed:
    text = "the server does not allow this method on the requested resource"
    return MethodNotAllowed(text, details=StatusDetails())
