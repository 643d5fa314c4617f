"""What `kubewright levels` cannot know of this operator."""

from kubewright.testing.levels import Declaration, Upgrade

declaration = Declaration(
    upgrade=Upgrade("WebServer", "spec.image", old="nginx:1.23.1", new="nginx:1.27.0", unsupported="not an image"),
)
