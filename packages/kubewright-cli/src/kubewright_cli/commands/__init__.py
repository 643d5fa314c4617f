"""The subcommands of `kubewright`, one module each."""
