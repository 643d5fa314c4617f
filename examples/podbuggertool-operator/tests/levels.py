"""What `kubewright levels` cannot know of this operator."""

from kubewright.testing.levels import Change, Declaration, Lab


async def create_payment(lab: Lab) -> None:
    """Create the workload that the sample adds its tool to."""
    for number in range(2):
        await lab.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"payment-{number}", "labels": {"app": "payment"}},
                "spec": {"containers": [{"name": "payment", "image": "nginx"}]},
            }
        )


declaration = Declaration(
    prepare=create_payment,
    changes=[Change("Podbuggertool", {"image": "alpine:3.22"})],
)
