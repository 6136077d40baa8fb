"""Does something as soon as the script has imported torch, and not a moment earlier.

Importing torch ourselves would come before the script's own settings of the environment.
"""

import importlib.util
import sys
from typing import Any, Callable


class AfterTorch:
    """A finder of modules that lets others find torch, and acts when it has been executed."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The usual spec of torch, its execution followed by the action; None for all others."""
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                self.action()

            # Of this loader alone: torch may ask its own for resources, so no other stands in.
            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
