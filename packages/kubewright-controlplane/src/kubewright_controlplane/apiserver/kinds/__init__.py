"""The built-in kinds: the behavior of each beyond its schema. Each API group has a module or folder, named after its Go
package.
"""
