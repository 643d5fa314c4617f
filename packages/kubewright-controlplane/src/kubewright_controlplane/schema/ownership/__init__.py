"""Field ownership: managedFields, server-side apply, and strategic merge patches."""
