"""What a tuning found: a document, a table, a figure, and `best.diff` for `git apply`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from instrumentor.shared.outputs import TUNING, write_json
from instrumentor.tune.chart import throughput
from instrumentor.tune.edits import Applicable, applied, patch
from instrumentor.tune.judge import BASELINE, KEPT, NOT_PROVEN, ratio
from instrumentor.tune.outcome import finite
from instrumentor.tune.search import Row, Search
from instrumentor.tune.settings import WARMUP, spelled
from instrumentor.tune.target import NotApplicable
from instrumentor.tune.tuning import Tuned
from instrumentor_analysis.reports import markdown as marked
from instrumentor_analysis.reports.document import Column, Table
from instrumentor_analysis.reports.plots import encode
from instrumentor_analysis.shared.files import write_whole
from instrumentor_analysis.shared.units import number, quantity

SCHEMA = "instrument-tune/2"
PATCH = "best.diff"


class Report(Struct, frozen=True):
    """Everything a tuning says.

    Attributes:
        document: schema ``instrument-tune/2``.
        patch: the recommended change; empty when there is none, or it is in the arguments only.
    """

    document: dict[str, Any]
    patch: bytes


def make_report(tuned: Tuned) -> Report:
    """Everything a tuning says."""
    search, target = tuned.search, tuned.target
    arguments = applied(target, search.best).arguments
    change = patch(target, search.best) if search.best.values else b""
    document = {
        "schema": SCHEMA,
        "script": str(target.script),
        "arguments": list(target.arguments),
        "folder": str(tuned.folder),
        "strategy": tuned.options.strategy,
        "best": dict(search.best.values),
        "best_arguments": None if arguments == target.arguments else list(arguments),
        "best_against_baseline": _gain(search),
        "patch": PATCH if change else None,
        "patch_root": str(target.project.root),
        "out_of_budget": search.out_of_budget,
        "withheld": search.withheld or None,
        "noise_percent": round(search.noise.time * 100, 3),
        "drift_percent": round(search.drift * 100, 3),
        "loss_tolerance": tuned.options.loss_tolerance,
        "settings": [_setting(name, at) for name, at in tuned.survey.items()],
        "trials": [_trial(row, number) for number, row in enumerate(search.rows, 1)],
        "notes": list(notes(tuned)),
        "duration_s": round(tuned.duration_s, 1),
    }
    return Report(document, change)


def write(tuned: Tuned, report: Report) -> None:
    """Write tune.json, tune.md, tune.png and best.diff."""
    folder = tuned.folder
    write_json(folder / TUNING, report.document)
    write_whole(folder / "tune.md", markdown(report).encode())
    write_whole(folder / "tune.png", encode(throughput(tuned.search.rows), "png"))
    # --resume may find that nothing is to be recommended after all.
    (folder / PATCH).unlink(missing_ok=True)
    if report.patch:
        write_whole(folder / PATCH, report.patch)


def notes(tuned: Tuned) -> Iterator[str]:
    """What a reader of the figures has to know."""
    search = tuned.search
    traced = any(row.trial.configuration.get("trace") for row in search.rows)
    only = "Wall clock only, without a profiler: what is compared is the time of a step."
    why = " Tracy's device profiling crashes with a runtime trace."
    yield only + (why if traced else "")
    if traced and tuned.options.rewrite.leading < WARMUP:
        yield f"With fewer than {WARMUP} warm-up steps the capture of a trace counts as a step."
    yield from (f"{said}." for said in search.untried)
    yield from _of_the_baselines(tuned)
    busy = sum(row.outcome.busy for row in search.rows)
    if busy:
        yield (
            f"The machine was busy with other processes in {busy} of {len(search.rows)} trials: "
            "measure again when it is quiet."
        )
    if any(row.judgement.verdict == NOT_PROVEN for row in search.rows):
        yield (
            "Not proven: the machine was busy, so the difference may be that of other programs, "
            f"which shows neither a gain nor that there is none. {TUNING} has what each was held "
            "against."
        )
    if not any(row.outcome.losses for row in search.rows):
        yield "No loss was seen: the effect of a setting on it cannot be judged."
    if search.out_of_budget:
        yield "The budget was used up before everything was tried: --resume continues."


def _of_the_baselines(tuned: Tuned) -> Iterator[str]:
    """Notes on how much the baselines differ, and what that means for the verdicts."""
    drift, noise = tuned.search.drift, tuned.search.noise
    if drift:
        yield (
            f"The machine drifted: the first and the last baseline run differ by "
            f"{quantity(drift * 100, '%')}. Verdicts on differences of that size are unreliable; "
            "tune again when nothing else runs."
        )
    elif noise.time:
        size = quantity(noise.time * 100, "%")
        yield f"Two baseline runs differ by {size}: a smaller gain is not kept."
    if noise.loss is not None and noise.loss > tuned.options.loss_tolerance:
        size = quantity(noise.loss * 100, "%")
        yield (
            f"The loss of two baseline runs differs by {size}, more than the tolerance: the"
            " effect of a setting on it cannot be judged. Give the script a "
            "fixed seed."
        )


def table(document: dict[str, Any]) -> Table:
    """The trials, a row each."""
    trials = document["trials"]
    timed = next((trial["label"] for trial in trials if trial["label"]), "step")

    def figures(title: str, key: str) -> Column:
        return Column(title, [_figure(trial[key]) for trial in trials])

    return Table(
        (
            Column("", ["*" if t["verdict"] == KEPT else "" for t in trials], right=False),
            Column(
                "configuration",
                [_change(t) for t in trials],
                right=False,
                least=16,
                comfort=24,
                wraps=True,
            ),
            figures(f"{timed} ms", "step_ms"),
            figures("samples/s", "samples_per_s"),
            Column("loss", [_loss(t) for t in trials]),
            Column(
                "memory",
                [_memory(t) for t in trials],
                optional=True,
                about=_of_memory(trials),
            ),
            Column("first ms", [_figure(t["compile_ms"]) for t in trials], optional=True),
            Column(
                "times as fast (95 %)",
                [_judged(t) for t in trials],
                right=False,
                least=16,
                comfort=34,
                wraps=True,
            ),
        )
    )


def markdown(report: Report) -> str:
    """The document for people."""
    document = report.document
    blocks = [
        f"# Tuning of {Path(document['script']).name}",
        conclusion(document),
        marked.table(table(document)),
    ]
    refused = [
        f"- {setting['setting']}: {setting['file']}:{setting['line']}: {setting['reason']}"
        for setting in document["settings"]
        if not setting["applicable"]
    ]
    if refused:
        blocks += ["## Not tried", "\n".join(refused)]
    blocks += ["## Notes", "\n".join(f"- {note}" for note in document["notes"])]
    if report.patch:
        # The user's file need not be UTF-8; best.diff itself keeps its bytes.
        text = report.patch.decode("utf-8", "backslashreplace").rstrip("\n")
        blocks += [f"## {PATCH}", f"```diff\n{text}\n```"]
    return "\n\n".join(blocks) + "\n"


def conclusion(document: dict[str, Any]) -> str:
    """The result in a sentence or two."""
    if document["withheld"]:
        return f"No recommendation: {document['withheld']}."
    if not document["best"]:
        unsure = not_proven(document)
        if unsure:
            return (
                f"No conclusion: the machine was busy, so {_subject(unsure)} proven. Measure "
                "again when it is quiet."
            )
        return "No setting brings a significant gain: keep the script as it is."
    text = f"Best: {', '.join(spelled(*pair) for pair in document['best'].items())}"
    gain = document["best_against_baseline"]
    if gain is not None:
        text += f", {gain['times_as_fast']:.2f} times as fast as the baseline"
        if gain["interval"] is not None:
            low, high = gain["interval"]
            text += f" (95 %: {low:.2f} to {high:.2f})"
    if document["best_arguments"] is not None:
        text += f"; with the arguments {' '.join(document['best_arguments'])}"
    return text + "."


def not_proven(document: dict[str, Any]) -> list[str]:
    """The trials of which a busy machine let nothing be told, by name."""
    return [trial["name"] for trial in document["trials"] if trial["verdict"] == NOT_PROVEN]


def _subject(names: Sequence[str]) -> str:
    """``neither A nor B is``: the subject of that they are not proven."""
    if len(names) == 1:
        return f"{names[0]} is not"
    if len(names) == 2:
        return f"neither {names[0]} nor {names[1]} is"
    return f"none of {len(names)} changes is"


def _gain(search: Search) -> dict[str, Any] | None:
    """The best configuration against the script as it is, by its own samples."""
    if not search.best.values:
        return None
    base, best = search.baseline(), search.best_measured()
    found = ratio(base, best)
    if found is None:
        return None
    interval = found.shown
    return {
        "times_as_fast": 1 / found.value,
        # How many times as fast is the reciprocal of a ratio of times: the ends change places.
        "interval": [1 / interval.high, 1 / interval.low] if interval else None,
        "per": "sample" if base.batch_size and best.batch_size else "step",
    }


def _setting(name: str, at: Applicable | NotApplicable) -> dict[str, Any]:
    where = {"file": str(at.file), "line": at.line}
    if isinstance(at, Applicable):
        said = {"applicable": True, **where, "how": at.how, "own": at.own, "reason": None}
    else:
        said = {"applicable": False, **where, "how": None, "own": None, "reason": at.reason}
    return {"setting": name, **said}


def _trial(row: Row, number: int) -> dict[str, Any]:
    made = row.outcome
    return {
        "number": number,
        "setting": row.trial.setting or None,
        "configuration": dict(row.trial.configuration.values),
        "name": row.name,
        "against": dict(row.against.values),
        **made.to_json(),
        "step_ms": made.median_ms,
        "samples_per_s": made.samples_per_s,
        "latency_ms_per_sample": made.latency_ms,
        "loss": finite(made.loss),
        **row.judgement.to_json(),
    }


def _change(trial: dict[str, Any]) -> str:
    """The trial's name, or what it adds to the configuration that it was held against."""
    against, own = trial["against"], trial["configuration"]
    added = [
        spelled(*pair)
        for pair in own.items()
        if pair[0] not in against or against[pair[0]] != pair[1]
    ]
    return f"+ {', '.join(added)}" if against and own else str(trial["name"])


def _judged(trial: dict[str, Any]) -> str:
    verdict, text = str(trial["verdict"]), str(trial["text"])
    if verdict == NOT_PROVEN:  # why is said once, below
        return f"x{1 / trial['time_ratio']:.2f}, {verdict}"
    return text if verdict == BASELINE or text.startswith(verdict) else f"{verdict}: {text}"


def _memory(trial: dict[str, Any]) -> str:
    host, cuda = (
        "" if trial[name] is None else quantity(trial[name], "B")
        for name in ("peak_rss_bytes", "cuda_max_memory_allocated_bytes")
    )
    return f"{host} + {cuda} cuda" if cuda else host


def _of_memory(trials: list[dict[str, Any]]) -> str:
    """What the figures of :func:`_memory` are."""
    if not any(trial["peak_rss_bytes"] for trial in trials):
        return ""
    cuda = any(trial["cuda_max_memory_allocated_bytes"] for trial in trials)
    return (
        "Memory is the peak resident memory of the script's process tree on the host; pages that "
        "processes share count for each. "
        + ("'cuda' is torch.cuda.max_memory_allocated. " if cuda else "")
        + "Memory of a Tenstorrent device is not measured."
    )


def _loss(trial: dict[str, Any]) -> str:
    """The loss, and how far it is from the one of the same work without the settings."""
    loss, change = trial["loss"], trial["loss_change"]
    shown = f"{loss:.4g}" if isinstance(loss, float) else loss or ""
    return f"{shown} Δ{change * 100:.1g} %" if isinstance(change, float) and change else shown


def _figure(value: float | None) -> str:
    return "" if value is None else number(value)
