"""Objects whose class a Hydra configuration names."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor import Declined
from instrumentor.locate import locate_file
from instrumentor.shared.options import Options

ENTRY = """\
import hydra

@hydra.main(config_path="conf", config_name="train")
def main(cfg):
    agent = hydra.utils.instantiate(cfg.agent)
    for batch in memory:
        agent.update(batch)

main()
"""
AGENT = """\
import torch
from hydra.utils import instantiate

class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, 1)

    def forward(self, x):
        return self.layer(x)

class Agent:
    def __init__(self, net_cfg):
        self.net = instantiate(net_cfg)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, batch):
        batch = batch.float()
        loss = self.net(batch).mean()
        loss.backward()
        self.optimizer.step()

class Other:
    def update(self, batch):
        return batch
"""
NAMED = (
    "agent:\n  _target_: lib.agents.Agent\n  net_cfg: ${net}\nnet:\n  _target_: lib.agents.Net\n"
)
#: files of the configuration
CONFIGURATIONS = {
    "one file": {"conf/train.yaml": NAMED},
    "as before 1.0": {"conf/train.yaml": NAMED.replace("_target_", "class")},
    "groups": {
        "conf/train.yaml": "defaults:\n  - agent: best\n  - net: wide\n",
        "conf/agent/best.yaml": "# of the paper\n_target_: 'lib.agents.Agent'  # ours\n",
        "conf/net/wide.yml": "_target_: lib.agents.Net\nwidth: 4\n",
    },
    "another key": {
        "conf/train.yaml": NAMED.replace("net:", "body:").replace("agent:", "learner:")
    },
    "beside others": {
        "conf/train.yaml": f"data:\n  _target_: lib.data.Memory\n  n: 3\n{NAMED}"
        "other:\n  _target_: lib.agents.Other\n"
    },
}


def written(folder: Path, files: dict[str, str], entry: str = ENTRY) -> Path:
    for name, text in {"train.py": entry, "lib/agents.py": AGENT, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "train.py"


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_class_that_the_configuration_names(name: str, tmp_path: Path) -> None:
    script = written(tmp_path, CONFIGURATIONS[name])
    located = locate_file(script, Options(), [tmp_path])
    (region,) = located.regions
    assert region.forward.source.path.name == "agents.py"
    assert region.forward.is_typed
    lines = AGENT.splitlines()
    assert lines[region.begin.lineno - 1].strip() == "loss = self.net(batch).mean()"


def test_a_single_file_is_the_configuration(tmp_path: Path) -> None:
    entry = ENTRY.replace('config_path="conf", config_name="train"', 'config_path="all.yaml"')
    script = written(tmp_path, {"all.yaml": NAMED}, entry)
    assert locate_file(script, Options(), [tmp_path]).candidate.loop.lineno == 6


@pytest.mark.parametrize(
    ("files", "head"),
    [
        ({}, 'config_path="conf"'),
        ({"conf/train.yaml": NAMED}, "config_path=None"),
        ({"conf/train.yaml": NAMED}, "config_path=folder()"),
        ({"conf/train.yaml": NAMED.replace("_target_", "kind")}, 'config_path="conf"'),
        ({"conf/train.yaml": NAMED.replace("lib.agents", "sklearn.nowhere")}, 'config_path="conf"'),
    ],
)
def test_where_nothing_names_it_no_step_is_seen(
    files: dict[str, str], head: str, tmp_path: Path
) -> None:
    entry = ENTRY.replace('config_path="conf", config_name="train"', head)
    with pytest.raises(Declined) as caught:
        locate_file(written(tmp_path, files, entry), Options(), [tmp_path])
    assert {reason.kind for reason in caught.value.reasons} == {"no-loop"}
