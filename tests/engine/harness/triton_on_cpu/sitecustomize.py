"""Register a stand-in `cpu` backend with Triton, so that its kernels run in Triton's own interpreter.

Python imports this at start when the folder is on PYTHONPATH. For tests and the demo only: right numbers, slow.
"""

import os
import types

if os.environ.get("TRITON_INTERPRET") == "1":
    try:
        import triton.backends
    except ImportError:
        pass  # an interpreter without an engine, such as spectool's own
    else:
        driver = type("Driver", (), {"is_active": staticmethod(lambda: True)})
        triton.backends.backends["cpu"] = types.SimpleNamespace(driver=driver, compiler=None)
