from __future__ import annotations
from tests.contract.harness import *
def test_x(stage, small_strict):
    e = run_precheck(stage, spec=small_strict)
    print(e); print("\n".join(everything_seen(stage)))
    assert e.code == 0
    assert 0
