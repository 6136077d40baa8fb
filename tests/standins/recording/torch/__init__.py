"""Stand-in for torch that computes single floats and records the order of what is done.

Everything that a script calls on a tensor gives a tensor again; reading a value records ``item``.
``DEVICE`` is the type of the device on which new tensors lie.
"""

import sys
import types

import events

DEVICE = ["xla"]
_grad = [True]


class device:
    def __init__(self, name="cpu", index=None):
        self.type = str(name).split(":")[0]

    def __eq__(self, other):
        return getattr(other, "type", other) == self.type

    def __hash__(self):
        return hash(self.type)

    def __str__(self):
        return self.type


def _value(other):
    return other.value if isinstance(other, Tensor) else other


class Tensor:
    """One float, the parameters that it was computed from, and whether the host has it."""

    grad_fn = node = None  # there is no autograd graph to walk

    def __init__(self, value=0.0, parameters=(), host=False):
        self.value = value
        self.parameters_of = frozenset(parameters) if _grad[0] else frozenset()
        self.host = host
        self.device = device("cpu" if host else DEVICE[0])
        self.requires_grad = bool(self.parameters_of)
        self.shape = (2, 2, 2)
        self.dtype = "float32"
        self.data = self
        self.grad = None

    def _with(self, value, *others):
        parameters = set(self.parameters_of)
        for other in others:
            if isinstance(other, Tensor):
                parameters |= other.parameters_of
        host = self.host and all(getattr(o, "host", True) for o in others)
        return Tensor(value, parameters, host)

    def _read(self):
        if not self.host:
            events.add("item")
        return self.value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *a, **k: self._with(self.value, *a)

    def __add__(self, other):
        return self._with(self.value + _value(other), other)

    def __mul__(self, other):
        return self._with(self.value * _value(other), other)

    def __sub__(self, other):
        return self._with(self.value - _value(other), other)

    def __rsub__(self, other):
        return self._with(_value(other) - self.value, other)

    def __truediv__(self, other):
        return self._with(self.value / (_value(other) or 1.0), other)

    def __pow__(self, other):
        return self._with(self.value * self.value, other)

    def __neg__(self):
        return self._with(-self.value)

    __radd__ = __add__
    __rmul__ = __mul__
    __matmul__ = __mul__
    __rtruediv__ = __mul__
    __and__ = __mul__

    def __getitem__(self, key):
        return self._with(self.value)

    def __setitem__(self, key, value):
        pass

    def __len__(self):
        return 2

    def __iter__(self):
        return iter([self, self])

    def __lt__(self, other):
        return self._with(self.value < _value(other), other)

    def __gt__(self, other):
        return self._with(self.value > _value(other), other)

    __le__ = __lt__
    __ge__ = __gt__

    def __bool__(self):
        return bool(self._read())

    def __float__(self):
        return float(self._read())

    def __int__(self):
        return int(self._read())

    def __format__(self, spec):
        return format(float(self._read()), spec or ".6f")

    def __str__(self):
        return f"tensor({self._read():.6f})"

    __repr__ = __str__

    def item(self):
        return self._read()

    def tolist(self):
        return [self._read()]

    def cpu(self):
        return Tensor(self._read(), (), host=True)

    numpy = cpu

    def to(self, *where, **keywords):
        if where and str(where[0]) == "cpu" and DEVICE[0] != "cpu":
            return self.cpu()
        return self

    def detach(self):
        return Tensor(self.value, (), self.host)

    def size(self, *dimension):
        return 2 if dimension else self.shape

    def dim(self):
        return 3

    def numel(self):
        return 8

    def backward(self, *args, **keywords):
        sys.modules["torch.autograd"]._engine_run_backward((self,), accumulate_grad=True)

    def differentiate(self):
        events.add("backward")
        for parameter in self.parameters_of:
            parameter.grad = (parameter.grad or 0.0) + self.value


class Parameter(Tensor):
    def __init__(self, value):
        super().__init__(value)
        self.parameters_of = frozenset([self])
        self.requires_grad = True

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other

    def add_(self, gradient, alpha=1.0):
        """An update by hand."""
        events.add("optimizer")
        self.value += alpha * (gradient or 0.0)


class _Mode:
    """no_grad and kin: a context manager and a decorator."""

    def __init__(self, grad):
        self.grad = grad
        self.before = []

    def __enter__(self):
        self.before.append(_grad[0])
        if self.grad is not None:
            _grad[0] = self.grad
        return self

    def __exit__(self, *error):
        _grad[0] = self.before.pop()

    def __call__(self, function):
        def called(*args, **keywords):
            with self:
                return function(*args, **keywords)

        return called


def no_grad():
    return _Mode(False)


inference_mode = no_grad


def enable_grad():
    return _Mode(True)


def autocast(*args, **keywords):
    return _Mode(None)


def _made(*args, **keywords):
    return Tensor(events.number())


def _same(first, *others, **keywords):
    if isinstance(first, (list, tuple)):
        first = sum(first[1:], first[0])
    return first._with(first.value, *others)


randn = rand = randint = randperm = zeros = ones = arange = tensor = as_tensor = _made
stack = cat = exp = log = mean = sum_ = clamp = where = softmax = minimum = sigmoid = _same
zeros_like = ones_like = randn_like = rand_like = _made


def isnan(value):
    return value._with(False)


def isfinite(value):
    return value._with(True)


isinf = isnan
float32 = bfloat16 = float16 = long = int64 = "dtype"


def manual_seed(seed):
    events.drawn.clear()


def save(*args, **keywords):
    events.add("checkpoint")


def is_tensor(value):
    return isinstance(value, Tensor)


def compile(model, **keywords):
    return model


class Module:
    """A model of one weight: y = weight * x."""

    def __init__(self, *args, **keywords):
        self.weight = Parameter(0.5)
        self.training = True
        self.config = types.SimpleNamespace(hidden_size=4)

    def __call__(self, *args, **keywords):
        tensors = [a for a in (*args, *keywords.values()) if isinstance(a, Tensor)]
        outermost = type(self) is not Module and type(self).forward is Module.forward
        if outermost or type(self) is Module:
            events.add("forward" if _grad[0] else "inference")
        return self.forward(*tensors or [Tensor(1.0)])

    def forward(self, first, *others):
        logits = first * self.weight
        return _Output(logits, logits._with(logits.value * logits.value))

    def parameters(self):
        found = [self.weight]
        for child in vars(self).values():
            if isinstance(child, Module):
                found += child.parameters()
        return found

    def named_parameters(self):
        return [("weight", p) for p in self.parameters()]

    def state_dict(self):
        return {}

    def train(self, mode=True):
        self.training = mode
        return self

    def eval(self):
        return self.train(False)

    def to(self, *where, **keywords):
        return self

    cuda = bfloat16 = to

    def requires_grad_(self, wanted=True):
        return self

    def zero_grad(self, **keywords):
        for parameter in self.parameters():
            parameter.grad = None

    def no_sync(self):
        return _Mode(None)

    def generate(self, *args, **keywords):
        events.add("generate")
        return Tensor(events.number())

    def save_pretrained(self, *args):
        events.add("checkpoint")


class _Output(Tensor):
    """Logits that also have .logits and .loss, like the output of a language model."""

    def __init__(self, logits, loss):
        super().__init__(logits.value, logits.parameters_of)
        self.logits, self.loss = logits, loss


class _Loss:
    def __init__(self, *args, **keywords):
        pass

    def __call__(self, first, *others, **keywords):
        return first * first


class Optimizer:
    def __init__(self, parameters=(), lr=0.01, **keywords):
        self.parameters = list(parameters)
        self.param_groups = [{"lr": lr, "params": self.parameters}]

    def zero_grad(self, **keywords):
        for parameter in self.parameters:
            parameter.grad = None

    def step(self, closure=None):
        events.add("optimizer")
        for parameter in self.parameters:
            parameter.value -= 0.01 * (parameter.grad or 0.0)

    def state_dict(self):
        return {}


class _Scheduler:
    def __init__(self, *args, **keywords):
        pass

    def step(self, *args):
        pass

    def get_last_lr(self):
        return [0.01]


class GradScaler:
    def __init__(self, *args, **keywords):
        pass

    def scale(self, loss):
        return loss

    def unscale_(self, optimizer):
        pass

    def step(self, optimizer):
        optimizer.step()

    def update(self):
        pass

    def get_scale(self):
        return 1.0


class DataLoader:
    """Batches of (inputs, labels); iterating one called ``val`` records ``validate``."""

    def __init__(self, dataset="train", batch_size=1, length=6, **keywords):
        self.name, self.length = dataset, length

    def __len__(self):
        return self.length

    def __iter__(self):
        if self.name != "train":
            events.add("validate")
        return (_Batch(index, self.name) for index in range(self.length))


class _Batch(dict):
    """A batch read as a pair or as a mapping."""

    def __init__(self, index, name):
        value = 0.2 + (index % 5) / 10.0 if name == "train" else 0.3
        super().__init__(
            {
                "input_ids": Tensor(value),
                "labels": Tensor(value / 2),
                "attention_mask": Tensor(1.0),
                "chosen": Tensor(value),
                "rejected": Tensor(-value),
                "prompt": Tensor(value),
            }
        )

    def __iter__(self):
        return iter([self["input_ids"], self["labels"]])


def _module(name, **content):
    module = types.ModuleType(name)
    module.__dict__.update(content)
    module.__path__ = []
    sys.modules[name] = module
    parent, _, word = name.rpartition(".")
    setattr(sys.modules[parent], word, module)
    return module


def _linear_like(*names):
    return {name: type(name, (Module,), {}) for name in names}


def _cross_entropy(first, *others, **keywords):
    return first * first


_module(
    "torch.nn",
    Module=Module,
    Parameter=Parameter,
    **_linear_like("Linear", "Embedding", "Sequential", "ReLU", "Conv2d"),
    **dict.fromkeys(("CrossEntropyLoss", "MSELoss", "BCEWithLogitsLoss", "NLLLoss"), _Loss),
)
_module(
    "torch.nn.functional",
    **dict.fromkeys(
        ("cross_entropy", "mse_loss", "logsigmoid", "log_softmax", "nll_loss", "relu"),
        _cross_entropy,
    ),
    softmax=_same,
)
_module("torch.nn.utils", clip_grad_norm_=lambda *args, **keywords: Tensor(1.0))
_module("torch.optim", **{n: type(n, (Optimizer,), {}) for n in ("SGD", "Adam", "AdamW")})
_module("torch.optim.lr_scheduler", LambdaLR=_Scheduler, StepLR=_Scheduler)
_module("torch.utils")
_module("torch.utils.data", DataLoader=DataLoader)
_module("torch.amp", GradScaler=GradScaler, autocast=autocast)
_module(
    "torch.cuda",
    is_available=lambda: DEVICE[0] == "cuda",
    synchronize=lambda *args: events.add("wait"),
    empty_cache=lambda: None,
    max_memory_allocated=lambda *args: 0,
    reset_peak_memory_stats=lambda *args: None,
)
_module("torch.cuda.amp", GradScaler=GradScaler, autocast=autocast)
_module(
    "torch.autograd",
    backward=lambda losses, *args: sum(losses[1:], losses[0]).backward(),
    _engine_run_backward=lambda losses, accumulate_grad: losses[0].differentiate(),
)
