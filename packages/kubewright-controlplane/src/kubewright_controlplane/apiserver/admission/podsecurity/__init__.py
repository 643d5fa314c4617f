"""PodSecurity: the levels `privileged`, `baseline` and `restricted`, which namespaces choose by their labels."""
