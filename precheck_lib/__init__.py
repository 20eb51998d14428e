"""The gate that decides in seconds whether a self-hosted GPU runner is fit for an expensive job."""

from __future__ import annotations

__version__ = "0.1.0"
