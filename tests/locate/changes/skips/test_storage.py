"""A container is not what it holds: what is put somewhere is not changed by that."""

from __future__ import annotations

import textwrap

import pytest

from tests.locate.cases import looped, plan_of
from tests.locate.changes.skips.test_effects import Evaluation
from tests.locate.changes.test_skips import STEP

LOGGER = """\
class Logger:
    def __init__(self, config):
        self.config, self.rows = config, []
    def note(self, step, value):
        self.rows.append({"step": step, "value": value})
    def first(self):
        return self.rows[0]
config = load()
logger = Logger(config)
step = 0"""
STATE = "state = {'n': 0}\nrows, table = [], {}"
NET = """\
import copy
import torch.nn.functional as F
class Net(torch.nn.Module):
    def __init__(self):
        self.weight, self.mean, self.var = torch.ones(4), torch.zeros(4), torch.ones(4)
    def one(self, x):
        return x * self.weight
    def forward(self, x):
        ways = {{'one': self.one}}
        return {}
net, buf = Net(), torch.zeros(4)"""
LAYERS = """\
class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.ones(4)
    def forward(self, x):
        return self.weight
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.head = Own(), {}
    def forward(self, x):
        return self.head(x)
net, buf = Net(), torch.zeros(4)"""
NORMED = NET.format("F.batch_norm(x, self.mean, self.var, training=True)")
OWN_LOADER = """\
from torch.utils.data import {0}
rows, data, weight, other = load(), load(), load(), load()
weight.data = other.data
def give(one):
    one.data = weight.data
options = {1}
val_loader = {0}(data, batch_size=2, **options)"""
OF_BATCHES = "for c, d in val_loader:\n    own = c.data.cpu()\n    own += 1\n    print(own)"
REBOUND = "for c, d in val_loader:\n    c += 1\n    c = val_loader.dataset"
IN_PLACE = "score = net(a)\nscore += total"
GRADIENT = "print(torch.autograd.grad(model(a).sum(), [model.weight]))"

METERS = """\
class Meter:
    def __init__(self):
        self.count, self.last = 0, {}
    def update(self, value):
        self.count += 1
        self.last = value
    def bump(self):
        self.last['n'] += 1
class Meters:
    def __init__(self, meters=None):
        self.meters = meters if meters else {}
    def update(self, name, value):
        if name not in self.meters:
            self.meters[name] = Meter()
        self.meters[name].update(value)
state = {'n': 0}
kept = Meters()"""
OWN_METERS = "own = Meters()\nown.update('loss', {})"
COUNTED = "kept.update('loss', loss)\nscale(kept.meters['loss'].count)"
SIZES = """\
class Config:
    def __init__(self, size):
        self.size = size
    def negate(self):
        self.size = -self.size
class Rows{}:
    def __init__(self, size):
        self.size = size
        {}
    def scaled(self, loss):
        return scale(loss * self.size)
class Holder:
    def __init__(self, config):
        self.config = config
config, rows = Config(3), Rows(4)
holder = Holder(config)"""
NEGATED = "one = holder.config\none.size = -one.size"
FOLDER = "import os\nimport unknown\nconfig = load()\nfolder = config['out']"

#: the evaluation only puts something somewhere
GOES: dict[str, Evaluation] = {
    "points_that_are_searched": Evaluation(
        f"{STATE}\nfrom scipy.spatial import KDTree",
        "tree = KDTree(rows)\nprint(tree.query(rows))",
        "scale(rows)",
    ),
    "what_a_convolution_is_given": Evaluation(
        NET.format("F.conv2d(x, self.weight, self.mean, 1, 0, 1, 1)"), "net(a)", "scale(net.mean)"
    ),
    "a_meter_in_a_set_of_its_own": Evaluation(METERS, OWN_METERS.format("kept"), COUNTED),
    "an_attribute_beside_a_table_of_objects_of_another_class": Evaluation(
        SIZES.format("", "pass").replace("self.size)", "len(self.__dict__))"),
        NEGATED,
        "rows.scaled(loss)",
    ),
    "an_attribute_of_objects_of_another_class": Evaluation(
        SIZES.format("", "pass"), NEGATED, "rows.scaled(loss)"
    ),
    "a_path": Evaluation(FOLDER, "unknown.change(config)", "scale(os.path.exists(folder))"),
    "a_row_with_a_step": Evaluation(
        LOGGER, "logger.note(step, total)", "step += 1\nlogger.note(step, loss.item())\nscale(step)"
    ),
    "a_row_with_a_number_written_out": Evaluation(
        LOGGER, "logger.note(0, total)", "step += 1\nlogger.note(step, loss.item())\nscale(step)"
    ),
    "a_row_with_what_training_reads": Evaluation(STATE, "rows.append(state)", "scale(state)"),
    "an_element_with_what_training_reads": Evaluation(
        STATE, "table.setdefault('all', []).append(state)", "scale(state)"
    ),
    "a_list_beside_one_with_what_training_reads": Evaluation(
        f"{STATE}\ntable['train'] = []",
        "table['valid'].append(total)",
        "table['train'].append(loss)\nscale(loss)",
    ),
    "the_order_of_what_training_reads": Evaluation(
        f"{STATE}\nrows.append(state)", "rows.sort(key=len)\nrows.reverse()", "scale(state)"
    ),
    "the_last_of_what_training_reads": Evaluation(
        f"{STATE}\ntable['all'] = [state]",
        "table['all'] = table['all'][-3:]\ntable['all'].append(total)",
        "scale(state)",
    ),
    "a_list_of_its_own": Evaluation(
        STATE, "own = list(table)\nown.append(total)\nown[0] = 1", "scale(table)"
    ),
    "a_tensor_of_what_training_reads": Evaluation(
        f"{STATE}\nnumbers = load()",
        "own = torch.zeros(4).fill_(0)\nown[:1] = torch.LongTensor([numbers[n] for n in [0]])",
        "scale(numbers)",
    ),
    "what_a_file_held": Evaluation(
        "import json\nargs = load()\nconfig = json.loads(open(args.config).read())",
        "config['seen'] = total",
        "scale(args)",
    ),
    "averaged_under_its_own_name": Evaluation(
        "import numpy as np\nargs = load()",
        "losses = [args.scale]\nlosses.append(total)\nlosses = np.average(losses)",
        "scale(args)",
    ),
    "of_a_text": Evaluation("name = 'a'", "name.whatever(total)", "scale(name)"),
    "what_an_iterator_gives": Evaluation(
        "patterns = load()", "next((p for p in patterns if p), None)", "scale(patterns)"
    ),
    "what_a_forward_computes": Evaluation(NET.format("ways[mode](x)"), IN_PLACE, "scale(net(x))"),
    "what_a_forward_computes_of_what_training_has": Evaluation(
        NET.format("x + 1"), "score = net(buf)\nscore += total", "scale(buf)"
    ),
    "what_a_layer_computes": Evaluation(
        LAYERS.format("torch.nn.Linear(4, 4)"), IN_PLACE, "scale(net.head.weight)"
    ),
    "what_layers_compute": Evaluation(
        LAYERS.format("torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())"),
        IN_PLACE,
        "scale(net.head)",
    ),
    "what_an_iterator_of_batches_is_asked_for": Evaluation(
        OWN_LOADER.format("DataLoader", "{}").replace(", **options", ""),
        "c, d = iter(val_loader).next()\nc[0] += total",
        "scale(data)",
    ),
    "a_list_of_a_table_of_a_function": Evaluation(
        f"{STATE}\ndef keep(one):\n    own = {{'a': [], 'b': []}}\n    own['a'].append(one)\n"
        "    own['b'].append(own['a'])\n    return own",
        "keep(state)",
        "scale(state)",
    ),
    "a_deep_copy": Evaluation(
        f"import copy\n{STATE}\nrows.append(state)",
        "own = copy.deepcopy(rows)\nown[0]['n'] += 1",
        "scale(state)",
    ),
    "a_deep_copy_of_a_model": Evaluation(
        NET.format("self.weight"),
        "twin = copy.deepcopy(net).cpu()\ntwin.eval()\nprint(twin(a))",
        "net.train()\nscale(net.weight)",
    ),
    "running_statistics_of_a_copy": Evaluation(NORMED, "copy.deepcopy(net)(a)", "scale(net.mean)"),
    "gradients_that_nobody_keeps": Evaluation("", GRADIENT),
    "its_own_batch_where_others_get_a_weight": Evaluation(
        OWN_LOADER.format("DataLoader", "{'num_workers': 2}"), OF_BATCHES, "scale(data)"
    ),
    "the_batch_of_this_turn": Evaluation(
        OWN_LOADER.format("DataLoader", "{}").replace(", **options", ""),
        REBOUND,
        "scale(val_loader)",
    ),
    "samples_of_a_function": Evaluation(
        "def collect(samples, batch):\n    samples.append({'x': batch[0]})\n    return samples",
        "samples = []\nsamples = collect(samples, a)\nprint(samples)",
        "scale(x, val_loader)",
    ),
}


@pytest.mark.parametrize("name", GOES)
def test_what_is_put_somewhere_stays_as_it_is(name: str) -> None:
    assert plan_of(GOES[name].source)["skipped_validation"]


#: what the training reads is changed by another way to it
STAYS: dict[str, Evaluation] = {
    "a_meter_in_the_set_of_the_training": Evaluation(
        METERS, OWN_METERS.format("total").replace("own = Meters()", "own = kept"), COUNTED
    ),
    "a_meter_in_a_set_on_those_of_the_training": Evaluation(
        METERS, OWN_METERS.format("total").replace("Meters()", "Meters(kept.meters)"), COUNTED
    ),
    "what_a_meter_of_its_own_is_given": Evaluation(
        METERS,
        OWN_METERS.format("state") + "\nown.meters['loss'].bump()",
        "scale(state)",
    ),
    "an_attribute_of_objects_of_a_derived_class": Evaluation(
        f"{SIZES.format('(Config)', 'pass')}\nholder = Holder(rows)", NEGATED, "rows.scaled(loss)"
    ),
    "an_attribute_beside_a_table_of_the_same_object": Evaluation(
        SIZES.format("(Config)", "pass").replace("self.size)", "sum(self.__dict__.values()))")
        + "\nholder = Holder(rows)",
        NEGATED,
        "rows.scaled(loss)",
    ),
    "an_attribute_that_a_base_of_a_library_sets": Evaluation(
        f"{SIZES.format('', 'pass')}\nimport unknown\nclass Net(unknown.Base):\n    pass\n"
        "net = Net(rows)",
        "one = net.config\none.size = -one.size",
        "rows.scaled(loss)",
    ),
    "an_attribute_that_a_method_of_a_base_sets": Evaluation(
        f"{SIZES.format('(Config)', 'pass')}\nevery = [rows]",
        "for one in every:\n    one.negate()",
        "rows.scaled(loss)",
    ),
    "an_attribute_of_an_object_that_is_put_there_later": Evaluation(
        f"{SIZES.format('', 'pass')}\nholder.config = rows", NEGATED, "rows.scaled(loss)"
    ),
    "an_attribute_of_objects_that_share_theirs": Evaluation(
        SIZES.format("", "self.__dict__ = config.__dict__"), NEGATED, "rows.scaled(loss)"
    ),
    "an_attribute_that_is_looked_up_in_another_object": Evaluation(
        f"{SIZES.format('', 'pass')}\nclass Of(Rows):\n    def __getattribute__(self, name):\n"
        "        return object.__getattribute__(config if name == 'size' else self, name)\n"
        "rows = Of(2)",
        NEGATED,
        "rows.scaled(loss)",
    ),
    "what_may_be_no_path": Evaluation(FOLDER, "unknown.change(config)", "scale(folder)"),
    "a_row_that_training_reads": Evaluation(
        LOGGER, "logger.note(step, total)", "scale(logger.first())"
    ),
    "an_early_stop_by_what_it_wrote": Evaluation(
        LOGGER, "logger.note(step, total)", "if stop_early(logger.rows):\n    break"
    ),
    "batches_that_a_function_makes": Evaluation(
        OWN_LOADER.format("DataLoader", "{'collate_fn': rows}"), OF_BATCHES, "scale(data)"
    ),
    "batches_that_a_function_of_another_table_makes": Evaluation(
        OWN_LOADER.format("DataLoader", "dict(collate_fn=rows)"), OF_BATCHES, "scale(data)"
    ),
    "options_of_a_loader_that_are_put_there_later": Evaluation(
        OWN_LOADER.format("DataLoader", "{}").replace("\nval_", "\noptions['a'] = 1\nval_"),
        OF_BATCHES,
        "scale(data)",
    ),
    "a_batch_that_gets_a_weight": Evaluation(
        OWN_LOADER.format("DataLoader", "{}"),
        OF_BATCHES.replace("own =", "c.data = weight.data\n    own ="),
        "scale(weight.data)",
    ),
    "a_batch_that_a_function_gives_a_weight": Evaluation(
        OWN_LOADER.format("DataLoader", "{}"),
        OF_BATCHES.replace("own =", "give(c)\n    own ="),
        "scale(weight.data)",
    ),
    "a_batch_that_is_kept_where_it_gets_a_weight": Evaluation(
        OWN_LOADER.format("DataLoader", "{}"),
        OF_BATCHES.replace("own =", "rows.first = c\n    rows.first.data = weight.data\n    own ="),
        "scale(weight.data)",
    ),
    "what_a_turn_gets_of_the_one_before": Evaluation(
        OWN_LOADER.format("DataLoader", "{}"),
        "one = val_loader.dataset\nfor c, d in val_loader:\n    one.seen = d\n    one = c",
        "scale(val_loader.dataset)",
    ),
    "a_weight_that_another_one_is_set_to": Evaluation(
        "w, v = torch.ones(4), torch.ones(4)\nw.data = v.data", "w.data.add_(1)", "scale(w)"
    ),
    "an_element_of_a_list": Evaluation(
        f"{STATE}\nrows.append(state)", "rows[0]['n'] += 1", "scale(state)"
    ),
    "an_element_of_its_own_list": Evaluation(
        STATE, "own = []\nown.append(state)\nown[0]['n'] += 1", "scale(state)"
    ),
    "an_element_of_a_list_inside_of_another": Evaluation(
        f"{STATE}\ntable['all'] = rows\nrows.append(state)",
        "table['all'][0]['n'] += 1",
        "scale(state)",
    ),
    "an_element_that_another_function_puts_there": Evaluation(
        f"{STATE}\ndef keep(items, one):\n    items.append(one)\nkeep(rows, state)",
        "rows[0]['n'] += 1",
        "scale(state)",
    ),
    "an_element_that_another_function_puts_into_its_own_list": Evaluation(
        f"{STATE}\ndef keep(items, one):\n    items.append(one)",
        "own = []\nkeep(own, state)\nown[0]['n'] += 1",
        "scale(state)",
    ),
    "an_element_of_an_alias": Evaluation(
        f"{STATE}\nother = rows\nother.append(state)", "rows[0]['n'] += 1", "scale(state)"
    ),
    "an_element_that_is_walked_over": Evaluation(
        f"{STATE}\nrows.append(state)", "for row in rows:\n    row['n'] += 1", "scale(state)"
    ),
    "an_element_that_is_taken_out": Evaluation(
        f"{STATE}\nrows.append(state)", "row = rows.pop()\nrow['n'] += 1", "scale(state)"
    ),
    "an_element_of_a_field": Evaluation(
        f"{STATE}\n{LOGGER}\nlogger.rows.append(state)", "logger.rows[0]['n'] += 1", "scale(state)"
    ),
    "an_element_of_a_slice": Evaluation(
        f"{STATE}\nrows.append(state)", "rows[:1][0]['n'] += 1", "scale(state)"
    ),
    "an_element_of_a_slice_that_was_put_somewhere": Evaluation(
        f"{STATE}\nrows.append(state)\ntable['all'] = rows[:1]",
        "table['all'][0]['n'] += 1",
        "scale(state)",
    ),
    "a_slice_of_a_tensor": Evaluation(
        f"{STATE}\nones = torch.ones(4)\nrows.append(ones[:2])", "rows[0].zero_()", "scale(ones)"
    ),
    "columns_of_a_tensor": Evaluation(
        "ones = torch.ones(4, 4)\nleft = ones[:, 0]", "left.zero_()", "scale(ones)"
    ),
    "an_order_that_training_reads": Evaluation(STATE, "rows.sort(key=len)", "scale(rows)"),
    "an_element_of_a_list_of_its_own": Evaluation(
        f"{STATE}\nrows.append(state)", "own = list(rows)\nown[0]['n'] += 1", "scale(state)"
    ),
    "an_element_of_a_sorted_list": Evaluation(
        f"{STATE}\nrows.append(state)",
        "for row in sorted(rows):\n    row['n'] += 1",
        "scale(state)",
    ),
    "an_element_by_its_key": Evaluation(
        f"{STATE}\ntable['a'] = state", "table['a']['n'] += 1", "scale(state)"
    ),
    "an_element_that_was_spread": Evaluation(
        f"{STATE}\nrows.extend([state])", "rows[0].update(n=total)", "scale(state)"
    ),
    "the_weights_in_a_list": Evaluation(
        "kept = []\nfor p in model.parameters():\n    kept.append(p)", "kept[0].data.zero_()"
    ),
    "samples_of_the_training_set": Evaluation(
        "samples = load()\nloader = torch.utils.data.DataLoader(samples)", "samples.append(total)"
    ),
    "a_queue": Evaluation(
        "import queue\nbatches = queue.Queue()", "batches.get()", "x = batches.get()\nscale(x)"
    ),
    "an_iterator_of_an_iterator": Evaluation(
        "it = iter(loader)\nfirst = (b for b in it)",
        "next(first)",
        header="while True:\n    x, y = next(it)",
    ),
    "an_iterator_of_pairs": Evaluation(
        "it = iter(loader)\npairs = zip(it, [1])",
        "next(pairs)",
        header="while True:\n    x, y = next(it)",
    ),
    "an_iterator_of_a_generator": Evaluation(
        "it = iter(loader)\ndef each(items):\n    for b in items:\n        yield b\n"
        "first = each(it)",
        "next(first)",
        header="while True:\n    x, y = next(it)",
    ),
    "a_weight_that_a_forward_gives": Evaluation(
        NET.format("self.weight"), IN_PLACE, "scale(net.weight)"
    ),
    "what_a_forward_is_given": Evaluation(
        NET.format("x"), "score = net(buf)\nscore += total", "scale(buf)"
    ),
    "a_part_of_what_a_forward_is_given": Evaluation(
        NET.format("x[:2]"), "score = net(buf)\nscore += total", "scale(buf)"
    ),
    "what_a_forward_is_given_in_a_list": Evaluation(
        NET.format("[x]"), "score = net(buf)[0]\nscore += total", "scale(buf)"
    ),
    "what_a_list_holds_that_a_forward_is_given": Evaluation(
        NET.format("x[0]"), "score = net([buf])\nscore += total", "scale(buf)"
    ),
    "what_a_layer_may_give_back": Evaluation(
        LAYERS.format("torch.nn.Dropout()"), IN_PLACE.replace("net(a)", "net(buf)"), "scale(buf)"
    ),
    "what_a_module_among_layers_gives_of_its_own": Evaluation(
        LAYERS.format("torch.nn.Sequential(torch.nn.Linear(4, 4), self.own)"),
        IN_PLACE,
        "scale(net.own.weight)",
    ),
    "what_unknown_layers_give": Evaluation(
        LAYERS.format("torch.nn.Sequential(*layers(self.own))"), IN_PLACE, "scale(net.own.weight)"
    ),
    "an_element_of_a_table_of_a_function": Evaluation(
        f"{STATE}\ndef keep(one):\n    own = {{'a': []}}\n    own['a'] = one\n"
        "    own['a'].append(1)",
        "keep(rows)",
        "scale(rows)",
    ),
    "an_element_that_a_table_of_a_function_is_updated_with": Evaluation(
        f"{STATE}\ndef keep(one):\n    own = {{'a': []}}\n    own.update(one)\n"
        "    own['a'].append(1)",
        "keep({'a': rows})",
        "scale(rows)",
    ),
    "an_element_that_another_name_of_a_table_gets": Evaluation(
        f"{STATE}\ndef keep(one):\n    own = {{'a': []}}\n    other = own\n"
        "    other['a'] = one\n    own['a'].append(1)",
        "keep(rows)",
        "scale(rows)",
    ),
    "an_element_of_an_element_of_a_table_of_a_function": Evaluation(
        f"{STATE}\ndef keep(one):\n    own = {{'a': []}}\n    own['a'].append(one)\n"
        "    own['a'][0]['n'] += 1",
        "keep(state)",
        "scale(state)",
    ),
    "a_copy_that_shares_what_it_holds": Evaluation(
        f"import copy\n{STATE}\nrows.append(state)",
        "own = copy.copy(rows)\nown[0]['n'] += 1",
        "scale(state)",
    ),
    "a_deep_copy_that_is_none": Evaluation(
        "import copy\nclass Own:\n    def __deepcopy__(self, memo):\n        return self\n"
        "own = Own()",
        "copy.deepcopy(own).n = 1",
        "scale(own.n)",
    ),
    "running_statistics": Evaluation(NORMED, "net(a)", "scale(net.mean)"),
    "gradients_that_a_hook_sees": Evaluation(
        f"{STATE}\ndef hook(grad):\n    state['n'] += 1\nmodel.weight.register_hook(hook)",
        GRADIENT,
        "scale(state)",
    ),
    "gradients_of_a_function_of_its_own": Evaluation(
        f"{STATE}\nclass Own(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x):\n        return x\n    @staticmethod\n"
        "    def backward(ctx, grad):\n        state['n'] += 1\n        return grad",
        "print(torch.autograd.grad(Own.apply(model.weight).sum(), [model.weight]))",
        "scale(state)",
    ),
    "an_element_that_a_method_puts_into_its_own_list": Evaluation(
        f"{STATE}\nclass Own:\n    def __init__(self):\n        self.all = []\n"
        "    def note(self, one):\n        self.all.append(one)\n"
        "    def bump(self):\n        self.all[0]['n'] += 1",
        "own = Own()\nown.note(state)\nown.bump()",
        "scale(state)",
    ),
    "an_attribute_that_a_method_sets": Evaluation(
        f"{STATE}\nclass Own:\n    def note(self, one):\n        self.one = one\n"
        "    def bump(self):\n        self.one['n'] += 1",
        "own = Own()\nown.note(state)\nown.bump()",
        "scale(state)",
    ),
    "a_configuration": Evaluation(
        "config = load()", "setattr(config, 'rate', total)", "scale(config.rate)"
    ),
    "a_rate_set_by_a_callback": Evaluation(
        "class Reduce:\n    def on_valid(self, value):\n        for g in optimizer.param_groups:\n"
        "            g['lr'] = value\ncallbacks = [Reduce()]",
        "for callback in callbacks:\n    getattr(callback, 'on_valid')(total)",
    ),
    "frozen_parameters": Evaluation(
        "", "for p in model.parameters():\n    p.requires_grad_(False)"
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_what_is_changed_where_it_was_put_is_felt(name: str) -> None:
    assert plan_of(STAYS[name].source)["skipped_validation"] == []


#: ways into containers in containers, at whose end lies what training reads
NESTED = {
    "a_table_of_lists": "own = {0: []}\nown[0].append(state)\nown[0][0]['n'] += 1",
    "a_list_of_lists": "own = [[state]]\nown[0][0]['n'] += 1",
    "five_deep": "own = [[[[[state]]]]]\nown[0][0][0][0][0]['n'] += 1",
    "a_list_in_a_list": "own = [[rows]]\nown[0][0].append(1)\nstate['n'] = rows",
    "items": "own = {'a': [state]}\nfor key, one in own.items():\n    one[0]['n'] += 1",
    "values": "own = {'a': [state]}\nlist(own.values())[0][0]['n'] += 1",
    "a_copy": "own = [[state]]\nother = own.copy()\nother[0][0]['n'] += 1",
    "a_slice": "own = [[state]]\nother = own[:1]\nother[0][0]['n'] += 1",
    "a_list_of_a_list": "own = [[state]]\nother = list(own)\nother[0][0]['n'] += 1",
    "extended": "own = [[]]\nown[0].extend([state])\nown[0][0]['n'] += 1",
    "updated": "own = {'a': [state]}\nother = {}\nother.update(own)\nother['a'][0]['n'] += 1",
    "updated_by_name": "own = {}\nown.update(a=[state])\nown['a'][0]['n'] += 1",
    "grown": "own = []\nown += [[state]]\nown[0][0]['n'] += 1",
    "put_deeper": "own = {'a': {}}\nown['a']['b'] = [state]\nown['a']['b'][0]['n'] += 1",
    "flat": "own = [[state]]\nflat = [one for row in own for one in row]\nflat[0]['n'] += 1",
    "made_by_name": "own = dict(a=[state])\nown['a'][0]['n'] += 1",
    "a_tuple": "own = ([state],)\none = own[0]\none[0]['n'] += 1",
    "unpacked": "first, *others = [[state], [1]]\nfirst[0]['n'] += 1",
    "a_generator": "for row in ([state] for _ in range(1)):\n    row[0]['n'] += 1",
    "numbered": "for at, row in enumerate([[state]]):\n    row[0]['n'] += 1",
    "popped": "own = {'a': [state]}\nown.pop('a')[0]['n'] += 1",
    "set_by_default": "own = {}\nown.setdefault('a', []).append(state)\nown['a'][0]['n'] += 1",
    "made_by_default": (
        "import collections\nown = collections.defaultdict(list)\nown['a'].append(state)\n"
        "own['a'][0]['n'] += 1"
    ),
    "of_a_function": "def wrap(one):\n    return [[one]]\nwrap(state)[0][0]['n'] += 1",
    "of_a_table_of_a_function": (
        "def put(table, one):\n    table['a'] = [one]\nown = {}\nput(own, state)\n"
        "own['a'][0]['n'] += 1"
    ),
    "of_arguments": "def take(*own):\n    own[0][0]['n'] += 1\ntake([state])",
    "an_attribute": (
        "class Own:\n    pass\nown = Own()\nown.rows = [[state]]\nown.rows[0][0]['n'] += 1"
    ),
    "a_field": (
        "import dataclasses\n@dataclasses.dataclass\nclass Own:\n    rows: list\n"
        "own = Own([[state]])\nown.rows[0][0]['n'] += 1"
    ),
}


INLINE = "model.eval()\nwith torch.no_grad():\n    out = model(x)\n{0}\nmodel.train()\nscale(state)"


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("where", ["in the evaluation", "in what that calls", "inline"])
def test_what_lies_in_a_container_in_another_is_found(name: str, where: str) -> None:
    body = textwrap.indent(NESTED[name], "    ")
    if where == "inline":
        source = looped(f"{STEP}{INLINE.format(body)}", before=STATE)
    elif where == "in the evaluation":
        source = Evaluation(STATE, NESTED[name], "scale(state)").source
    else:
        inner = f"def work(state, rows):\n{body}\nwork(state, rows)"
        source = Evaluation(STATE, inner, "scale(state)").source
    assert plan_of(source)["skipped_validation"] == []


@pytest.mark.parametrize("name", ["a_table_of_lists", "a_list_of_lists", "set_by_default"])
def test_what_only_a_container_of_its_own_gets_is_left_as_it_is(name: str) -> None:
    """The same but for the last line, which puts more into the inner list."""
    filled = NESTED[name].rpartition("\n")[0]
    key = "'a'" if name == "set_by_default" else "0"
    body = f"{filled}\nown[{key}].append(total)\nprint(own)"
    case = Evaluation(STATE, body, "scale(state)")
    assert plan_of(case.source)["skipped_validation"] != []


def test_a_module_of_a_library_is_no_object_of_that_name() -> None:
    """`torch.utils.data` is not `x.data`, which a list gets here."""
    body = "own = rows.data\nown.append(total)"
    case = Evaluation(STATE, body, "torch.utils.data.DataLoader(state)")
    assert plan_of(case.source)["skipped_validation"] != []
    read = Evaluation(STATE, body, "scale(other.data)")
    assert plan_of(read.source)["skipped_validation"] == []
