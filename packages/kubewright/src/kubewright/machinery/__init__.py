"""What every part of Kubernetes agrees on: kinds, errors, selectors, patches, quantities, times. Pure; does no I/O."""
