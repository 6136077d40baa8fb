"""Kernels and calls of them that cannot be profiled alone."""

from __future__ import annotations

from instrumentor.locate.rules.decline import Decline


class NoKernel(Decline):
    """The script has no kernel, itself or in what it imports.

    ```python
    print("nothing to profile")
    ```

    ```console
    $ instrument kernel explain train.py
    ```
    """

    kind = "no-kernel"
    message = "no @ttl.kernel or @ttl.operation in this script or in what it imports of its project"
    remedy = "Give the script that defines or imports the kernel."


class SeveralKernels(Decline):
    """Several kernels are invoked, and one run profiles one of them.

    ```python
    import ttl

    @ttl.operation()
    def add(a, out): ...

    @ttl.operation()
    def mul(a, out): ...

    add(x, y)
    mul(x, y)
    ```

    ```console
    $ instrument kernel explain train.py
    ```
    """

    kind = "several-kernels"
    message = "several kernels are invoked: {names}; one run can profile only one of them"
    remedy = "Choose one: --kernel {first}."


class ResultUsed(Decline):
    """Only one call of a kernel can run; another one's result is needed, and nothing stands for it.

    ```python
    import ttl

    @ttl.operation()
    def add(a, out):
        return a + out

    x = add(1, 2)
    y = add(x, 3)
    ```

    ```console
    $ instrument kernel explain train.py
    ```
    """

    kind = "result-used"
    message = (
        "only one call of a kernel can run, and the result of this call of {kernel} is used: {why}"
    )
    remedy = (
        "Pass the output tensor as the last argument, or take the other calls out of the script "
        "that is profiled."
    )


class CompoundHeader(Decline):
    """The call stands where no line can be put before and behind it.

    ```python
    import ttl

    @ttl.operation()
    def add(a, out): ...

    if add(1, 2):
        print("done")
    ```

    ```console
    $ instrument kernel explain train.py
    ```
    """

    kind = "compound-header"
    message = "the call is in an f-string or the header of a compound statement: not rewritten"
    remedy = "Put the call into a statement of its own, before this one."
