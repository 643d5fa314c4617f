"""The Widget operator on Kubewright: `python widgets.py --kubeconfig ...`."""

from kubewright import Condition, Context, CustomResource, Manager, Model, ObjectMeta, controller, field, set_condition
from kubewright.apis.core.v1 import ConfigMap
from kubewright.apis.meta.v1 import Int32, Int64


class WidgetSpec(Model):
    """The desired state of a Widget."""

    message: str
    """A message for the ConfigMap"""
    size: Int32
    """A number for the ConfigMap"""


class WidgetStatus(Model):
    """The observed state of a Widget."""

    observed_generation: Int64 | None = None
    """The generation that the status describes"""
    config_map: str = ""
    """The name of the ConfigMap"""
    conditions: list[Condition] = []  # noqa: RUF012 - a Model copies it
    """Whether the ConfigMap matches the spec"""


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
        message="the ConfigMap matches the spec",
        observed_generation=widget.metadata.generation,
    )
    await ctx.update_status(status)


if __name__ == "__main__":
    Manager(controllers=[reconcile]).main()
