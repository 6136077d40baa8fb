"""Which value a name has where it is read, and which code the script's options leave."""

from __future__ import annotations

import pytest

from tests.locate.cases import plan_of
from tests.locate.changes.skips.test_effects import Evaluation

STATE = "state = {'n': 0}"
OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument('--rate', type=float, default=0.1)
parser.add_argument('--plateau', action='store_true')
parser.add_argument('--sizes', nargs='+', default=[1])
args = parser.parse_args()
state = {'n': 0}"""
LOG = """\
import csv
class Log:
    def __init__(self, path):
        self.file = open(path, 'w')
        self.rows = csv.writer(self.file)
    def add(self, row):
        self.rows.writerow(row)
        self.file.flush()
log = Log('log.csv')"""
FIGURE = "import matplotlib.pyplot as plt\nrows = [1]"
PAIR = f"{STATE}\nfrom collections import namedtuple\nPair = namedtuple('Pair', ['a', 'b'])"
PREPARED = """\
from accelerate import Accelerator
accelerator = Accelerator()
unwrap = accelerator.unwrap_model
prepare = accelerator.prepare"""
COUNTED = """\
def measure(x):
    total, seen = 0, []
    def count(x):
        seen.append(x)
        state['n'] if x else None
        return len(seen)
    return count(x)
"""
PHASES = f"""\
{STATE}
def tell(value, valid=False):
    if valid:
        state['n'] = value
    shown = state['n'] if valid else value
    if valid and state['n'] > 2:
        print(shown)
    return shown
"""
COUNTED_OPTIONS = f"{OPTIONS}\nargs.count = 3"
TIMER = """\
from tqdm import tqdm
class Timer:
    def __init__(self, rows):
        self.rows = rows
        self.walk = self.rows.__iter__()
    def __iter__(self):
        return self
    def __next__(self):
        self.last = 3
        return next(self.walk)
rows = [1]
shared = Timer(rows)"""

GOES: dict[str, Evaluation] = {
    "an_early_stop_that_the_options_rule_out": Evaluation(
        OPTIONS, "state['n'] = total", "if args.plateau and state['n'] > 2:\n    break"
    ),
    "a_phase_that_training_never_has": Evaluation(
        PHASES, "tell(total, valid=True)", "scale(tell(loss))"
    ),
    "an_option_that_is_set_behind_what_showed_it": Evaluation(
        f"{COUNTED_OPTIONS}\nprint(sorted(vars(args).items()))\nconfig = dict(vars(args))",
        "args.count = total",
        "scale(args.rate, config)",
    ),
    "what_a_bar_walks_over": Evaluation(
        TIMER, "for row in tqdm(Timer(rows)):\n    pass", "next(shared)\nscale(shared.last)"
    ),
    "a_variable_of_the_process": Evaluation("import os", "print(os.environ.get('HOME'))"),
    "a_picture": Evaluation(
        "import imageio\nrows = [1]", "imageio.imwrite('x.png', rows)", "scale(rows)"
    ),
    "a_file_where_pictures_are_only_read": Evaluation(
        "import cv2", "torch.save(total, 'x.pt')", "scale(cv2.imread('x.png'))"
    ),
    "a_tuple_of_a_class": Evaluation(PAIR, "print(Pair(state, total))", "scale(Pair(state, 1))"),
    "a_device": Evaluation("ids, net = [0], load()", "net.cuda(ids[0])", "scale(ids)"),
    "a_table_of_the_weights": Evaluation(
        "", "table = model.state_dict()\nfor key in list(table):\n    table[key] = table[key].cpu()"
    ),
    "a_length": Evaluation("", "print(val_loader.dataset.__len__())", "scale(loader.dataset)"),
    "axes_of_a_figure": Evaluation(
        FIGURE,
        "axes = plt.figure().subplots(2, 1)\nfor k in range(2):\n    axes[k].axvline(rows)",
        "scale(rows)",
    ),
    "a_model_that_is_unwrapped": Evaluation(PREPARED, "print(unwrap(model))"),
    "a_branch_that_the_options_leave_out": Evaluation(
        OPTIONS, rest="if args.plateau:\n    scale(v)", call="v = validate(model)"
    ),
    "a_change_that_the_options_leave_out": Evaluation(
        OPTIONS, "if args.plateau:\n    state['n'] += 1", "scale(state)"
    ),
    "an_option_of_one_number": Evaluation(
        OPTIONS, "rows = [args.rate]\nrows[0].whatever(total)", "scale(args)"
    ),
    "a_name_that_was_bound_anew": Evaluation(
        STATE, "rows = state\nif total:\n    rows = total.clone()\n"
        "rows = torch.zeros(4)\nfor i in range(3):\n    rows[i] = total", "scale(state)"
    ),
    "rows_of_a_file": Evaluation(LOG, "log.add([total])", "log.add([loss.item()])"),
    "columns_of_a_table": Evaluation(
        "import csv\nnames = ['n']\nfile = open('x', 'w')",
        "rows = csv.DictWriter(file, fieldnames=names)\nrows.writerow({'n': 1})",
        "scale(names)",
    ),
    "a_folder_of_a_path": Evaluation(
        "from pathlib import Path\nroot = Path('a/b')", "root.parent.mkdir()", "scale(root.parent)"
    ),
    "a_text_at_a_path": Evaluation(
        "from pathlib import Path\nroot = Path('a/b')", "root.write_text('done')", "scale(root)"
    ),
    "a_copy": Evaluation(STATE, "own = state.copy()\nown['n'] = total", "scale(state)"),
    "what_a_closure_counts": Evaluation(f"{STATE}\n{COUNTED}", "measure(total)", "scale(state)"),
    "a_comparison_that_is_given": Evaluation(
        "class Best:\n    def __init__(self, better):\n        self.better = better\n"
        "best = Best(lambda new, old: new > old)",
        "best.better(total, 1)",
        "scale(3)",
    ),
    "the_first_of_the_weights": Evaluation(
        "", "first = next(model.parameters())\nprint(first.dtype)"
    ),
    "zeros_like_a_weight": Evaluation(
        "", "own = next(model.parameters()).new_zeros(4)\nown.fill_(1)"
    ),
    "a_loss_that_is_scaled": Evaluation("", "loss = criterion(model(a), b)\nloss /= 2"),
    "a_call_that_only_writes_it": Evaluation(
        "from torch.utils.tensorboard import SummaryWriter\nclass Log:\n"
        "    def __init__(self):\n        self.writer = SummaryWriter()\n"
        "    def add(self, results):\n        for key in results:\n"
        "            self.writer.add_scalar(key, results[key])\nlog = Log()",
        call="results = {}\nresults.update(all=validate(model))",
        rest="log.add(results)",
    ),
}  # fmt: skip

STAYS: dict[str, Evaluation] = {
    "an_early_stop_that_the_options_leave": Evaluation(
        OPTIONS, "state['n'] = total", "if args.rate and state['n'] > 2:\n    break"
    ),
    "a_phase_that_training_may_have": Evaluation(
        PHASES, "tell(total, valid=True)", "scale(tell(loss, flag))"
    ),
    "a_phase_that_training_has": Evaluation(
        PHASES, "tell(total, valid=True)", "scale(tell(loss, True))"
    ),
    "a_phase_of_whoever_is_given_it": Evaluation(
        PHASES, "tell(total, valid=True)", "scale(tell)\nscale(tell(loss))"
    ),
    "an_option_that_training_reads": Evaluation(
        COUNTED_OPTIONS, "args.count = total", "scale(args.count)"
    ),
    "an_option_in_a_table": Evaluation(
        COUNTED_OPTIONS, "args.count = total", "scale(vars(args)['count'])"
    ),
    "an_option_in_a_table_from_before": Evaluation(
        f"{COUNTED_OPTIONS}\ntable = vars(args)", "args.count = total", "scale(table)"
    ),
    "an_option_that_is_looked_up": Evaluation(
        COUNTED_OPTIONS, "args.count = total", "scale(getattr(args, name))"
    ),
    "an_option_that_a_library_is_given": Evaluation(
        f"{COUNTED_OPTIONS}\nimport library", "args.count = total", "scale(library.rate(args))"
    ),
    "what_a_bar_over_another_walks_over": Evaluation(
        TIMER, "for row in tqdm(shared):\n    pass", "scale(shared.last)"
    ),
    "an_iterator_below_a_bar": Evaluation(
        f"{TIMER}\nwalk = iter(rows)", "for row in tqdm(walk):\n    pass", "scale(next(walk))"
    ),
    "a_variable_of_the_process_that_is_set": Evaluation("import os", "os.environ.update(A='1')"),
    "what_stands_for_a_variable": Evaluation(
        f"{STATE}\nimport os", "os.environ.get('A', state)['n'] = 1", "scale(state)"
    ),
    "a_picture_that_is_read_back": Evaluation(
        "import imageio", "imageio.imwrite('x.png', total)", "scale(imageio.imread('x.png'))"
    ),
    "what_a_tuple_holds": Evaluation(PAIR, "Pair(state, total).a['n'] += 1", "scale(state)"),
    "what_is_moved_to_a_device": Evaluation(
        "ids, net = [0], load()", "net.cuda(ids[0])", "scale(net)"
    ),
    "weights_in_a_table": Evaluation(
        "", "table = model.state_dict()\nfor key in list(table):\n    table[key].mul_(2)"
    ),
    "a_table_that_is_loaded": Evaluation(
        "",
        "table = model.state_dict()\nfor key in list(table):\n    table[key] = table[key] * 2\n"
        "model.load_state_dict(table)",
    ),
    "a_table_of_its_own": Evaluation(
        "class Own:\n    def __init__(self):\n        self.rows = {}\n"
        "    def state_dict(self):\n        return self.rows\nown = Own()",
        "own.state_dict()['n'] = total",
        "scale(own.rows)",
    ),
    "a_length_that_counts": Evaluation(
        f"{STATE}\nclass Rows:\n    def __len__(self):\n        state['n'] += 1\n"
        "        return 3\nrows = Rows()",
        "rows.__len__()",
        "scale(state)",
    ),
    "axes_of_nobody_knows_what": Evaluation(
        "rows, chart = [1], load()", "chart.subplots(2)[0].axvline(rows)", "scale(rows)"
    ),
    "weights_that_are_unwrapped": Evaluation(PREPARED, "unwrap(model).weight.data.mul_(2)"),
    "what_is_prepared": Evaluation(PREPARED, "prepare(model)"),
    "a_table_that_training_reads_on": Evaluation(
        "import csv\nrows = csv.reader(open('x'))", "next(rows)", "scale(next(rows))"
    ),
    "a_table_that_is_walked_over": Evaluation(
        "import csv\nrows = csv.DictReader(open('x'))",
        "for row in rows:\n    print(row)",
        "scale(list(rows))",
    ),
    "a_table_that_is_made_a_list": Evaluation(
        "import csv\nrows = csv.DictReader(open('x'))", "print(list(rows))", "scale(list(rows))"
    ),
    "a_file_below_a_table": Evaluation(
        "import csv\nfile = open('x')",
        "for row in csv.reader(file):\n    print(row)",
        "scale(file.readline())",
    ),
    "a_text_that_is_read_back": Evaluation(
        "from pathlib import Path\nroot = Path('a/b')",
        "root.write_text('done')",
        "scale(root.read_text())",
    ),
    "a_branch_that_the_options_may_take": Evaluation(
        OPTIONS, rest="if args.sizes:\n    scale(v)", call="v = validate(model)"
    ),
    "a_branch_that_the_options_take": Evaluation(
        OPTIONS, rest="if not args.plateau:\n    scale(v)", call="v = validate(model)"
    ),
    "an_option_of_several": Evaluation(OPTIONS, "args.sizes.append(total)", "scale(args.sizes)"),
    "an_option_that_holds_an_object": Evaluation(
        f"{OPTIONS}\nargs.rate = state", "args.rate['n'] += 1", "scale(state)"
    ),
    "a_name_that_may_be_bound_anew": Evaluation(
        STATE, "rows = state\nif total:\n    rows = {}\nrows['n'] = total", "scale(state)"
    ),
    "a_name_of_the_turn_before": Evaluation(
        STATE, "rows = {}\nfor i in range(3):\n    rows['n'] = total\n    rows = state",
        "scale(state)",
    ),
    "a_name_where_it_failed": Evaluation(
        STATE,
        "rows = state\ntry:\n    load()\n    rows = {}\nexcept OSError:\n    rows['n'] = total",
        "scale(state)",
    ),
    "a_file_that_training_reads": Evaluation(
        "file = open('x')", "file.close()", "scale(file.readline())"
    ),
    "an_element_of_a_copy": Evaluation(
        f"{STATE}\nrows = [state]", "own = rows.copy()\nown[0]['n'] += 1", "scale(state)"
    ),
    "what_a_factory_closes_over": Evaluation(
        "def make():\n    seen = []\n    def count(x):\n        seen.append(x)\n"
        "        return len(seen)\n    return count\ncount = make()",
        "count(total)",
        "scale(count(1))",
    ),
    "a_comparison_that_counts": Evaluation(
        f"{STATE}\nclass Best:\n    def __init__(self, better):\n        self.better = better\n"
        "best = Best(lambda new, old: state.update(n=new))",
        "best.better(total, 1)",
        "scale(state)",
    ),
    "an_iterator_of_batches": Evaluation(
        "it = iter(loader)", "next(it)", header="while True:\n    x, y = next(it)"
    ),
    "a_call_that_hands_it_to_training": Evaluation(
        "class Log:\n    def add(self, results):\n        self.scale = results['all']\nlog = Log()",
        call="results = {}\nresults.update(all=validate(model))",
        rest="log.add(results)\nscale(log.scale)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOES)
def test_what_cannot_be_felt_goes(name: str) -> None:
    assert plan_of(GOES[name].source)["skipped_validation"]


@pytest.mark.parametrize("name", STAYS)
def test_what_may_be_felt_stays(name: str) -> None:
    assert plan_of(STAYS[name].source)["skipped_validation"] == []
