"""Finds reconciles that change the same field or object again and again, and names it.

detector     writes that are undone, and reconciles triggered only by their own writes
existence    objects that one side creates and another deletes
difference   what changed between two versions of an object, and who owns it
"""

from kubewright.controllers._hotloop.detector import FrequentObject as FrequentObject
from kubewright.controllers._hotloop.detector import HotLoop as HotLoop
from kubewright.controllers._hotloop.detector import HotLoops as HotLoops
from kubewright.controllers._hotloop.detector import Shape as Shape
