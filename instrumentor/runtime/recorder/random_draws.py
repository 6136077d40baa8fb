"""Whether the samples of a data set take random numbers, in the process that trains."""

import random
import sys
from typing import Any, Callable, Iterator, List, Tuple

DRAWS = "Walking over a loader of %s, which draws random numbers for its samples, is skipped."
HENCE = " Batches may be others than in your script; --keep-validation keeps a validation."


def loader_of(walked: Any) -> Any:
    """The DataLoader that is walked over: what is one, or wraps one, as a progress bar does."""
    kind = sys.modules["torch"].utils.data.DataLoader
    if isinstance(walked, kind):
        return walked
    held = [each for each in getattr(walked, "__dict__", {}).values() if isinstance(each, kind)]
    return held[0] if len(held) == 1 else None


def has_its_workers(loader: Any, again: bool) -> bool:
    """Whether the workers of a DataLoader stay from an earlier walk, seeded as they are."""
    stay = getattr(loader, "persistent_workers", False) and loader.num_workers
    return bool(stay) and (again or loader._iterator is not None)


def draws_by_itself(loader: Any, first: Any, indices: Iterator[Any]) -> bool:
    """Whether a loader draws more than its own seeds: for its order, without workers for samples.

    One sample is made for that, and the generators are put back.

    Args:
        loader: a DataLoader of torch's.
        first: what its index sampler gives first, None without any.
        indices: what that gives then.
    """
    torch, data = sys.modules["torch"], loader.dataset
    elsewhere = loader.num_workers or isinstance(data, torch.utils.data.IterableDataset)
    kept = [(read, write, read()) for read, write in generators_of_the_process()]
    drawn = False
    try:
        next(indices, None)
        if elsewhere or first is None:
            pass
        elif loader._auto_collation:
            loader.collate_fn([data[next(iter(first))]])
        else:
            loader.collate_fn(data[first])
    except Exception:  # the script's to see where it walks itself; what was drawn counts
        pass
    finally:
        for read, write, state in kept:
            drawn = drawn or plain(read()) != plain(state)
            write(state)
    return drawn


def generators_of_the_process() -> List[Tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """How the state of each is read and written."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    found = [(torch.get_rng_state, torch.set_rng_state), (random.getstate, random.setstate)]
    if numpy is not None:
        found.append((numpy.random.get_state, numpy.random.set_state))
    return found


def plain(state: Any) -> List[Any]:
    """A state as values that can be compared."""
    parts = state if isinstance(state, tuple) else (state,)
    return [part.tolist() if hasattr(part, "tolist") else part for part in parts]
