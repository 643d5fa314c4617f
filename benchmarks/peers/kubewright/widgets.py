"""The Widget operator on Kubewright: `python widgets.py --kubeconfig ...`."""

from kubewright import Condition, Context, CustomResource, Manager, Model, ObjectMeta, controller, field, set_condition
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import Int32, Int64


class WidgetSpec(Model):
    """What a Widget should be."""

    message: str
    """What the ConfigMap holds"""
    size: Int32
    """What the ConfigMap holds beside it"""


class WidgetStatus(Model):
    """What a Widget is."""

    observed_generation: Int64 | None = None
    """The generation that the rest of the status is about"""
    config_map: str = ""
    """The name of the ConfigMap"""
    conditions: list[Condition] = []  # noqa: RUF012 - a Model copies it
    """Whether the ConfigMap is as the spec says"""


class Widget(CustomResource, group="bench.kubewright.dev", version="v1"):
    """Widget is the Schema for the widgets API"""

    spec: WidgetSpec
    status: WidgetStatus = field(default_factory=WidgetStatus)


@controller(Widget, owns=[ConfigMap])
async def reconcile(ctx: Context[Widget]) -> None:
    widget = ctx.object
    config_map = await ctx.apply(
        ConfigMap(
            metadata=ObjectMeta(name=widget.metadata.name),
            data={"message": widget.spec.message, "size": str(widget.spec.size)},
        )
    )
    status = widget.status
    status.observed_generation = widget.metadata.generation
    status.config_map = config_map.metadata.name
    set_condition(
        status.conditions,
        "Ready",
        "True",
        reason="ConfigMapUpToDate",
        message="the ConfigMap is as the spec says",
        observed_generation=widget.metadata.generation,
    )
    await ctx.update_status(status)


if __name__ == "__main__":
    Manager(controllers=[reconcile]).main()
