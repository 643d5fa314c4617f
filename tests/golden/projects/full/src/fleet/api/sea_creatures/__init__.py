"""The group sea_creatures."""
