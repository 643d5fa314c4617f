"""An operator that keeps volumes, and carries out operations on them."""
