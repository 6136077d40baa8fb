"""Experiments for several chips."""

from __future__ import annotations

from instrumentor.locate.rules.decline import Decline


class MultiChipFolder(Decline):
    """Experiments for several chips are kept in folders of the machine's name.

    ```python
    # galaxy/train.py
    for x in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    ```

    ```console
    $ instrument explain galaxy/train.py
    ```
    """

    kind = "multi-chip"
    message = "the script lies in a {part} folder: a multi-chip experiment"
    remedy = "Measure it with --multi-chip, or give the single-chip variant."
    observable = False


class MultiChipConfig(Decline):
    """The configuration that the script would read lies in such a folder.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    ```

    ```console
    $ instrument explain train.py --config galaxy/train.yaml
    ```
    """

    kind = "multi-chip"
    message = "the configuration {path} lies in a {part} folder: multi-chip"
    remedy = (
        "Measure it with --multi-chip, or give the single-chip YAML (mesh_shape null or absent)."
    )
    observable = False


class MultiChipMesh(Decline):
    """The configuration sets a mesh of more than one chip.

    ```python
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    ```

    ```yaml
    # mesh.yaml
    mesh_shape: [1, 8]
    ```

    ```console
    $ instrument explain train.py --config mesh.yaml
    ```
    """

    kind = "multi-chip"
    message = "{key} is {shape!r}: a multi-chip run"
    remedy = MultiChipConfig.remedy
    observable = False
