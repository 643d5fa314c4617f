"""The built-in kinds: what each does beyond its schema. One module a group, or a folder, named as its Go package is."""
