"""Packages of which little is known, and rows that fit names of whatever package."""

from __future__ import annotations

from instrumentor.locate.meaning.libraries.library import Library, rows
from instrumentor.locate.meaning.roles import Effect, Kind, Role

LIBRARY = Library(
    packages=("gym", "gymnasium"),
    roles=(
        (Role.NO_GRAD, ("*no_grad", "*inference_mode")),
        (Role.SAVE, ("safetensors.torch.save*",)),
        (Role.THREAD, ("*.QThread",)),
        (Role.CACHE_CLEAR, ("*clear_computation_cache",)),
        (Role.DEBUGGER, ("ipdb.set_trace",)),
    ),
    makes=(
        (Kind.AVERAGE, rows("", "torch_ema.* ema_pytorch.*")),
        (Kind.OPTIMIZER, rows("", "bitsandbytes.optim.* apex.optimizers.* torch_optimizer.*")),
        (Kind.DATA, rows("", "datasets.* *Tokenizer* *Processor* *FeatureExtractor*")),
        (Kind.DATA, rows("", "*DataCollator* *.DataLoader")),
        (Kind.MODEL, ("segmentation_models_pytorch.*",)),
        (Kind.DATA, ("*Config.from_pretrained",)),
    ),
    bases=((Kind.MODEL, ("*Module", "*PreTrainedModel")),),
    effects=(
        (Effect.SAVES, ("yaml.*dump*",)),
        (Effect.LOADS, rows("", "safetensors.torch.load* yaml.*load* *.from_pretrained")),
        (
            Effect.NOTHING,
            rows(
                "",
                "torchmetrics.* psutil.* einops.* evaluate.* tabulate.* termcolor.* nltk.* "
                "sacrebleu.* rouge_score.* yaml.* librosa.* soundfile.* torchaudio.* skimage.* "
                "pycocotools.* seqeval.* editdistance.* jiwer.* Levenshtein.* jieba.* unidecode.* "
                "num2words.* ftfy.* emoji.* unicodedata.*",
            ),
        ),
    ),
    on_host=True,
)
