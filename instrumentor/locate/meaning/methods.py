"""What methods and functions do by their names alone, where nobody knows the type of an object."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from instrumentor.locate.meaning.libraries import effect_of, gives_number
from instrumentor.locate.meaning.libraries.library import fits, rows
from instrumentor.locate.meaning.roles import Effect, Gives, Kind
from instrumentor.read.handed_on import GIVES_BACK, RETURNS_SELF, words

# -- what an object is -------------------------------------------------------------------------

#: What is done with an object ("()": it is called) tells its kind; the first row that fits counts.
USES: tuple[tuple[Kind, tuple[frozenset[str], ...]], ...] = (
    (Kind.OPTIMIZER, (words("param_groups"),)),
    (Kind.SCALER, (words("scale unscale_"), words("scale step"))),
    (Kind.ACCELERATOR, (words("prepare backward"), words("accumulate backward"))),
    (Kind.ENGINE, (words("() backward step"),)),
    (Kind.SCHEDULER, (words("get_last_lr"),)),
    (Kind.MODEL, (words("parameters"), words("named_parameters"))),
    (Kind.MODEL, (words("gradient_checkpointing_enable"), words("() train"))),
    (Kind.MODEL, (words("() eval"), words("() modules"), words("() zero_grad"))),
    (Kind.OPTIMIZER, (words("step zero_grad"),)),
)
USED = frozenset[str]().union(*(row for _, each in USES for row in each)) - {"()"}

#: Attributes of torch.nn.Module, and of models on it, that run no forward.
NOT_FORWARD = words(
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


def used_as(done: Collection[str]) -> Kind | None:
    """What an object is with which these things are done."""
    return next((kind for kind, each in USES if any(row.issubset(done) for row in each)), None)


# -- what is differentiable ----------------------------------------------------------------------

#: Attributes of a tensor that carry no gradient.
NOT_DIFFERENTIABLE_ATTRIBUTES = words(
    "data shape dtype device ndim grad requires_grad is_cuda grad_fn layout is_leaf"
)
#: Functions whose result is no tensor but holds one as its `data`.
PACKS = rows("torch.nn.utils.rnn.", "pack_padded_sequence pack_sequence PackedSequence")
#: Functions and methods whose result carries no gradient, whatever they are given.
NOT_DIFFERENTIABLE = words(
    "argmax argmin argsort item tolist numpy size dim numel detach detach_ long int bool eq ne lt "
    "gt le ge nonzero isnan isinf isfinite multinomial bernoulli sample sample_n generate "
    "new_zeros new_ones new_full new_empty new_tensor searchsorted equal zeros_like ones_like "
    "rand_like randn_like full_like empty_like one_hot randint_like element_size data_ptr "
    "logical_and logical_or logical_not bucketize batch_decode get_last_lr state_dict"
)
#: Those whose result is still computed from the values of what they are given.
DETACHES = words(
    "argmax argmin argsort detach detach_ long int bool eq ne lt gt le ge nonzero multinomial "
    "bernoulli sample searchsorted one_hot logical_and logical_or logical_not bucketize"
)
#: Functions of torch that make tensors of data.
MAKES_DATA = words(
    "tensor as_tensor from_numpy zeros ones empty full eye arange linspace logspace rand randn "
    "randint randperm normal Tensor FloatTensor LongTensor IntTensor BoolTensor ByteTensor "
    "HalfTensor manual_seed load device Generator is_tensor is_grad_enabled"
)
#: Those that copy what NumPy or the host holds.
COPIES_FROM_HOST = rows("torch.", "from_numpy as_tensor tensor FloatTensor LongTensor Tensor")
#: Methods that add an element to a container.
FILLS = words("append extend insert add appendleft setdefault push put update")
#: Those that put what it holds there.
FILLS_WITH_ITS = words("extend update")
#: Those that put it there as it is, whatever the container.
PUTS = words("append extend insert add appendleft extendleft setdefault")
#: Methods of whatever object after which it may change what it was given.
KEEPS = words("register attach bind watch track prepare")
#: Methods of a file, or of a writer of rows, that only add to it.
WRITES_FILE = words("write writelines writerow writerows writeheader flush close")
#: Methods of an accelerator that show or log what they are given, or wait for other processes.
SHOWS = words("print log log_dict barrier wait_for_everyone")
#: Methods of a module that each give a new iterator over its parts.
WALKS_MODULE = words(
    "parameters named_parameters buffers named_buffers modules named_modules children "
    "named_children"
)
#: Those that take out or arrange what is there.
TAKES = words("clear discard pop popitem popleft remove reverse rotate sort")
#: Of those the functions that hand on what they are given.
PASSING_BUILTINS = words(
    "builtins.sum builtins.max builtins.min builtins.zip builtins.list builtins.tuple "
    "builtins.dict builtins.set builtins.enumerate builtins.map builtins.reversed builtins.sorted "
    "builtins.iter builtins.next builtins.abs builtins.filter builtins.pow builtins.getattr "
    "builtins.vars builtins.any"
)
#: Modules whose classes give objects that hold what they are given, under any attribute.
HOLDERS = words("types argparse collections easydict munch addict omegaconf")
#: Modules whose functions and classes hand on or hold what they are given.
HANDS_ON = words("copy itertools functools operator") | HOLDERS

# -- what waits for the device -------------------------------------------------------------------

#: Methods of a tensor that hand its values to the host.
HANDS_TO_HOST = words("item tolist numpy cpu")
#: Functions that ask the tensor they are given for its value.
ASKS_VALUE = words("print float int bool")
#: Functions and methods by which a test asks for values.
TESTS_VALUES = words("isnan isinf isfinite any all")
#: Attributes, methods and functions that describe a tensor, without its values.
DESCRIBES_TENSOR = words(
    "shape size dtype device dim numel ndim requires_grad len isinstance type hasattr id"
)

# -- what calls change and give back -------------------------------------------------------------

#: Methods whose value may be one of their arguments.
GIVES_ARGUMENTS = GIVES_BACK | {"get", "pop", "setdefault"}
#: Methods that change a list, or a part of a module, and that of a tensor only give another one.
IN_PLACE_UNLESS_A_TENSOR = words("sort half bfloat16 float double type to cpu cuda xpu")
#: Methods of a library's module that leave it another one; all others do not.
MODULE_CHANGES = rows(
    "",
    "*_ add_* apply bfloat16 compile cpu cuda delete_* disable_* double enable_* float freeze* "
    "fuse_* gradient_checkpointing_* half init_* load_* merge_* prune_* quantize* register_* "
    "reset_* resize_* set_* share_memory tie_* to train_* type unfreeze* unfuse_* unmerge_* "
    "update* xpu zero_grad",
)
#: Those by which a module lies on another device, with the same values.
MOVES = words("cpu cuda xpu")
#: Those by which computing a gradient runs a function.
HOOKS_OF_GRADIENTS = words(
    "register_hook register_backward_hook register_full_backward_hook "
    "register_full_backward_pre_hook register_post_accumulate_grad_hook register_prehook"
)
#: Methods that run a module again and again, and may draw what comes next.
GENERATES = words("generate")
#: Methods that save weights or optimizer state, of modules and of accelerators.
MODULE_SAVES = words("save save_weights save_pretrained save_adapter push_to_hub save_lora_weights")
ACCELERATOR_SAVES = words("save save_state save_model")
#: Methods of whatever object; what is in none of these sets may change its object.
METHODS_THAT_SAVE = words(
    "write writelines write_text write_bytes unlink rmdir mkdir touch savefig to_csv"
)
#: Of a path, which is as it was behind them, whatever lies there.
METHODS_OF_PATHS = words("write_text write_bytes unlink rmdir mkdir touch read_text read_bytes")
METHODS_THAT_LOAD = words(
    "read readline readlines read_text read_bytes load_state load_checkpoint from_pretrained"
)
_GIVE_NUMBERS = words(
    "item size dim ndimension numel nelement get_device is_contiguous is_floating_point count "
    "format join startswith endswith lower upper strip lstrip rstrip title exists is_file is_dir "
    "as_posix strftime isoformat total_seconds elapsed_time rfind isdigit isalpha isalnum "
    "isnumeric isspace zfill casefold capitalize number_to_words __len__"
)
_GIVE_NEW = words(
    "tensor clone zeros ones full empty zeros_like ones_like full_like empty_like eye arange "
    "linspace rand randn randint randperm rand_like randn_like stack cat concat tolist mean sum "
    "std var max min argmax argmin argsort sort topk softmax log_softmax sigmoid tanh norm abs exp "
    "log sqrt pow eq ne lt gt ge le any all where gather cumsum isnan isinf isfinite matmul "
    "einsum no_grad inference_mode get_lr get_last_lr encode decode batch_decode shape "
    "average median percentile quantile nanmean repeat_interleave scatter astype cumprod log10 "
    "new new_tensor new_zeros new_ones new_full new_empty "
    "log2 log1p ceil floor round clamp prod nonzero unique bincount "
    # of tensors, and of nothing else that changes by it
    "logsumexp logcumsumexp amax amin aminmax nansum nanmedian cummax cummin diff kthvalue "
    "expm1 rsqrt square reciprocal neg sin cos tan sinh cosh asin acos atan atan2 erf erfc erfinv "
    "lgamma digamma fmod remainder clip isclose isposinf isneginf signbit masked_fill "
    "masked_select index_select take_along_dim scatter_add index_add index_fill index_copy "
    "logical_and logical_or logical_not logical_xor maximum minimum addmm bmm baddbmm mv outer "
    "vdot tril triu diag_embed rot90 tile repeat unique_consecutive searchsorted bucketize "
    "logdet slogdet pinverse "
    # of texts, and of numbers that a data set has scaled
    "tokenize convert_tokens_to_ids convert_ids_to_tokens convert_tokens_to_string encode_plus "
    "batch_encode_plus inverse_transform"
)
#: Functions that make a container of their own, of the elements that they are given.
COPIES = rows("builtins.", "list tuple set frozenset sorted dict")
#: Classes of tuples, which are made by a call: an object of one keeps what it is given.
TUPLES = ("collections.namedtuple", "typing.NamedTuple")
#: Functions that read pictures, and the words of those that write some.
READS_PICTURES = rows("", "cv2.imread imageio.*read*")
WRITES_PICTURES = words("imwrite mimwrite volwrite imsave mimsave")
#: Methods that give a table of their own, of what their object holds.
MAKES_TABLE = words("copy state_dict")
#: Methods of tensors and distributions that take random numbers, whatever their object.
DRAWING = words(
    "bernoulli bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random_ "
    "uniform_ rsample sample sample_n"
)
#: Methods of tensors, and of nothing that runs a model, by which the same numbers lie otherwise.
REARRANGES = words(
    "view view_as expand expand_as reshape reshape_as permute transpose contiguous squeeze "
    "unsqueeze type_as narrow diagonal swapaxes moveaxis movedim"
)
#: Methods that change nothing, and give back their object, a view or a part of it.
_GIVE_PARTS = REARRANGES | words(
    "numpy long int bool t select chunk unbind flatten split items keys values get copy index "
    "replace state_dict parameters named_parameters buffers named_buffers modules named_modules "
    "children named_children resolve with_suffix relative_to set_postfix set_postfix_str "
    "set_description refresh find ravel unwrap_model "
    # of the context of a `torch.autograd.Function`
    "save_for_backward save_for_forward mark_non_differentiable set_materialize_grads"
)
READING_METHODS = (
    _GIVE_NUMBERS
    | _GIVE_NEW
    | _GIVE_PARTS
    | (RETURNS_SELF - {"train", "eval", "requires_grad_", "share_memory", "compile"})
)
_MAKE_NEW = (
    *("builtins.sum", "json.loads", "pickle.loads"),
    *rows("torch.", "Tensor FloatTensor DoubleTensor LongTensor IntTensor BoolTensor ByteTensor"),
    *rows("numpy.", "concatenate vstack hstack column_stack"),
)
#: Functions that give something else from one time to the next, whatever they are given.
ASKS_WHAT_CHANGES = (
    *rows("", "time.* datetime.* os.environ* os.getenv os.listdir glob.* os.path.exists"),
    *rows("builtins.", "open input globals locals vars id"),
)
#: What may be walked over only once: whoever does so changes it for all others.
ITERATORS = (
    *rows("builtins.", "iter map filter zip enumerate reversed open"),
    *rows("", "itertools.* csv.reader csv.DictReader"),
)
#: What a loop walks over that only counts.
_COUNTS = ("builtins.range", "itertools.count", "*trange")


def changes_module(method: str) -> bool:
    """Whether a method of a library's module leaves it another one."""
    return any(fits(method, row) for row in MODULE_CHANGES)


@lru_cache(maxsize=4096)
def gives(name: str) -> Gives:
    """What a function gives back, by its qualified name."""
    package, _, word = name.rpartition(".")
    if gives_number(name):
        return Gives.NUMBER
    computed = word in _GIVE_NEW and package in ("torch", "numpy")
    if computed or package == "torch.nn.functional" or name in _MAKE_NEW:
        return Gives.NEW
    if effect_of(name) is Effect.LOADS:
        return Gives.NEW
    return Gives.PART


def method_gives(word: str) -> Gives:
    """What a method of an object of unknown type gives back."""
    if word in _GIVE_NUMBERS:
        return Gives.NUMBER
    if word in _GIVE_NEW:
        return Gives.NEW
    return Gives.OBJECT if word in RETURNS_SELF else Gives.PART


def counts(name: str) -> bool:
    """Whether what a function makes are numbers in order, and no data."""
    return any(fits(name, row) for row in _COUNTS)


def is_iterator(name: str) -> bool:
    """Whether what a function makes is used up by walking over it."""
    return any(fits(name, row) for row in ITERATORS)
