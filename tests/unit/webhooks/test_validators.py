"""What a validator returns and raises, as an API server reads it."""

from __future__ import annotations

from kubewright import Forbidden, Invalid
from kubewright.apis.core.v1 import Pod
from kubewright.machinery import fields
from kubewright.machinery.errors import TooManyRequests
from kubewright.webhooks import (
    AdmissionContext,
    AdmissionResponse,
    FieldError,
    PodExecOptions,
    RawAdmissionContext,
    admission_handler,
    validator,
)

from .served import Served, WebServer, asked, operations, webserver


@validator(WebServer)
def odd(ctx: AdmissionContext[WebServer]) -> list[FieldError] | None:
    if ctx.object.spec.replicas % 2:
        return None
    return [fields.invalid("spec.replicas", ctx.object.spec.replicas, "must be odd")]


async def test_an_object_without_errors_is_allowed() -> None:
    assert await Served(odd).review(asked(webserver(replicas=3))) == {"uid": asked()["uid"], "allowed": True}


async def test_errors_become_the_api_servers_invalid() -> None:
    response = await Served(odd).review(asked(webserver(replicas=2)))
    assert not response["allowed"]
    assert response["status"] == {
        "metadata": {},
        "status": "Failure",
        "message": 'WebServer.my.domain "web" is invalid: spec.replicas: Invalid value: 2: must be odd',
        "reason": "Invalid",
        "details": {
            "name": "web",
            "group": "my.domain",
            "kind": "WebServer",
            "causes": [
                {"reason": "FieldValueInvalid", "message": "Invalid value: 2: must be odd", "field": "spec.replicas"}
            ],
        },
        "code": 422,
    }


async def test_a_list_without_errors_allows() -> None:
    @validator(WebServer)
    async def accept(ctx: AdmissionContext[WebServer]) -> list[FieldError]:
        return []

    assert (await Served(accept).review(asked(webserver())))["allowed"]


async def test_a_raised_error_keeps_its_status() -> None:
    @validator(WebServer)
    async def slow_down(ctx: AdmissionContext[WebServer]) -> None:
        raise TooManyRequests("later")

    response = await Served(slow_down).review(asked(webserver()))
    assert (response["allowed"], response["status"]["code"], response["status"]["reason"]) == (
        False, 429, "TooManyRequests"
    )  # fmt: skip


async def test_warnings_are_sent_with_any_answer() -> None:
    @validator(WebServer)
    def warn(ctx: AdmissionContext[WebServer]) -> None:
        ctx.warn("spec.image is deprecated")
        ctx.audit_annotations["image"] = "old"
        if ctx.object.spec.image is None:
            raise Forbidden("no image")

    allowed = await Served(warn).review(asked(webserver(image="nginx")))
    assert allowed["warnings"] == ["spec.image is deprecated"]
    assert allowed["auditAnnotations"] == {"image": "old"}
    denied = await Served(warn).review(asked(webserver()))
    assert (denied["allowed"], denied["warnings"]) == (False, ["spec.image is deprecated"])


async def test_the_context_has_everything_that_the_request_says() -> None:
    @validator(WebServer, subresources=["status"])
    def look(ctx: AdmissionContext[WebServer]) -> None:
        assert (ctx.operation, ctx.subresource, ctx.namespace, ctx.name) == ("UPDATE", "status", "shop", "web")
        assert (ctx.user.name, ctx.user.uid, ctx.user.groups) == ("ann", "7", ["admins"])
        assert ctx.user.extra == {"scopes": ["all"]}
        assert ctx.dry_run
        assert ctx.uid == asked()["uid"]
        assert ctx.options["fieldManager"] == "kubectl"
        assert ctx.old_object is not None
        assert (ctx.old_object.spec.replicas, ctx.object.spec.replicas) == (1, 2)

    request = asked(webserver(replicas=2), webserver(replicas=1), subResource="status", dryRun=True)
    assert (await Served(look).review(request))["allowed"]


async def test_a_create_has_no_old_object() -> None:
    @validator(WebServer)
    def look(ctx: AdmissionContext[WebServer]) -> None:
        assert ctx.old_object is None

    assert (await Served(look).review(asked(webserver())))["allowed"]


async def test_a_delete_is_of_the_stored_object() -> None:
    @validator(WebServer, operations=["DELETE"])
    def keep(ctx: AdmissionContext[WebServer]) -> None:
        assert ctx.old_object is ctx.object
        if ctx.object.spec.replicas > 0:
            raise Forbidden("scale it down first")

    response = await Served(keep).review(asked(None, webserver(replicas=1), operation="DELETE"))
    assert response["status"]["message"] == "scale it down first"


async def test_a_connect_is_reviewed_with_its_options() -> None:
    @validator(PodExecOptions, parent=Pod, subresources=["exec"], operations=["CONNECT"])
    def no_shells(ctx: AdmissionContext[PodExecOptions]) -> None:
        if "sh" in ctx.object.command:
            raise Forbidden(f"no shells in {ctx.name}")

    options = {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["sh"], "stdout": True}
    kind = {"group": "", "version": "v1", "kind": "PodExecOptions"}
    response = await Served(no_shells).review(asked(options, kind=kind, operation="CONNECT", subResource="exec"))
    assert response["status"]["message"] == "no shells in web"


async def test_a_result_that_is_not_a_list_of_errors_is_reported_as_a_mistake() -> None:
    @validator(WebServer)  # type: ignore[arg-type] # the mistake
    def wrong(ctx: AdmissionContext[WebServer]) -> str:
        return "replicas must be odd"

    status = (await Served(wrong).review(asked(webserver())))["status"]
    assert (status["code"], "must return None or a list of FieldErrors" in status["message"]) == (500, True)


async def test_an_old_object_that_does_not_match_the_class_is_decoded_only_if_it_is_used() -> None:
    response = await Served(odd).review(asked(webserver(replicas=1), webserver(replicas="many")))
    assert response["allowed"]


async def test_a_raw_handler_gets_plain_json_of_any_kind() -> None:
    @admission_handler(
        "/anything", name="any.shop.example.com", groups=["*"], versions=["*"], resources=["*/*"],
        operations=["CREATE"], mutating=True,
    )  # fmt: skip
    async def stamp(ctx: RawAdmissionContext) -> AdmissionResponse:
        assert ctx.object is not None
        assert ctx.old_object is None
        assert ctx.request.kind.kind == "Gadget"
        return AdmissionResponse(
            patch=[{"op": "add", "path": "/stamp", "value": ctx.object["kind"]}], warnings=["stamped"]
        )

    gadget = {"apiVersion": "other/v2", "kind": "Gadget"}
    kind = {"group": "other", "version": "v2", "kind": "Gadget"}
    response = await Served(stamp).review(asked(gadget, kind=kind))
    assert operations(response) == [{"op": "add", "path": "/stamp", "value": "Gadget"}]
    assert response["warnings"] == ["stamped"]


async def test_a_raw_handler_denies_with_a_status() -> None:
    @admission_handler(
        "/anything", name="any.shop.example.com", groups=[""], versions=["v1"], resources=["pods"],
        operations=["CREATE"],
    )  # fmt: skip
    def deny(ctx: RawAdmissionContext) -> AdmissionResponse:
        return AdmissionResponse(allowed=False, status=Invalid("no Pods").status)

    response = await Served(deny).review(asked(webserver()))
    assert (response["allowed"], response["status"]["message"]) == (False, "no Pods")
