"""genguard: an admission webhook that keeps generation and observedGeneration honest."""

from typing import Final

import genguard

__version__: Final = "0.1.0"

if genguard.__version__ != __version__:
    # The distributions genguard and genguard-webhook both hold the package genguard.
    raise ImportError(
        f"genguard {genguard.__version__} is installed over genguard-webhook {__version__}: "
        "install genguard-webhook into an environment of its own, for example with pipx"
    )
