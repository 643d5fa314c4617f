"""Storage: objects as bytes under one global revision, with the events that watches need."""
