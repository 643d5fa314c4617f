"""HTTP in front of the registry: routes, content types, discovery, OpenAPI, errors."""
