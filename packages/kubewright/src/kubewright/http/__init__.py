"""HTTP/1.1 on a C parser and asyncio protocols: a client pool, a server, TLS. Knows no Kubernetes."""
