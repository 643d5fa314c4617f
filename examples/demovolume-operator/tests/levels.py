"""What `kubewright levels` cannot know of this operator."""

from kubewright.testing.levels import Change, Declaration

declaration = Declaration(changes=[Change("DemoVolume", {"size": 2})])
