"""What the calls of the field mean: the one list, by qualified name and by method of a type.

A new sync, optimizer or logger is one row here. Names are those that
:mod:`instrumentor.read.names` resolves to, whatever the script calls them. How a name is
*spelled* stands at the end, is marked as such, and is asked last.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import Enum
from functools import lru_cache
from typing import TypeAlias, TypeVar


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
    """How sure it is what something means: by its type, by what is done with it, by its name."""

    TYPE = "type"
    USE = "use"
    SPELLING = "spelling"  # last resort: never enough to take a statement out
    UNREAD = "unread call"  # cannot be read, and may do anything
    PREPARATION = (
        "spelling, which speaks against it"  # cannot be read, and its name speaks against it
    )


# -- tables of names -----------------------------------------------------------------------------

#: Meanings with the names that have them, `*` for any text: the first row that fits counts.
_Meaning = TypeVar("_Meaning")
Table: TypeAlias = tuple[tuple[_Meaning, tuple[str, ...]], ...]


def _rows(prefix: str, words: str) -> tuple[str, ...]:
    return tuple(prefix + word for word in words.split())


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _fits(name: str, row: str) -> bool:
    """As `fnmatchcase`, which would compile a pattern for each of some hundred rows."""
    if "*" not in row:
        return name == row
    head, *inner, tail = row.split("*")
    at, end = len(head), len(name) - len(tail)
    if at > end or not (name.startswith(head) and name.endswith(tail)):
        return False
    for part in inner:
        at = name.find(part, at, end) + len(part)
        if at < len(part):
            return False
    return True


def _matches(name: str, rows: Iterable[str]) -> bool:
    return any(_fits(name, row) for row in rows)


def _meaning(table: Table[_Meaning], name: str) -> _Meaning | None:
    return next((meaning for meaning, rows in table if _matches(name, rows)), None)


# -- functions and types -------------------------------------------------------------------------

#: What a function does, by its qualified name.
FUNCTIONS: Table[Role] = (
    (Role.SYNC, _rows("torch_xla.", "sync mark_step core.xla_model.mark_step")),
    (Role.WAIT, ("torch_xla.core.xla_model.wait_device_ops", "tt_crank.*synchronize")),
    (Role.WAIT, _rows("torch.", "synchronize *.synchronize")),
    (Role.STEP, ("torch_xla.core.xla_model.optimizer_step",)),
    (Role.NO_GRAD, ("*no_grad", "*inference_mode")),
    (Role.FORWARD, _rows("torch.", "func.functional_call nn.utils.stateless.functional_call")),
    (Role.ACTIVATION_CHECKPOINT, _rows("torch", ".utils.checkpoint.* _xla.utils.checkpoint.*")),
    (Role.ACTIVATION_CHECKPOINT, ("torch_xla.distributed.fsdp.checkpoint_module",)),
    (Role.ACTIVATION_CHECKPOINT, ("deepspeed.checkpointing.checkpoint",)),
    (Role.SAVE, _rows("torch", ".save .distributed.checkpoint.save* _xla.core.xla_model.save")),
    (Role.SAVE, ("torch_xla.utils.serialization.save", "safetensors.torch.save*")),
    (Role.LOG, _rows("", "builtins.print wandb.* mlflow.* logging.* tqdm.*write")),
    (Role.DISTRIBUTED, _rows("torch.distributed.", "init_process_group fsdp.* _composable.fsdp.*")),
    (Role.DISTRIBUTED, ("torch.nn.parallel.*DistributedDataParallel",)),
    (Role.DISTRIBUTED, ("deepspeed.init_distributed",)),
    (Role.SPAWN, _rows("torch.multiprocessing.", "spawn start_processes")),
    (Role.SPAWN, _rows("torch_xla.", "distributed.xla_multiprocessing.spawn launch")),
    (Role.THREAD, _rows("", "threading.Thread threading.Timer *.QThread")),
    (Role.PROCESS, _rows("", "multiprocessing.*Process torch.multiprocessing.*Process")),
    (Role.COMPILE, _rows("torch_xla.", "compile experimental.compile core.xla_model.compile")),
    (Role.STEP_CONTEXT, ("torch_xla.step",)),
    (Role.CACHE_CLEAR, ("*clear_computation_cache",)),
    (Role.CLOCK, _rows("time.", "time perf_counter* monotonic*")),
    (Role.DEBUGGER, _rows("", "builtins.breakpoint pdb.set_trace ipdb.set_trace")),
    (Role.PROFILER, _rows("torch.", "profiler.profile autograd.profiler.profile")),
    (Role.PROFILER, _rows("torch_xla.debug.profiler.", "start_* Trace")),
    (Role.PROFILER, ("cProfile.Profile",)),
    (Role.FETCH, ("builtins.next",)),
    (Role.CLIP, ("torch.nn.utils.clip_grad_*",)),
)

#: What makes a graph of a function.
COMPILERS = _rows("torch", ".compile .jit.* _xla.*compile .cuda.make_graphed_callables")

#: What calling a qualified name makes.
CONSTRUCTORS: Table[Kind] = (
    (Kind.SCHEDULER, _rows("torch.optim.", "lr_scheduler.* swa_utils.SWALR")),
    (Kind.SCHEDULER, _rows("transformers.", "get_*schedule* optimization.get_*schedule*")),
    (Kind.SCHEDULER, _rows("", "diffusers.optimization.get_*schedule* timm.scheduler.*")),
    (Kind.AVERAGE, _rows("", "torch.optim.swa_utils.* torch_ema.* ema_pytorch.*")),
    (Kind.AVERAGE, _rows("", "diffusers.training_utils.EMAModel* timm.utils.ModelEma*")),
    (Kind.OPTIMIZER, _rows("", "torch.optim.* timm.optim.* bitsandbytes.optim.*")),
    (Kind.OPTIMIZER, _rows("", "apex.optimizers.* torch_xla.amp.syncfree.* torch_optimizer.*")),
    (Kind.OPTIMIZER, _rows("transformers.", "Adafactor AdamW")),
    (Kind.SCALER, _rows("torch", ".amp.*GradScaler .cuda.amp.*GradScaler _xla.amp.GradScaler")),
    (Kind.ACCELERATOR, _rows("", "accelerate.*Accelerator *Fabric")),
    (Kind.DATA, _rows("", "torch.utils.data.* torchvision.datasets.* torchvision.transforms.*")),
    (Kind.DATA, _rows("", "datasets.* *Tokenizer* *Processor* *FeatureExtractor*")),
    (Kind.DATA, _rows("", "*DataCollator* *.DataLoader numpy.*")),
    (Kind.LOSS, ("torch.nn.*Loss*",)),
    (Kind.DATA, _rows("torch.nn.", "Parameter* parameter.* functional.* utils.* init.*")),
    (Kind.MODEL, _rows("", "torch.nn.* torchvision.models.* torch.hub.load")),
    (Kind.LOSS, ("torchvision.ops.*",)),
    (Kind.MODEL, _rows("", "timm.create_model timm.models.create_model")),
    (Kind.MODEL, ("segmentation_models_pytorch.*",)),
    (Kind.DATA, ("*Config.from_pretrained",)),
    (Kind.MODEL, ("transformers.*.from_*",)),
    (Kind.DATA, ("diffusers.*Scheduler*",)),
    (Kind.MODEL, ("diffusers.*.from_*",)),
    (Kind.DATA, ("transformers.*Config",)),
    (Kind.MODEL, _rows("", "transformers.*Model* transformers.*For* diffusers.*Model")),
    (Kind.MODEL, ("peft.*from_pretrained",)),
    (Kind.LOGGER, _rows("", "*.SummaryWriter torch.utils.tensorboard.* tensorboardX.*")),
    (Kind.LOGGER, _rows("", "logging.getLogger accelerate.logging.* loguru.* rich.progress.*")),
    (Kind.LOGGER, _rows("", "rich.console.* tqdm.* wandb.init")),
)

#: What a class of the program is that derives from a qualified name.
BASES: Table[Kind] = (
    (Kind.LOSS, ("torch.nn.*Loss",)),
    (Kind.MODEL, ("torch.nn.*",)),
    (Kind.SCHEDULER, ("torch.optim.lr_scheduler.*",)),
    (Kind.OPTIMIZER, ("torch.optim.*",)),
    (Kind.DATA, ("torch.utils.data.*",)),
    (Kind.MODEL, ("*Module", "*PreTrainedModel")),
)

#: `deepspeed.initialize(...)` returns several.
PARTS: dict[str, tuple[Kind, ...]] = {
    "deepspeed.initialize": (Kind.ENGINE, Kind.OPTIMIZER, Kind.DATA, Kind.SCHEDULER),
}

#: What is done with an object ("()": it is called) tells its kind; the first row that fits counts.
USES: tuple[tuple[Kind, tuple[frozenset[str], ...]], ...] = (
    (Kind.OPTIMIZER, (_words("param_groups"),)),
    (Kind.SCALER, (_words("scale unscale_"), _words("scale step"))),
    (Kind.ACCELERATOR, (_words("prepare backward"), _words("accumulate backward"))),
    (Kind.ENGINE, (_words("() backward step"),)),
    (Kind.SCHEDULER, (_words("get_last_lr"),)),
    (Kind.MODEL, (_words("parameters"), _words("named_parameters"))),
    (Kind.MODEL, (_words("gradient_checkpointing_enable"), _words("() train"))),
    (Kind.MODEL, (_words("() eval"), _words("() modules"), _words("() zero_grad"))),
    (Kind.OPTIMIZER, (_words("step zero_grad"),)),
)
USED = frozenset[str]().union(*(words for _, each in USES for words in each)) - {"()"}

#: Attributes of torch.nn.Module, and of models on it, that run no forward.
NOT_FORWARD = _words(
    "train eval parameters named_parameters buffers named_buffers to cuda cpu half float double "
    "bfloat16 type state_dict modules load_state_dict named_modules children named_children "
    "requires_grad_ share_memory apply register_buffer register_parameter register_module "
    "register_forward_hook register_forward_pre_hook register_full_backward_hook add_module "
    "get_submodule get_parameter extra_repr zero_grad compile save_pretrained push_to_hub generate "
    "num_parameters resize_token_embeddings gradient_checkpointing_enable "
    "gradient_checkpointing_disable no_sync step backward save_checkpoint load_checkpoint "
    "print_trainable_parameters item clip_grad_norm_ reset_parameters init_weights "
    "get_input_embeddings set_train_batch_size gradient_accumulation_steps estimate_mfu size reset "
    "is_gradient_accumulation_boundary enable_input_require_grads unwrap update append extend push "
    "store clear init_hidden numel detach set_requires_gradient_sync unshard reshard "
    "configure_optimizers"
)


@lru_cache(maxsize=4096)
def role_of(name: str) -> Role | None:
    """What a function of an installed package does, by its qualified name."""
    return _meaning(FUNCTIONS, name)


@lru_cache(maxsize=4096)
def compiles(name: str) -> bool:
    """Whether what a function is given runs as a graph: its statements while it is traced only."""
    return _matches(name, COMPILERS)


@lru_cache(maxsize=4096)
def made_by(name: str) -> Kind | None:
    """What calling a qualified name makes."""
    return _meaning(CONSTRUCTORS, name)


def derived_from(names: Collection[str]) -> Kind | None:
    """What a class is that derives from installed classes of these names."""
    return next((kind for kind, rows in BASES if any(_matches(n, rows) for n in names)), None)


def used_as(words: Collection[str]) -> Kind | None:
    """What an object is with which these things are done."""
    return next((kind for kind, rows in USES if any(row.issubset(words) for row in rows)), None)


# -- how things are spelled: evidence of last resort ----------------------------------------------


class Spelling(str):
    """A pattern of words, in any case; `re` compiles it when it is first asked, and keeps it."""

    def fits(self, word: str) -> bool:
        return re.search(self, word, re.I) is not None


_SPELLED: tuple[tuple[Kind, Spelling], ...] = (
    (Kind.SCHEDULER, Spelling(r"sched|(^|_)lr(_|$)|warm")),
    (Kind.DATA, Spelling(r"tokeni[sz]er|loader|dataset|(^|_)batch")),
    (Kind.AVERAGE, Spelling(r"(^|_)(ema|swa)(_|$)")),
    (Kind.LOGGER, Spelling(r"log|wandb|writer|tracker|pbar|(^|_)bar$|prof|timer")),
    (Kind.SCALER, Spelling(r"scaler")),
    (Kind.OPTIMIZER, Spelling(r"optim|(^|_)opts?(_|$|\d)|adam|sgd")),
    (Kind.ACCELERATOR, Spelling(r"accelerator|(^|_)fabric")),
    (Kind.ENGINE, Spelling(r"engine|deepspeed")),
    (Kind.LOSS, Spelling(r"loss|criterion|objective")),
    (
        Kind.MODEL,
        Spelling(
            r"(^|_)(model|net|network|module|encoder|decoder|policy|actor|critic|agent|generator|"
            r"discriminator|transformer|backbone|unet|classifier|learner)s?(_|\d*$)"
        ),
    ),
)


#: Words of functions that are not to be read: an optimizer step, a forward, what prepares data.
SPELLED_STEP = Spelling(
    r"(^|_)(optim(izer)?s?_step|step_optim(izer)?s?|optimizer_update|apply_grad(ient)?s|"
    r"(run|apply|do|call|take)_(the_)?optim(izer)?s?(_step)?)$"
)
#: What is named after a step and steps no optimizer.
SPELLED_BESIDE_STEP = Spelling(
    r"sched|save|checkpoint|ckpt|log|print|dump|load|state|resume|train|^(step|zero_grad)$"
)
#: Of several names that are counted up the one that counts steps, and those that do not.
SPELLED_COUNT = Spelling(r"step|iter|(^|[_.])(it|itr|update|updates)(_|$)")
SPELLED_OTHER_COUNT = Spelling(r"accum|micro|sample|token|correct|epoch|patience|since")
SPELLED_SAVE = Spelling(
    r"^_?(maybe_)?save(_[a-z_]*)?(checkpoint|ckpt|model|state|weights|pretrained|snapshot|adapter)"
    r"s?(_[a-z_]*)?$|^save_ckpt$|^checkpoint$"
)
SPELLED_FETCH = Spelling(r"^(get|next)_batch$")
SPELLED_SYNC = Spelling(r"^(mark_step|sync|sync_device|synchronize|wait_device_ops)$")
SPELLED_FORWARD = Spelling(
    r"forward|training_step|(compute|calc|calculate|get)_[a-z_]*loss|_loss_from|run_model|"
    r"model_fn|(get|compute)_logits|logps"
)
SPELLED_PREPARATION = Spelling(
    r"accumulate|adjust|append|augment|batch|buffer|clear|clip|collate|configure|copy|count|data|"
    r"env|eval|freeze|generate|get|init|isinstance|label|load|log|lr|mask|memory|next|noise|on_|"
    r"prepare|print|random|register|repackage|replay|reset|sample|save|schedul|seed|set_|setup|"
    r"shard|shuffle|step|sync|target|time|token|train|transform|unwrap|update|watch|zero_grad"
)
SPELLED_VALIDATION = Spelling(
    r"^_*((validate|evaluate|eval|evaluation|validation|test)(_[a-z0-9_]+)?|"
    r"(run|do|perform|maybe|compute|calc|calculate|estimate|get)_(initial_)?"
    r"(val|valid|validation|validate|eval|evaluate|evaluation|test)(_[a-z0-9_]*)?|"
    r"[a-z0-9_]*_(validate|evaluate|evaluation|validation|eval)|"
    r"estimate_loss|log_validation(_[a-z0-9]+)?)$"
)
#: What is named after a validation and runs none.
SPELLED_BESIDE_VALIDATION = Spelling(
    r"load|dataset|data$|corpus|input|param|shape|schema|same_|_set$|device|type|version|token|"
    r"prompt|consisten|check|config|_dl$|_ds$|split|transform|sampler|make_|build|create|"
    r"^get_(eval|val|valid|validation|test)(_[a-z]*)?_?(set|env|envs|data|batch|loader|iter|file)|"
    r"^get_loss|freq|steps?$|interval|args|prepare|mode$|path|name|should"
)
SPELLED_LOG = Spelling(
    r"log|wandb|writer|print|tensorboard|tracker|metric|mlflow|tqdm|pbar|bar$|progress"
)


@lru_cache(maxsize=4096)
def spelled_as(word: str) -> Kind | None:
    """What an object is called: only for one of which nothing else is known."""
    return next((kind for kind, pattern in _SPELLED if pattern.fits(word)), None)


# -- what is differentiable ----------------------------------------------------------------------

#: Attributes of a tensor that carry no gradient.
NOT_DIFFERENTIABLE_ATTRIBUTES = _words(
    "data shape dtype device ndim grad requires_grad is_cuda grad_fn layout is_leaf"
)
#: Functions whose result is no tensor but holds one as its `data`.
PACKS = _rows("torch.nn.utils.rnn.", "pack_padded_sequence pack_sequence PackedSequence")
#: Functions and methods whose result carries no gradient, whatever they are given.
NOT_DIFFERENTIABLE = _words(
    "argmax argmin argsort item tolist numpy size dim numel detach detach_ long int bool eq ne lt "
    "gt le ge nonzero isnan isinf isfinite multinomial bernoulli sample sample_n generate "
    "new_zeros new_ones new_full new_empty new_tensor searchsorted equal zeros_like ones_like "
    "rand_like randn_like full_like empty_like one_hot randint_like element_size data_ptr "
    "logical_and logical_or logical_not bucketize batch_decode get_last_lr state_dict"
)
#: Those whose result is still computed from the values of what they are given.
DETACHES = _words(
    "argmax argmin argsort detach detach_ long int bool eq ne lt gt le ge nonzero multinomial "
    "bernoulli sample searchsorted one_hot logical_and logical_or logical_not bucketize"
)
#: Functions of torch that make tensors of data.
MAKES_DATA = _words(
    "tensor as_tensor from_numpy zeros ones empty full eye arange linspace logspace rand randn "
    "randint randperm normal Tensor FloatTensor LongTensor IntTensor BoolTensor ByteTensor "
    "HalfTensor manual_seed load device Generator is_tensor is_grad_enabled"
)
#: Those that copy what NumPy or the host holds.
COPIES_FROM_HOST = _rows("torch.", "from_numpy as_tensor tensor FloatTensor LongTensor Tensor")
#: Methods that add an element to a container.
FILLS = _words("append extend insert add appendleft setdefault push put update")
#: Those that put it there as it is, whatever the container.
PUTS = _words("append extend insert add appendleft extendleft setdefault")
#: Packages of which nothing is differentiable for torch.
HOST_LIBRARIES = _words(
    "builtins numpy math random time os sys copy json pathlib logging collections itertools "
    "functools datetime gym gymnasium wandb tqdm matplotlib pandas sklearn scipy PIL cv2 "
    "torchvision"
)
#: Of those the functions that hand on what they are given.
PASSING_BUILTINS = _words(
    "builtins.sum builtins.max builtins.min builtins.zip builtins.list builtins.tuple "
    "builtins.dict builtins.set builtins.enumerate builtins.map builtins.reversed builtins.sorted "
    "builtins.iter builtins.next builtins.abs builtins.filter builtins.pow builtins.getattr "
    "builtins.vars builtins.any copy.copy itertools.chain functools.reduce functools.partial "
    "collections.OrderedDict collections.defaultdict itertools.islice"
)

# -- what waits for the device -------------------------------------------------------------------

#: Methods of a tensor that hand its values to the host.
HANDS_TO_HOST = _words("item tolist numpy cpu")
#: Functions that ask the tensor they are given for its value.
ASKS_VALUE = _words("print float int bool")
#: Functions and methods by which a test asks for values.
TESTS_VALUES = _words("isnan isinf isfinite any all")
#: Attributes, methods and functions that describe a tensor, without its values.
DESCRIBES_TENSOR = _words(
    "shape size dtype device dim numel ndim requires_grad len isinstance type hasattr id"
)

# -- what calls give back ------------------------------------------------------------------------

#: Calls whose result stands for their first argument.
RETURNS_ARGUMENT = _words(
    "builtins.list builtins.tuple builtins.set builtins.iter builtins.reversed builtins.sorted "
    "copy.copy copy.deepcopy functools.partial functools.wraps itertools.chain itertools.cycle "
    "itertools.islice tqdm.tqdm tqdm.auto.tqdm torch.compile torch.jit.script torch.jit.trace "
    "torch_xla.compile torch_xla.experimental.compile torch.nn.DataParallel "
    "torch.nn.parallel.DataParallel torch.nn.parallel.DistributedDataParallel "
    "torch.distributed.fsdp.FullyShardedDataParallel torch.distributed.fsdp.fully_shard "
    "torch_xla.distributed.parallel_loader.MpDeviceLoader peft.get_peft_model "
    "torch.quantization.prepare_qat"
)
#: Methods that return the object itself, or the same thing somewhere else.
RETURNS_SELF = _words(
    "to cuda cpu half float double bfloat16 type xpu npu train eval requires_grad_ share_memory "
    "to_empty compile detach __enter__ module"
)
#: Methods that return their arguments, wrapped: one, or as many as they were given.
GIVES_BACK = _words("prepare prepare_model prepare_optimizer setup setup_module")
#: Methods whose value may be one of their arguments.
GIVES_ARGUMENTS = GIVES_BACK | {"get", "pop", "setdefault"}
#: Methods that many kinds of objects have: their name alone says nothing of the type.
COMMON_METHODS = frozenset((*dir(dict), *dir(list), *dir(str), *dir(set))) | _words(
    "to cuda cpu item detach view reshape size mean sum read write close open state_dict "
    "load_state_dict parameters zero_grad info debug warning error exception log print "
    "set_postfix set_description backward step train eval forward fit run"
)


# -- what calls change ---------------------------------------------------------------------------


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


#: What calling a qualified name changes. What matches none may change what it is given.
EFFECTS: Table[Effect] = (
    (Effect.NOTHING, _rows("torch.", "distributed.get_* distributed.is_* random.fork_rng")),
    (Effect.NOTHING, _rows("torch.", "autograd.Variable distributed.barrier")),
    (Effect.NOTHING, ("timm.utils.accuracy",)),
    (Effect.FIRST, _rows("torch.distributed.", "all_gather* all_reduce reduce gather broadcast")),
    (
        Effect.PROCESS,
        (
            *_rows("torch.", "distributed.* set_* use_* seed manual_seed cuda.set_* autograd.*"),
            *_rows("torch.", "cuda.manual_seed* random.* multiprocessing.* utils.checkpoint.*"),
            *_rows("os.", "_exit abort chdir environ* exec* fork* kill* putenv spawn* system"),
            *_rows("sys.", "exit path* set*"),
            *_rows("", "random.se* numpy.random.se* wandb.init subprocess.* threading.*"),
            *_rows("", "multiprocessing.* concurrent.* asyncio.* signal.* atexit.*"),
            *_rows("torch_xla.core.xla_model.", "all_* rendezvous* optimizer_step"),
        ),
    ),
    (
        Effect.SAVES,
        (
            *_rows("", "pickle.dump json.dump yaml.*dump* numpy.save* torchvision.utils.save_*"),
            *_rows("os.", "makedirs mkdir remove unlink rename replace symlink rmdir"),
            *_rows("", "shutil.* matplotlib.pyplot.savefig"),
        ),
    ),
    (
        Effect.LOADS,
        (
            *_rows("torch", ".load .jit.load _xla.utils.serialization.load"),
            *_rows("", "safetensors.torch.load* numpy.load* pickle.load json.load yaml.*load*"),
            *_rows("", "pandas.read_* accelerate.load_* *.from_pretrained"),
        ),
    ),
    (Effect.FIRST, _rows("", "builtins.next *.shuffle operator.*item operator.i* torch.*_")),
    (Effect.FIRST, _rows("numpy.", "copyto *.at fill_diagonal place put*")),
    (Effect.GIVEN, _rows("torch.", "optim.* ao.* quantization.* nn.utils.*")),
    (
        Effect.NOTHING,
        (
            *_rows(
                "builtins.",
                "abs all any ascii bin bool bytes callable chr complex dict dir divmod enumerate "
                "filter float format frozenset getattr hasattr hash hex id int isinstance "
                "issubclass iter len list map max min object oct ord pow print range repr reversed "
                "round set slice sorted str sum super tuple type vars zip *Error *Exception",
            ),
            *_rows(
                "",
                "torch.* torch_xla.* torchvision.* torchmetrics.* numpy.* math.* statistics.* "
                "cmath.* time.* datetime.* itertools.* functools.* operator.* copy.* json.* os.* "
                "pathlib.* re.* string.* textwrap.* random.* warnings.* gc.* psutil.* logging.* "
                "traceback.* sys.* typing.* dataclasses.* contextlib.* collections.* tqdm.* "
                "wandb.* mlflow.* matplotlib.* sklearn.* scipy.* einops.* PIL.* rich.* loguru.* "
                "evaluate.* tabulate.* termcolor.* nltk.* sacrebleu.* rouge_score.* pickle.* "
                "yaml.* pandas.* struct.*",
            ),
        ),
    ),
    (Effect.PROCESS, ("builtins.*",)),
)
#: Methods of a library's module that leave it another one; all others do not.
MODULE_CHANGES = _rows(
    "",
    "*_ add_* apply bfloat16 compile cpu cuda delete_* disable_* double enable_* float freeze* "
    "fuse_* gradient_checkpointing_* half init_* load_* merge_* prune_* quantize* register_* "
    "reset_* resize_* set_* share_memory tie_* to train_* type unfreeze* unfuse_* unmerge_* "
    "update* xpu zero_grad",
)
#: Methods that save weights or optimizer state, of modules and of accelerators.
MODULE_SAVES = _words("save_pretrained save_adapter push_to_hub save_lora_weights")
ACCELERATOR_SAVES = _words("save save_state save_model")
#: Methods of whatever object; what is in none of these sets may change its object.
METHODS_THAT_SAVE = _words(
    "write writelines write_text write_bytes unlink rmdir mkdir touch savefig to_csv"
)
METHODS_THAT_LOAD = _words(
    "read readline readlines read_text read_bytes load_state load_checkpoint from_pretrained"
)
_GIVE_NUMBERS = _words(
    "item size dim ndimension numel nelement get_device is_contiguous is_floating_point count "
    "format join startswith endswith lower upper strip lstrip rstrip title exists is_file is_dir "
    "as_posix strftime isoformat total_seconds elapsed_time"
)
_GIVE_NEW = _words(
    "tensor clone zeros ones full empty zeros_like ones_like full_like empty_like eye arange "
    "linspace rand randn randint randperm rand_like randn_like stack cat concat tolist mean sum "
    "std var max min argmax argmin argsort sort topk softmax log_softmax sigmoid tanh norm abs exp "
    "log sqrt pow eq ne lt gt ge le any all where gather cumsum isnan isinf isfinite matmul "
    "einsum no_grad inference_mode get_lr get_last_lr encode decode batch_decode shape"
)
#: Methods that change nothing, and give back their object, a view or a part of it.
_GIVE_PARTS = _words(
    "numpy long int bool view view_as expand_as type_as reshape_as t narrow select chunk unbind "
    "reshape permute transpose contiguous squeeze unsqueeze expand "
    "flatten split items keys values get copy index replace state_dict parameters "
    "named_parameters buffers named_buffers modules named_modules children named_children resolve "
    "with_suffix relative_to set_postfix set_postfix_str set_description refresh"
)
READING_METHODS = (
    _GIVE_NUMBERS
    | _GIVE_NEW
    | _GIVE_PARTS
    | (RETURNS_SELF - {"train", "eval", "requires_grad_", "share_memory", "compile"})
)
#: What may be walked over only once: whoever does so changes it for all others.
ITERATORS = (*_rows("builtins.", "iter map filter zip enumerate reversed open"), "itertools.*")
#: What a loop walks over that only counts.
_COUNTS = ("builtins.range", "itertools.count", "*trange")
_DRAWS = (
    *_rows("torch.", "rand* normal bernoulli multinomial poisson nn.functional.dropout*"),
    *_rows("", "random.* numpy.random.*"),
)
_NUMBERS = (
    *_rows("builtins.", "len int float str bool round range repr hash ord chr id isinstance"),
    *_rows("", "time.* math.* os.path.* torch.device builtins.hasattr builtins.format"),
)


@lru_cache(maxsize=4096)
def effect_of(name: str) -> Effect:
    """What calling a function of an installed package changes."""
    return _meaning(EFFECTS, name) or Effect.GIVEN


def draws(name: str) -> bool:
    """Whether a function takes random numbers from a generator of the process."""
    return _matches(name, _DRAWS)


def counts(name: str) -> bool:
    """Whether what a function makes are numbers in order, and no data."""
    return _matches(name, _COUNTS)


def changes_module(method: str) -> bool:
    return _matches(method, MODULE_CHANGES)


@lru_cache(maxsize=4096)
def gives(name: str) -> Gives:
    """What a function gives back, by its qualified name."""
    package, _, word = name.rpartition(".")
    if _matches(name, _NUMBERS):
        return Gives.NUMBER
    computed = word in _GIVE_NEW and package in ("torch", "numpy")
    if computed or package == "torch.nn.functional" or name == "builtins.sum":
        return Gives.NEW
    return Gives.PART


def method_gives(word: str) -> Gives:
    """What a method of an object of unknown type gives back."""
    if word in _GIVE_NUMBERS:
        return Gives.NUMBER
    if word in _GIVE_NEW:
        return Gives.NEW
    return Gives.OBJECT if word in RETURNS_SELF else Gives.PART


def is_iterator(name: str) -> bool:
    """Whether what a function makes is used up by walking over it."""
    return _matches(name, ITERATORS)
