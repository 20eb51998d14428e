"""Specs: YAML text to a typed value, with file and line of everything, and the variables in it."""

from __future__ import annotations

from precheck_lib.spec.load import build_spec, load_spec
from precheck_lib.spec.model import CheckSpec, Problem, Spec, SpecError, Wait, When

__all__ = ["CheckSpec", "Problem", "Spec", "SpecError", "Wait", "When", "build_spec", "load_spec"]
