"""The API: the kinds of this operator."""
