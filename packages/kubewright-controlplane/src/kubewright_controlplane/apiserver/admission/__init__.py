"""Admission: what may change or refuse a write after authorization and before it is stored."""
