"""The webhooks of Widget on Kubewright: `python -m benchmarks.peers.kubewright.reviews --webhook-port 9443 ...`."""

from benchmarks.peers.kubewright.widgets import Widget
from kubewright import Manager
from kubewright.machinery.fields import FieldError, invalid
from kubewright.webhooks import AdmissionContext, defaulter, validator


@defaulter(Widget)
def set_message(ctx: AdmissionContext[Widget]) -> None:
    if not ctx.object.spec.message:
        ctx.object.spec.message = "hello"


@validator(Widget)
def check_size(ctx: AdmissionContext[Widget]) -> list[FieldError]:
    if ctx.object.spec.size > 1000:
        return [invalid("spec.size", ctx.object.spec.size, "must be at most 1000")]
    return []


if __name__ == "__main__":
    Manager(webhooks=[set_message, check_size]).main()
