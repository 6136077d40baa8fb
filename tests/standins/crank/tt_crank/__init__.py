"""Stand-in of tt-crank: device `tt`, module `torch.tt` (no `synchronize`), dynamo backend `tt`.

Nothing of Tenstorrent is in here: what is pretended is a device that works behind the host's back,
in order and with known latencies (see `torch/_queue.py`). Put this folder's parent on PYTHONPATH.
"""
