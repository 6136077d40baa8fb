"""torch: modules, optimizers, autograd, data loaders."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, Switch, rows
from instrumentor.locate.meaning.roles import Effect, Kind, Role

_STATISTICS = "track_running_stats"

LIBRARY = Library(
    packages=("torch",),
    roles=(
        (Role.WAIT, rows("torch.", "synchronize *.synchronize")),
        (Role.NO_GRAD, rows("torch.", "*no_grad *inference_mode")),
        (Role.FORWARD, rows("torch.", "func.functional_call nn.utils.stateless.functional_call")),
        (Role.FORWARD, rows("torch.nn.parallel.", "*data_parallel *parallel_apply")),
        (Role.ACTIVATION_CHECKPOINT, ("torch.utils.checkpoint.*",)),
        (Role.SAVE, rows("torch.", "save distributed.checkpoint.save*")),
        (
            Role.DISTRIBUTED,
            rows("torch.distributed.", "init_process_group fsdp.* _composable.fsdp.*"),
        ),
        (Role.DISTRIBUTED, ("torch.nn.parallel.*DistributedDataParallel",)),
        (Role.SPAWN, rows("torch.multiprocessing.", "spawn start_processes")),
        (Role.PROCESS, ("torch.multiprocessing.*Process",)),
        (Role.PROFILER, rows("torch.", "profiler.profile autograd.profiler.profile")),
        (Role.CLIP, ("torch.nn.utils.clip_grad_*",)),
    ),
    makes=(
        (Kind.SCHEDULER, rows("torch.optim.", "lr_scheduler.* swa_utils.SWALR")),
        (Kind.AVERAGE, ("torch.optim.swa_utils.*",)),
        (Kind.OPTIMIZER, ("torch.optim.*",)),
        (Kind.SCALER, rows("torch.", "amp.*GradScaler cuda.amp.*GradScaler")),
        (Kind.LOGGER, ("torch.utils.tensorboard.*",)),
        (Kind.DATA, ("torch.utils.data.*",)),
        (Kind.LOSS, ("torch.nn.*Loss*",)),
        (Kind.DATA, rows("torch.nn.", "Parameter* parameter.* functional.* utils.* init.*")),
        (Kind.DATA, rows("torch.nn.parallel.", "*data_parallel *_apply *scatter* *gather")),
        (Kind.MODEL, rows("torch.", "nn.* hub.load")),
    ),
    bases=(
        (Kind.LOSS, ("torch.nn.*Loss",)),
        (Kind.MODEL, ("torch.nn.*",)),
        (Kind.SCHEDULER, ("torch.optim.lr_scheduler.*",)),
        (Kind.OPTIMIZER, ("torch.optim.*",)),
        (Kind.DATA, ("torch.utils.data.*",)),
    ),
    without_parameters=(
        *rows(
            "torch.nn.", "Identity Flatten Unflatten Fold Unfold *Shuffle Upsample* *Pool* *Pad*"
        ),
        *rows("torch.nn.", "*Dropout* ReLU* LeakyReLU RReLU *ELU SiLU Mish Threshold Hard* Soft*"),
        *rows("torch.nn.", "*Sigmoid LogSoftmax Tanh* CosineSimilarity PairwiseDistance"),
    ),
    containers=rows("torch.nn.", "Sequential ModuleList"),
    effects=(
        (Effect.NOTHING, rows("torch.", "distributed.get_* distributed.is_* random.fork_rng")),
        (Effect.NOTHING, rows("torch.", "autograd.Variable autograd.grad distributed.barrier")),
        (
            Effect.FIRST,
            rows("torch.distributed.", "all_gather* all_reduce reduce gather broadcast"),
        ),
        (
            Effect.PROCESS,
            (
                *rows("torch.", "distributed.* set_* use_* seed manual_seed cuda.set_*"),
                *rows("torch.", "autograd.* cuda.manual_seed* random.* multiprocessing.*"),
                "torch.utils.checkpoint.*",
            ),
        ),
        (Effect.LOADS, rows("torch.", "load jit.load")),
        (Effect.FIRST, rows("torch.", "*.shuffle *_")),
        (Effect.GIVEN, rows("torch.", "optim.* ao.* quantization.* nn.utils.*")),
        (Effect.NOTHING, ("torch.*",)),
    ),
    draws=(
        *rows("torch.", "rand* normal bernoulli multinomial poisson"),
        *rows("torch.nn.functional.", "dropout* gumbel_softmax fractional_max_pool*"),
    ),
    draws_if_made=(
        *rows("torch.nn.", "Linear Bilinear Conv* Embedding* RNN* LSTM* GRU*"),
        *rows("torch.nn.", "MultiheadAttention Transformer*"),
        *rows("torch.nn.init.", "*uniform* *normal* orthogonal* sparse*"),
    ),
    draws_in_training=rows(
        "torch.", "nn.*Dropout* nn.*RReLU nn.Transformer* nn.functional.*dropout* *rrelu *dropout*"
    ),
    draws_if_told=rows("torch.", "nn.*RNN nn.*LSTM nn.*GRU nn.*MultiheadAttention"),
    tracks_in_training=(
        (Switch(_STATISTICS, at=3), ("torch.nn.*LazyBatchNorm*",)),
        (Switch(_STATISTICS, at=3, is_on=False), ("torch.nn.*LazyInstanceNorm*",)),
        (Switch(_STATISTICS, at=4), ("torch.nn.*BatchNorm*",)),
        (Switch(_STATISTICS, at=4, is_on=False), ("torch.nn.*InstanceNorm*",)),
        (Switch(), rows("torch.nn.utils.", "spectral_norm *.spectral_norm")),
    ),
    made_when_called=rows("torch.nn.", "Lazy* modules.*Lazy* parameter.Uninitialized*"),
    numbers=("torch.device",),
    compilers=rows("torch.", "compile jit.* cuda.make_graphed_callables"),
)
