"""The smallest operator: one kind, no settings."""

from kubewright import Context, CustomResource, Manager, controller


class Note(CustomResource, group="minimal.example.com", version="v1"):
    """Something to remember."""

    text: str = ""


@controller(Note)
async def reconcile(ctx: Context[Note]) -> None:
    """Nothing follows from a note."""


manager = Manager([reconcile])
