"""The built-in kinds: what each does beyond its schema. Each API group has a module or folder, named after its Go
package.
"""
