"""What calls of libraries change: qualified names, and methods of objects."""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Modules whose functions change nothing that they are given (their exceptions stand below).
READS_ONLY = _words(
    """
    torch torch_xla torchvision torchmetrics numpy math statistics cmath time datetime itertools
    functools operator copy json os pathlib re string textwrap random warnings gc psutil logging
    traceback sys typing dataclasses collections contextlib tqdm wandb mlflow matplotlib sklearn
    scipy einops PIL rich loguru evaluate tabulate termcolor nltk sacrebleu rouge_score
    """
)
WRITES_FIRST_ARGUMENT = _words("random.shuffle numpy.random.shuffle numpy.copyto")
#: They change the process, or wait for other processes: never taken out.
GLOBAL = tuple(
    _words(
        """
        torch.distributed torch.set_ torch.use_ torch.manual_seed torch.cuda.set_
        torch.cuda.manual_seed torch.multiprocessing random.seed numpy.random.seed os._exit
        os.chdir os.environ os.fork os.kill os.system sys.exit sys.path sys.setrecursionlimit
        torch_xla.core.xla_model.all_ torch_xla.core.xla_model.rendezvous
        torch_xla.core.xla_model.optimizer_step torch.autograd torch.utils.checkpoint wandb.init
        """
    )
)
#: Saving of weights or optimizer state: what makes a statement a checkpoint.
CHECKPOINTS = _words(
    """
    torch.save torch_xla.core.xla_model.save torch_xla.utils.serialization.save
    safetensors.torch.save_file safetensors.torch.save_model
    """
)
SAVES = CHECKPOINTS | _words(
    """
    numpy.save numpy.savez numpy.savez_compressed numpy.savetxt pickle.dump json.dump yaml.dump
    os.makedirs os.mkdir os.remove os.unlink os.rename os.replace os.symlink shutil.copy
    shutil.copyfile shutil.copytree shutil.move shutil.rmtree torchvision.utils.save_image
    matplotlib.pyplot.savefig
    """
)
LOADS = _words(
    """
    torch.load torch_xla.utils.serialization.load safetensors.torch.load_file
    safetensors.torch.load_model numpy.load pickle.load
    """
)
BUILTINS = _words(
    """
    abs all any ascii bin bool bytes callable chr complex dict dir divmod enumerate filter float
    format frozenset getattr hasattr hash hex id int isinstance issubclass iter len list map max
    min object oct ord pow print range repr reversed round set slice sorted str sum super tuple
    type vars zip Exception ValueError RuntimeError AssertionError
    """
)
#: Methods that read their object, whatever it is.
READING_METHODS = _words(
    """
    item tolist numpy cpu cuda to detach clone float double half bfloat16 long int bool size dim
    numel mean sum std var max min argmax argmin softmax log_softmax sigmoid view reshape permute
    transpose contiguous squeeze unsqueeze expand flatten norm abs exp log sqrt pow eq ne lt gt
    ge le any all topk gather items keys values get copy count index join split strip lower upper
    format startswith endswith replace encode decode batch_decode rstrip lstrip title state_dict
    named_parameters parameters named_modules modules children is_floating_point isnan isinf
    exists is_file is_dir resolve with_suffix relative_to as_posix strftime isoformat
    total_seconds elapsed_time get_lr get_last_lr
    """
)
GIVES_A_NUMBER = _words(
    "item len int float str bool round range time.time time.perf_counter format join"
)
WRITING_METHODS = _words("write writelines write_text write_bytes unlink rmdir mkdir touch")
#: Methods of a module that leave it another one; all others of a library's module do not.
MODULE_CHANGES = _words(
    """
    load_state_dict apply requires_grad_ register_buffer register_parameter register_module
    register_forward_hook register_forward_pre_hook register_full_backward_hook add_module
    load_adapter set_adapter add_adapter merge_and_unload resize_token_embeddings zero_grad
    share_memory init_weights reset_parameters fuse_lora unfuse_lora tie_weights
    """
)
MODULE_SAVES = _words("save_pretrained save_adapter push_to_hub save_lora_weights")
ACCELERATOR_SAVES = _words("save save_state save_model")
#: Methods that give back their object, or a part of it.
SAME_OBJECT_METHODS = _words(
    """
    to cuda cpu float half double bfloat16 train eval requires_grad_ items values keys get pop
    setdefault parameters named_parameters modules children __enter__ unwrap
    """
)
#: Functions that give back their arguments, or parts of them.
PASSES_THROUGH = _words(
    """
    iter enumerate zip list tuple reversed sorted next map filter getattr dict set tqdm.tqdm
    tqdm.auto.tqdm tqdm.notebook.tqdm tqdm.trange torch.compile torch.nn.DataParallel
    torch.nn.parallel.DistributedDataParallel copy.copy itertools.islice itertools.cycle
    itertools.chain contextlib.nullcontext
    """
)
#: Makers of objects that take values and give none back.
SINKS = tuple(
    _words(
        """
        logging.getLogger tqdm. torch.utils.tensorboard. tensorboardX. wandb.init rich.progress.
        rich.console. accelerate.logging. loguru.
        """
    )
)
MODULE_MAKERS = tuple(
    _words(
        """
        torch.nn. torchvision.models. timm.create_model transformers. peft. diffusers.
        torch.compile torch.hub.load segmentation_models_pytorch.
        """
    )
)
MAKES_NO_MODULE = tuple(
    _words("torch.nn.functional torch.nn.utils torch.nn.init torch.nn.Parameter")
)
