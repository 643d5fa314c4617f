"""An operator that keeps web servers."""
