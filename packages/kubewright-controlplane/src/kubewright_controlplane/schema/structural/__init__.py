"""One kind's schema: decode, default and validate its documents; and validation of the schema itself."""
