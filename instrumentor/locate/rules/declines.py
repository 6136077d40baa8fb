"""Every way in which a script is declined, in the order of docs/declines.md."""

from __future__ import annotations

from instrumentor.locate.rules.arguments import OnlyEvaluates, PassesBy
from instrumentor.locate.rules.closures import Closure
from instrumentor.locate.rules.compiled_step import CompiledStep, StepContext, StepDecorator
from instrumentor.locate.rules.decline import Decline
from instrumentor.locate.rules.frameworks import (
    ForeignRuntime,
    HfTrainer,
    InTrainer,
    Jax,
    Keras,
    Lightning,
    LightningTrainer,
    ManualBackward,
)
from instrumentor.locate.rules.in_place import HardLinked, OutsideGit
from instrumentor.locate.rules.kernels import CompoundHeader, NoKernel, ResultUsed, SeveralKernels
from instrumentor.locate.rules.loops import (
    BackwardOnly,
    ForwardApart,
    ForwardUnknown,
    ForwardUnseen,
    LoopUnseen,
    SeveralLoops,
    StepElsewhere,
    SwallowedStop,
)
from instrumentor.locate.rules.marked_lines import NoInferenceLoop, RegionCut, RegionLeft
from instrumentor.locate.rules.no_loop import (
    BackwardHidden,
    ChosenAtRunTime,
    HiddenInCall,
    HiddenInScaler,
    ImportUnread,
    InNoLoop,
    InNoSeenLoop,
    Library,
    NoLoop,
    Unreached,
)
from instrumentor.locate.rules.own_process import Distributed, OwnProcess
from instrumentor.locate.rules.regions import (
    PhaseToldLate,
    StaysOpen,
    StepBeforeBackward,
    StepWithBackward,
)
from instrumentor.locate.rules.several_chips import MultiChipConfig, MultiChipFolder, MultiChipMesh
from instrumentor.locate.rules.shape import (
    Asynchronous,
    BothPhases,
    Generator,
    GradientsUnseen,
    LineSearch,
    MayReturn,
    OtherVersion,
)
from instrumentor.locate.rules.unreadable import BrokenImport, FileTooLarge, Syntax, TooDeep

#: Declines under what they are about.
TOPICS: dict[str, tuple[type[Decline], ...]] = {
    "No loop to be seen": (
        *(NoLoop, Unreached, InNoLoop, InNoSeenLoop, BackwardHidden, ChosenAtRunTime),
        *(ImportUnread, Library, NoInferenceLoop),
        *(HfTrainer, LightningTrainer, Lightning, ManualBackward, InTrainer),
        *(HiddenInCall, HiddenInScaler, ForeignRuntime, Jax, Keras),
    ),
    "Which loop, and where it runs": (
        *(
            OnlyEvaluates,
            PassesBy,
            SeveralLoops,
            LoopUnseen,
            BackwardOnly,
            OwnProcess,
            Distributed,
            Asynchronous,
            Generator,
        ),
    ),
    "An iteration that is not one step": (
        *(ForwardApart, ForwardUnseen, ForwardUnknown, Closure, LineSearch),
        *(MayReturn, BothPhases, OtherVersion),
        *(PhaseToldLate, GradientsUnseen),
    ),
    "No place for the lines around a sample, or for the stop": (
        *(StepWithBackward, StepBeforeBackward, StaysOpen, CompiledStep, StepContext),
        *(StepDecorator, RegionLeft, RegionCut, StepElsewhere, SwallowedStop),
    ),
    "Files and experiments": (
        *(Syntax, BrokenImport, FileTooLarge, TooDeep, MultiChipFolder, MultiChipConfig),
        *(MultiChipMesh, HardLinked, OutsideGit),
    ),
    "Kernels of tt-lang": (NoKernel, SeveralKernels, ResultUsed, CompoundHeader),
}
DECLINES = tuple(each for declines in TOPICS.values() for each in declines)
