"""Fixtures that more than one room uses."""

from __future__ import annotations

from tests.unit.gpu.machine import machine

__all__ = ["machine"]
