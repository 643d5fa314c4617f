"""For tests of operators: an environment with a control plane, and the pytest plugin."""
