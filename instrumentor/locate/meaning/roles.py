"""What an object is to a training step, what a call does to it, and how sure that is."""

from __future__ import annotations

from enum import Enum


class Kind(Enum):
    """What an object is to a training step."""

    MODEL = "model"
    LOSS = "loss"  # a module without parameters of its own
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    SCALER = "gradient scaler"
    ACCELERATOR = "accelerator"  # wraps model and optimizer, runs backward(loss)
    ENGINE = "engine"  # model and optimizer in one: engine(x), engine.backward(), engine.step()
    AVERAGE = "average of weights"
    DATA = "data"  # loaders, data sets, tokenizers: nothing in them is differentiated
    LOGGER = "logger"


class Role(Enum):
    """What a call does to a training step."""

    SYNC = "sync"  # cuts the XLA graph
    WAIT = "wait"  # waits for a device
    STEP = "optimizer step"  # of its first argument
    FORWARD = "forward"  # of the model that it is given
    NO_GRAD = "no_grad"
    ACTIVATION_CHECKPOINT = "activation checkpoint"
    SAVE = "save"
    LOG = "log"
    DISTRIBUTED = "distributed"
    SPAWN = "spawn"
    THREAD = "thread"  # makes one, or is a class of them
    PROCESS = "process"
    COMPILE = "compile"  # the whole function as one graph
    STEP_CONTEXT = "step context"  # one graph per block
    CACHE_CLEAR = "cache clear"
    CLOCK = "clock"
    DEBUGGER = "debugger"
    PROFILER = "profiler"
    FETCH = "fetch"  # takes the next batch
    CLIP = "gradient clipping"


class Evidence(Enum):
    """How sure it is what something means: by its type, by what is done with it, by its name.

    RUN: a run of the script has shown it.
    """

    TYPE = "type"
    USE = "use"
    RUN = "run"
    SPELLING = "spelling"  # last resort: never enough to take a statement out
    UNREAD = "unread call"  # cannot be read, and may do anything
    PREPARATION = (
        "spelling, which speaks against it"  # cannot be read, and its name speaks against it
    )


class Effect(Enum):
    """What a call does beyond its value."""

    NOTHING = "nothing"
    FIRST = "its first argument"
    GIVEN = "what it is given"
    SAVES = "files"
    LOADS = "reads a file that may have been saved"
    PROCESS = "the process, or what others wait for: never taken out"


class Gives(Enum):
    """What the value of a call shares with what the call was given."""

    NUMBER = "a number or a text, which nobody can change"
    NEW = "a value of its own"
    OBJECT = "the object itself"
    PART = "the object or what it was given, a view or a part of it"
