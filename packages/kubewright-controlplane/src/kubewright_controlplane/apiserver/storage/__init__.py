"""Where objects are kept: as bytes, under one global revision, with the events that a watch needs."""
