"""One kind's schema: decode, default and validate its documents; and validate the schema itself."""
