from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pynvml
import pytest

from precheck_lib.gpu import nvml
from precheck_lib.gpu.reading import Reading
from tests.unit.gpu.fake_nvml import FakeNvml

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.gpu.fake_nvml import FakeCard


@pytest.fixture
def read(monkeypatch) -> Callable[..., Reading]:
    """Read the cards of a machine through the real binding of NVML; the arguments are `FakeNvml`'s."""

    def reading(*cards: FakeCard, module: str | None = "550.163.01", **more: Any) -> Reading:
        monkeypatch.setattr(pynvml, "nvmlLib", FakeNvml(*cards, **more))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        monkeypatch.setattr(nvml, "module_version", lambda: module)
        return msgspec.convert(nvml.read(), Reading)

    return reading
