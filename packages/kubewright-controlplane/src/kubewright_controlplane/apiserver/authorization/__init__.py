"""Authorization: may they. RBAC decides; members of `system:masters` may do anything."""
