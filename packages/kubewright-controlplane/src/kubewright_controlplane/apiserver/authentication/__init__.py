"""Authentication: who is asking.

A request is its client certificate's user, or its bearer token's (a static token, or a service account's), or else
`system:anonymous`. Whoever may `impersonate` can then be somebody else.
"""
