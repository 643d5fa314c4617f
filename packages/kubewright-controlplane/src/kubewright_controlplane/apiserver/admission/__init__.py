"""Admission: plugins that change or reject a write after authorization, before it is stored."""
