"""What `kubewright levels` cannot know of this operator."""

from kubewright.testing.levels import Change, Declaration, Upgrade

declaration = Declaration(
    changes=[Change("MyWeb", {"pageContentHtml": "<!doctype html><title>Changed</title>"})],
    upgrade=Upgrade("MyWeb", "spec.image", old="nginx:1.23.1", new="nginx:1.27.0", unsupported="not an image"),
)
