"""The controllers, one module for each kind; `members` and `upkeep` are the work on a cluster."""
