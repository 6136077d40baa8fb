"""What a tuning found: a document, a table, a plot, and `best.diff` for `git apply`."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instrumentor.tune.edits import Refusal, applied, patch
from instrumentor.tune.judge import BASELINE, CHANGES_LOSS, KEPT, NO_GAIN
from instrumentor.tune.levers import WARMUP
from instrumentor.tune.search import Row
from instrumentor.tune.tuning import Tuned

SCHEMA = "instrument-tune/1"
PATCH = "best.diff"
_COLUMNS = (
    "",
    "setting",
    "compile ms",
    "step ms",
    "samples/s",
    "ms/sample",
    "memory",
    "loss",
    "against the best so far",
)
_COLORS = {BASELINE: "#6b7280", KEPT: "#15803d", NO_GAIN: "#94a3b8", CHANGES_LOSS: "#b45309"}
_OTHER_COLOR = "#b91c1c"


@dataclass(frozen=True)
class Report:
    """Everything a tuning says.

    Attributes:
        document: schema ``instrument-tune/1``.
        patch: the recommended change; empty when there is none, or it is in the arguments only.
    """

    document: dict[str, Any]
    patch: bytes


def make_report(tuned: Tuned) -> Report:
    """Everything a tuning says."""
    search = tuned.search
    best = applied(tuned.target, search.best)
    change = patch(tuned.target, search.best) if search.best.values else b""
    arguments = list(best.arguments) if best.arguments != tuned.target.arguments else None
    document = {
        "schema": SCHEMA,
        "script": str(tuned.target.script),
        "arguments": list(tuned.target.arguments),
        "folder": str(tuned.folder),
        "strategy": tuned.options.strategy,
        "best": search.best.to_json(),
        "best_arguments": arguments,
        "best_against_baseline": _gain(tuned),
        "patch": PATCH if change else None,
        "patch_root": str(tuned.target.project.root),
        "out_of_budget": search.out_of_budget,
        "noise_percent": round(search.noise.time * 100, 3),
        "drift_percent": round(search.drift * 100, 3),
        "loss_tolerance": tuned.options.loss_tolerance,
        "levers": [_lever(name, site) for name, site in tuned.survey.items()],
        "trials": [_trial(row, number) for number, row in enumerate(search.rows, 1)],
        "notes": notes(tuned),
        "duration_s": round(tuned.duration_s, 1),
    }
    return Report(document, change)


def write(tuned: Tuned, report: Report) -> dict[str, Path]:
    """Write tune.json, tune.md, tune.png and best.diff; returns them by name."""
    folder = tuned.folder
    files = {"json": folder / "tune.json", "markdown": folder / "tune.md"}
    files["json"].write_text(json.dumps(report.document, indent=2) + "\n", encoding="utf-8")
    files["markdown"].write_text(markdown(report), encoding="utf-8")
    files["plot"] = folder / "tune.png"
    plot(tuned.search.rows, files["plot"])
    old = folder / PATCH
    old.unlink(missing_ok=True)
    if report.patch:
        old.write_bytes(report.patch)
        files["patch"] = old
    return files


def notes(tuned: Tuned) -> list[str]:
    """What a reader of the figures has to know."""
    search = tuned.search
    found = [
        "Wall clock only, without a profiler: what is compared is the time of a step. With runtime "
        "trace nothing else is possible, because Tracy's device profiling crashes then."
    ]
    traced = any(row.ask.setting.get("trace") for row in search.rows)
    if traced and tuned.options.rewrite.warmup < WARMUP:
        found.append(
            f"With fewer than {WARMUP} warm-up steps the capture of a trace counts as a step."
        )
    found += [f"{said}." for said in search.untried]
    if search.drift:
        found.append(
            f"The machine drifted: the first and the last baseline run differ by "
            f"{search.drift * 100:.1f} %. Verdicts on differences of that size are not to be "
            "trusted; tune again when nothing else runs."
        )
    elif search.noise.time:
        found.append(
            f"Two baseline runs differ by {search.noise.time * 100:.1f} %: a smaller "
            "gain is not kept."
        )
    loss = search.noise.loss
    if loss is not None and loss > tuned.options.loss_tolerance:
        found.append(
            f"The loss of two baseline runs differs by {loss * 100:.1f} %, more than "
            "the tolerance: the effect of a setting on it cannot be judged. Give the script a "
            "fixed seed."
        )
    if not any(row.measured.outcome.losses for row in search.rows):
        found.append("No loss was seen: the effect of a setting on it cannot be judged.")
    else:
        found.append(
            "The loss is read behind the clock of each step, in these trials only: a loss that is "
            "read is an output of the compiled graph."
        )
    if any(row.measured.outcome.peak_rss_bytes for row in search.rows):
        found.append(
            "Memory is the peak resident memory of the script's process tree on the host; pages "
            "that processes share count for each. 'cuda' is torch.cuda.max_memory_allocated. "
            "Memory of a Tenstorrent device is not measured."
        )
    if search.out_of_budget:
        found.append("The budget was used up before everything was tried: --resume goes on.")
    return found


def table(document: dict[str, Any]) -> list[tuple[str, ...]]:
    """The trials as rows of text under :data:`COLUMNS`."""
    return [_COLUMNS, *(_cells(trial) for trial in document["trials"])]


def columns_of_text(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as aligned lines, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    right = set(range(2, len(widths) - 1))
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def markdown(report: Report) -> str:
    """The document for people."""
    document = report.document
    head, *rows = table(document)
    lines = [f"# Tuning of {Path(document['script']).name}", "", conclusion(document), ""]
    lines += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    refused = [lever for lever in document["levers"] if not lever["applicable"]]
    if refused:
        lines += ["", "## Not tried", ""]
        lines += [f"- {x['lever']}: {x['file']}:{x['line']}: {x['reason']}" for x in refused]
    lines += ["", "## Notes", "", *(f"- {note}" for note in document["notes"])]
    if report.patch:
        text = report.patch.decode("utf-8", "backslashreplace")
        lines += ["", f"## {PATCH}", "", "```diff", text.rstrip("\n"), "```"]
    return "\n".join(lines) + "\n"


def conclusion(document: dict[str, Any]) -> str:
    """The result in a sentence or two."""
    if not document["best"]:
        return "No setting brings a significant gain: keep the baseline."
    settings = ", ".join(
        name if value is True else f"{name} {value}" for name, value in document["best"].items()
    )
    gain = document["best_against_baseline"]
    text = f"Best: {settings}"
    if gain is not None:
        text += f", {gain['times_as_fast']:.2f} times as fast as the baseline"
        if gain["interval"] is not None:
            low, high = gain["interval"]
            text += f" (95 % interval {low:.2f} .. {high:.2f})"
    if document["best_arguments"] is not None:
        text += f"; with the arguments {' '.join(document['best_arguments'])}"
    return text + "."


def plot(rows: Sequence[Row], path: Path) -> None:
    """Throughput of each trial (steps a second where the batch size is unknown), with intervals."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from instrumentor_analysis.intervals import median_interval

    shown = [row for row in rows if row.measured.outcome.measured]
    by_rate = all(row.measured.batch_size for row in shown)
    figure = Figure(figsize=(9, 1.2 + 0.42 * max(1, len(rows))), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for position, row in enumerate(rows):
        made = row.measured.outcome
        color = _COLORS.get(row.judgement.verdict, _OTHER_COLOR)
        if not made.measured:
            axes.text(0, position, f" {made.status}", va="center", color=color)
            continue
        work = 1000.0 * (row.measured.batch_size or 1 if by_rate else 1)
        value = work / statistics.median(made.samples_ms)
        around = median_interval(made.samples_ms)
        error = None
        if around is not None and around.low > 0:
            error = [[max(0.0, value - work / around.high)], [max(0.0, work / around.low - value)]]
        axes.barh(position, value, xerr=error, color=color, height=0.66, capsize=3)
    axes.set_yticks(range(len(rows)), [_name(row) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("samples a second" if by_rate else "steps a second")
    axes.set_title("green: kept; whiskers: interval of the median", fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)


def _name(row: Row) -> str:
    return f"{row.ask.setting}{('', ' again', ' at the end')[row.ask.again]}"


def _gain(tuned: Tuned) -> dict[str, Any] | None:
    """The best setting against the script as it is, by its own samples."""
    from instrumentor_analysis.comparison.ratio import ratio_of_medians

    search = tuned.search
    if not search.best.values:
        return None
    base = search.baseline()
    best = next(row.measured for row in search.rows if row.ask.setting == search.best)
    per = (base.batch_size, best.batch_size) if base.batch_size and best.batch_size else (1, 1)
    ratio = ratio_of_medians(
        [ms / (per[0] or 1) for ms in base.outcome.samples_ms],
        [ms / (per[1] or 1) for ms in best.outcome.samples_ms],
    )
    if ratio is None:
        return None
    interval = ratio.interval
    return {
        "times_as_fast": 1 / ratio.value,
        "interval": [1 / interval.high, 1 / interval.low] if interval else None,
        "per": "sample" if per != (1, 1) else "step",
    }


def _lever(name: str, site: Any) -> dict[str, Any]:
    refused = isinstance(site, Refusal)
    return {
        "lever": name,
        "applicable": not refused,
        "file": str(site.file),
        "line": site.line,
        "how": None if refused else site.how,
        "own": None if refused else site.own,
        "reason": site.reason if refused else None,
    }


def _trial(row: Row, number: int) -> dict[str, Any]:
    made = row.measured.outcome
    loss = made.loss
    return {
        "number": number,
        "lever": row.ask.lever or None,
        "setting": row.ask.setting.to_json(),
        "name": _name(row),
        "against": row.against.to_json(),
        "status": made.status,
        "reason": made.reason,
        "label": made.label or None,
        "compile_ms": made.compile_ms,
        "step_ms": made.median_ms,
        "samples_ms": list(made.samples_ms),
        "batch_size": row.measured.batch_size,
        "samples_per_s": row.measured.samples_per_s,
        "latency_ms_per_sample": row.measured.latency_ms,
        "peak_rss_bytes": made.peak_rss_bytes,
        "cuda_max_memory_allocated_bytes": made.device_memory_bytes,
        "device": made.device or None,
        "loss": loss if loss is None or math.isfinite(loss) else str(loss),
        "folder": made.folder or None,
        "duration_s": made.duration_s,
        "warnings": list(made.warnings),
        **row.judgement.to_json(),
    }


def _cells(trial: dict[str, Any]) -> tuple[str, ...]:
    loss = trial["loss"]
    verdict, text = trial["verdict"], trial["text"]
    said = text if verdict == BASELINE or text.startswith(verdict) else f"{verdict}: {text}"
    cuda = trial["cuda_max_memory_allocated_bytes"]
    memory = _mebibytes(trial["peak_rss_bytes"])
    return (
        "*" if verdict == KEPT else "",
        str(trial["name"]),
        _figure(trial["compile_ms"]),
        _figure(trial["step_ms"]),
        _figure(trial["samples_per_s"]),
        _figure(trial["latency_ms_per_sample"]),
        f"{memory} + {_mebibytes(cuda)} cuda" if cuda else memory,
        "" if loss is None else (loss if isinstance(loss, str) else f"{loss:.4g}"),
        said,
    )


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _mebibytes(value: int | None) -> str:
    return "" if value is None else f"{value / 2**20:.0f} MiB"
