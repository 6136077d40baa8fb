"""How things are spelled: evidence of last resort, and never enough to take a statement out."""

from __future__ import annotations

import re
from functools import lru_cache

from instrumentor.locate.meaning.roles import Kind


class Spelling(str):
    """A pattern of words, in any case; `re` compiles it when it is first asked, and keeps it."""

    def fits(self, word: str) -> bool:
        return re.search(self, word, re.I) is not None


_KINDS: tuple[tuple[Kind, Spelling], ...] = (
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
STEP = Spelling(
    r"(^|_)(optim(izer)?s?_step|step_optim(izer)?s?|optimizer_update|apply_grad(ient)?s|"
    r"(run|apply|do|call|take)_(the_)?optim(izer)?s?(_step)?)$"
)
#: What is named after a step and steps no optimizer.
BESIDE_STEP = Spelling(
    r"sched|save|checkpoint|ckpt|log|print|dump|load|state|resume|train|^(step|zero_grad)$"
)
#: Of several names that are counted up the one that counts steps, and those that do not.
COUNT = Spelling(r"step|iter|(^|[_.])(it|itr|update|updates)(_|$)")
OTHER_COUNT = Spelling(r"accum|micro|sample|token|correct|epoch|patience|since")
SAVE = Spelling(
    r"^_?(maybe_)?save(_[a-z_]*)?(checkpoint|ckpt|model|state|weights|pretrained|snapshot|adapter)"
    r"s?(_[a-z_]*)?$|^save_ckpt$|^checkpoint$"
)
LOADER = Spelling(r"loader")
#: Of data what is no loader of them.
BATCH = Spelling(r"(^|_)(batch|batches)(_|$)")
FETCH = Spelling(r"^(get|next)_batch$")
SYNC = Spelling(r"^(mark_step|sync|sync_device|synchronize|wait_device_ops)$")
FORWARD = Spelling(
    r"forward|training_step|(compute|calc|calculate|get)_[a-z_]*loss|_loss_from|run_model|"
    r"model_fn|(get|compute)_logits|logps"
)
PREPARATION = Spelling(
    r"accumulate|adjust|append|augment|batch|buffer|clear|clip|collate|configure|copy|count|data|"
    r"env|eval|freeze|generate|get|init|isinstance|label|load|log|lr|mask|memory|next|noise|on_|"
    r"prepare|print|random|register|repackage|replay|reset|sample|save|schedul|seed|set_|setup|"
    r"shard|shuffle|step|sync|target|time|token|train|transform|unwrap|update|watch|zero_grad"
)
VALIDATION = Spelling(
    r"^_*((validate|evaluate|eval|evaluation|validation|test)(_[a-z0-9_]+)?|"
    r"(run|do|perform|maybe|compute|calc|calculate|estimate|get)_(initial_)?"
    r"(val|valid|validation|validate|eval|evaluate|evaluation|test)(_[a-z0-9_]*)?|"
    r"[a-z0-9_]*_(validate|evaluate|evaluation|validation|eval)|"
    r"estimate_loss|log_validation(_[a-z0-9]+)?)$"
)
#: What is named after a validation and runs none.
BESIDE_VALIDATION = Spelling(
    r"load|dataset|data$|corpus|input|param|shape|schema|same_|_set$|device|type|version|token|"
    r"prompt|consisten|check|config|_dl$|_ds$|split|transform|sampler|make_|build|create|"
    r"^get_(eval|val|valid|validation|test)(_[a-z]*)?_?(set|env|envs|data|batch|loader|iter|file)|"
    r"^get_loss|freq|steps?$|interval|args|prepare|mode$|path|name|should"
)
LOG = Spelling(r"log|wandb|writer|print|tensorboard|tracker|metric|mlflow|tqdm|pbar|bar$|progress")


@lru_cache(maxsize=4096)
def spelled_as(word: str) -> Kind | None:
    """What an object is called: only for one of which nothing else is known."""
    return next((kind for kind, pattern in _KINDS if pattern.fits(word)), None)
