"""Every warning once: its stable code, level, what it means and what to do about it.

``docs/warnings.md`` is made of this table. A code never changes its meaning and is never given to
another warning: one that goes leaves its code unused.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Weight = Literal["wrong", "caution", "note"]
#: What a level means.
LEVELS: dict[Weight, str] = {
    "wrong": "figures may be wrong",
    "caution": "figures mean less, or something else, than one would think",
    "note": "no figure depends on it; shown with --verbose",
}


class Warned(Struct, frozen=True):
    """One warning.

    Attributes:
        code: for people, ignore lists and search.
        kind: its name in documents.
        title: what it says, without the run's own names.
        why: what it means for the figures.
        remedy: what to do.
    """

    code: str
    kind: str
    weight: Weight
    title: str
    why: str
    remedy: str


_ROWS: tuple[tuple[str, str, Weight, str, str, str], ...] = (
    # The script, as it was read.
    ("W001", "several-processes", "caution", "Several processes train or record",
     "Only the process with most samples is reported; ranks of torchrun are all reported.",
     "Start them with torchrun, or measure one process."),
    ("W002", "breakpoint", "caution", "A breakpoint waits for input",
     "The run would wait there until --timeout.", "Remove the breakpoint."),
    ("W003", "own-profiler", "caution", "The script profiles itself",
     "Its profiler runs inside the timed steps and costs time.", "Switch it off for the run."),
    ("W004", "outlives-stop", "caution", "A process of the script may outlive the early stop",
     "The run waits for it and then ends it.", "Start it as a daemon."),
    ("W005", "own-signposts", "caution", "The script has Tracy signposts of its own",
     "They stay and appear between those of the steps.",
     "Rename them if names clash; else nothing."),
    ("W006", "own-limit", "caution", "The script ends its loop by a count of its own",
     "There may be fewer samples than asked for.", "Raise that count."),
    ("W007", "own-timer", "note", "The script has a timer of its own",
     "It stays and is not used.", "Nothing."),
    ("W008", "no-optimizer-step", "caution", "No optimizer step was found",
     "The run ends after a whole iteration.", "Check the region with explain."),
    ("W009", "sync-inserted", "caution", "A sync is inserted that the script does not have (XLA)",
     "It cuts the graph, and the device draws other random numbers.", "Compare losses, not bits."),
    ("W010", "mesh-default", "caution", "A configuration class has a mesh by default",
     "A YAML without mesh_shape runs on several chips.", "Set mesh_shape in the YAML."),
    ("W011", "host-reads-moved", "caution", "A host read was moved after the timer (XLA)",
     "The script as written may pay for a second forward there.",
     "--host-reads as-written leaves it in its place."),
    ("W012", "host-reads-as-written", "caution", "A host read is timed where it stands (XLA)",
     "It may run the forward a second time.", "--host-reads moved takes it out of the time."),
    ("W013", "host-read-inside", "caution", "A host read is inside the timed region",
     "Its wait for the device is part of each sample.", "Read the loss after the step."),
    ("W014", "fetch-inside", "caution", "The next batch is fetched inside the timed region",
     "Data loading is part of each sample.", "Fetch it before the forward."),
    ("W015", "save-inside", "caution", "A checkpoint is saved inside the timed region",
     "Writing it is part of a sample.", "Save after the step."),
    ("W016", "copy-inside", "caution", "A copy to the device is inside the timed region",
     "Moving the batch is part of each sample.", "Copy it before the forward."),
    ("W017", "random-numbers", "caution", "Random numbers of skipped code are not drawn",
     "Batches or dropout may be others than in the script.",
     "--keep-validation keeps validation."),
    ("W018", "validation-stays", "note", "Validation is kept",
     "It is not in the timed region, and runs once or between epochs; the run takes longer.",
     "Nothing, or make it independent of training."),
    ("W019", "checkpoint-stays", "note", "A checkpoint is kept",
     "It is not in the timed region, and runs once or between epochs; the run takes longer.",
     "Nothing."),
    ("W020", "region-without-loop", "caution", "The region is not in a loop",
     "It may run only once, and its first run also compiles.", "Put the region into a loop."),
    ("W021", "loop-by-options", "note", "The script's options chose one of several loops",
     "With other options another loop trains.", "--loop FILE:LINE chooses a loop."),
    ("W022", "clipping-inside", "caution", "Gradient clipping is inside the timed region",
     "The script's own sync comes after it.", "Compare only with runs that do the same."),
    ("W023", "branch-without-samples", "caution", "A branch trains without samples",
     "A run that takes it has no samples there and does not stop early.",
     "--region can name that branch."),
    ("W024", "longer-sample", "note", "A sample covers more than one forward and backward",
     "The label says what it covers.", "Compare only runs with the same label."),
    ("W026", "other-file", "caution", "A statement of another file stays",
     "A self-contained copy is of one file.", "instrument run edits both files."),
    ("W027", "discovered", "note", "The step was found by running the script",
     "Reading alone was not enough.", "Nothing; --region FILE:START-END saves that run."),
    ("W028", "whole-steps", "caution", "Samples are whole steps",
     "Data loading, logging and callbacks are part of them.",
     "--region names less of the step."),
    ("W029", "validation-unproven", "caution", "Validation is skipped because you asked for it",
     "It could not be proven that nothing depends on it.", "Leave --skip-validation out."),
    ("W030", "checkpoint-unproven", "caution", "Saving is skipped because you asked for it",
     "It could not be proven that nothing depends on it.", "Leave --skip-saving out."),
    ("W031", "branch-by-options", "note", "The script's options rule out another training branch",
     "It is not timed.", "Give the arguments that the script trains with."),
    ("W032", "validation-between", "caution", "Validation is kept between samples",
     "It is not in the timed region, but within the iteration and the throughput. Those of "
     "iterations without it are shown where there are enough.",
     "Validate less often for the run, or make it independent of training."),
    ("W033", "checkpoint-between", "caution", "A checkpoint is kept between samples",
     "It is not in the timed region, but within the iteration and the throughput. Those of "
     "iterations without it are shown where there are enough.",
     "Save less often for the run."),
    ("W034", "validation-inside", "caution", "An evaluation is inside the timed region",
     "It is part of each sample.", "Evaluate after the step."),
    ("W035", "backward-cleared", "note", "A backward trains nothing",
     "Its gradients are cleared before an optimizer steps; it is not in the timed region.",
     "Nothing, or name the lines to time with --region."),
    ("W036", "seen-unread", "caution", "The step runs code that cannot be read",
     "It was seen in a run: validation and saving stay, and host reads in that code are not named.",
     "Nothing, or keep the code of the step in files of the project."),
    ("W037", "one-loop", "caution", "Another training loop is not measured",
     "Each of several loops is a measurement of its own; the one that runs first was taken.",
     "--loop FILE:LINE measures another one."),
    ("W038", "unread-import", "caution", "An imported file does not parse",
     "The step is seen without what it defines, and the script ends where it imports it.",
     "Fix the syntax, or run instrument under the Python that it is written for."),
    ("W039", "uncalled-test", "caution", "The loop runs in tests that only pytest calls",
     "The script by itself does not come to its loop: a run of it measures nothing.",
     "Run it through pytest, with the command that is named."),
    # The run.
    ("W101", "outlived-stop", "note", "A thread or process outlived the last sample",
     "It was ended; the measurement is complete.", "Use a daemon thread."),
    ("W102", "no-gradient", "wrong", "Not every parameter got a gradient",
     "The copy may train something else than the script.", "Compare with --keep-validation."),
    ("W103", "buffers-full", "wrong", "Tracy's device buffers were full",
     "Ops are missing.", "Run fewer --steps, or raise --op-support-count."),
    ("W104", "no-torch-ops", "caution", "torch.profiler recorded no ops",
     "There is the wall clock alone.", "Use more data, or --profiler wallclock."),
    ("W105", "few-samples", "caution", "The script ended before there were enough samples",
     "The median is less certain than asked for.",
     "Give the script more data or epochs."),
    ("W106", "original-changed", "wrong", "The script changed during the run",
     "Figures and source may not belong together.", "Run again."),
    ("W107", "copy-left", "note", "A copy could not be removed",
     "It takes space; no figure depends on it.", "Remove the folder that is named."),
    ("W108", "linked-changed", "wrong", "Linked data changed during the run",
     "The script wrote into folders that are yours.", "Look at the files that are named."),
    ("W109", "no-report", "caution", "Tracy made no report",
     "There are no device figures.", "Run instrument doctor."),
    ("W110", "recorder", "caution", "The recorder could not do something",
     "The message says what is missing.", "As the message says."),
    ("W111", "interrupted", "wrong", "The run was interrupted",
     "Figures are of what came before.", "Run again."),
    ("W112", "exit-code", "wrong", "The script failed",
     "Figures are of what came before.", "Read run.log."),
    ("W113", "text-stays", "note", "Instrumented text of a run in place stays elsewhere",
     "The script moved or copied its own file; no figure depends on it.", "As the message says."),
    ("W114", "debug-tools", "wrong", "The watcher or kernel prints were on",
     "They slow kernels down and share their memory with the profiler.",
     "Unset TT_METAL_WATCHER and TT_METAL_DPRINT...; measure again."),
    ("W115", "counters", "caution", "Counters or a trace of the NoC were collected",
     "They make kernels longer: the limits of an op are right, its time is not.",
     "Take times from a run without --counters and --noc-trace."),
    ("W116", "no-programs", "note", "ttnn tells no device time of its programs",
     "Without it and without Tracy there is the wall clock alone.",
     "Use fast dispatch (no TT_METAL_SLOW_DISPATCH_MODE) on a local device."),
    ("W117", "programs-lost", "caution", "Steps are left out of ttnn's device time",
     "Records of their programs were lost.", "Take shorter steps."),
    # The clock.
    ("W201", "busy-machine", "wrong", "The machine was busy",
     "Other processes used more than a quarter of the CPUs: times are too long and scatter; "
     "nothing is concluded from them.", "Measure again when it is quiet, or compare --refs."),
    ("W202", "slower-clock", "wrong", "The CPU's clock fell during the run",
     "Later steps are slower: heat, or a power limit.", "Cool the machine; measure again."),
    ("W203", "shared-device", "wrong", "Another process had the device open",
     "It may have used it during the run.", "End it; measure again."),
    ("W204", "not-steady", "wrong", "The steps became faster or slower during the run",
     "Warm-up, others on the machine, or its clock; the interval holds both ends.",
     "Give more --warmup where the steps became faster in the first half; else more --steps, or "
     "a longer --time-budget where that ended the run, on a quiet machine."),
    ("W205", "outlier", "caution", "A step is an outlier",
     "Warm-up, another process, or a recompilation; the median hardly moves.",
     "Give more --steps."),
    ("W206", "scatter", "caution", "The median is uncertain",
     "The steps differ too much for their number.", "Give more --steps."),
    ("W207", "recompiled", "caution", "Later steps compiled",
     "They are not steady steps; once is usual for the optimizer's graph.",
     "Pad to fixed sizes where it happens more often."),
    ("W208", "several-kinds", "wrong", "Steps of several kinds take turns",
     "Their common median describes none of them.", "--loop or --region times one of them."),
    ("W209", "no-steady-step", "wrong", "There is no steady step",
     "What is shown also compiles and warms up.", "Give more --steps."),
    ("W210", "unended-samples", "wrong", "Samples were begun and never ended",
     "What was timed may be only a part of a step.", "--region names the whole step."),
    ("W211", "not-waited-for", "caution", "Steps were not counted",
     "The device could not be shown to be idle after them.",
     "Return the loss from the step as a tensor."),
    ("W212", "barrier-unconfirmed", "wrong", "The barrier was not confirmed",
     "Work may have been left on the device.", "Return the loss from the step as a tensor."),
    ("W213", "damaged-record", "caution", "A part of the record is damaged",
     "It was left out.", "Run again."),
    ("W214", "profiler-cost", "caution", "Tracy makes the wall clock longer",
     "It is some 10 to 15 % longer.", "--untraced measures by how much."),
    ("W215", "no-split", "note", "Tracy does not split host time",
     "Python and PJRT are one figure.", "Nothing."),
    ("W216", "no-mfu", "caution", "There is no MFU",
     "The record does not say how many samples each step had.", "Nothing."),
    ("W217", "no-flops", "note", "The model's FLOPs are not known",
     "An op that computes has no formula.", "report --flops N --peak-tflops N takes yours."),
    # Ops and their files.
    ("W218", "late-rank", "caution", "The other ranks wait for one rank",
     "Every step takes as long as its slowest rank.", "Compare its data, host and device."),
    ("W219", "ranks-missing", "wrong", "Ranks recorded no steps",
     "What they took is not known.", "Read run.log: they may have failed."),
    ("W220", "throttled", "wrong", "A device was throttled",
     "Its clock fell during the steps: heat, or a power limit.", "Cool it; measure again."),
    ("W221", "memory-grows", "caution", "Device memory grows with each step",
     "A longer run ends when it is full.", "Do not keep tensors of a step on the device."),
    ("W222", "graph-break", "caution", "torch.compile makes several graphs of the step",
     "Each is dispatched by itself.", "Move what breaks the graph out of the compiled code."),
    ("W223", "fallback", "caution", "Ops run on the host",
     "The device waits for the host in each step.", "Move them out, or use another op."),
    ("W224", "new-graph", "caution", "Steps keep recompiling",
     "Their graph changes from step to step; none could be replayed as a trace.",
     "Keep shapes and indices the same."),
    ("W225", "gradients-dropped", "caution", "Gradients are freed between micro-steps",
     "Micro-steps have graphs of two kinds, which hinders a runtime trace.",
     "Call zero_grad(set_to_none=False)."),
    ("W226", "busy-extra-steps", "caution", "The machine was busy during extra steps",
     "Other processes used more than a quarter of the CPUs while phases, modules or ops were "
     "timed; the iteration and its interval are of other steps.",
     "Measure again when it is quiet."),
    ("W301", "simulated", "wrong", "The device was simulated",
     "Results are real; no time was measured on a device.", "Run it on a device."),
    ("W302", "no-ops", "caution", "The profile holds no ops",
     "There is the wall clock alone.", "Profile again."),
    ("W303", "no-device", "caution", "There are no device figures",
     "The message says why.", "As the message says."),
    ("W304", "profiled-overhead", "caution", "The overhead is that of the profiled step",
     "torch.profiler slows the host down.", "Read it as an upper bound."),
    ("W305", "longer-than-wall", "wrong", "The device worked longer than the step took",
     "The clock did not wait for it, or ops of sub-devices overlap.",
     "Report it, with the run folder."),
    ("W306", "no-overhead", "caution", "There is no overhead",
     "The wall clock of the step that is shown is not known.", "Show another --step."),
    ("W307", "architecture", "caution", "The architecture is assumed or unknown",
     "Utilisation is blank, or against the peaks of another one.", "--arch NAME names it."),
    ("W308", "unusual-step", "wrong", "The step that is shown is unusual",
     "It stands for no other step.", "Show another --step."),
    ("W309", "large-file", "caution", "Only the chosen step was read",
     "The file is large; other steps have no device time here.", "Nothing."),
    ("W310", "file-order", "wrong", "Rows are not in the order of their times",
     "Gaps and the busy share may be wrong.", "--tracing-mode for replays of a trace."),
    ("W311", "no-steps", "caution", "There are no step signposts",
     "Another part of the file is shown.",
     "--start-signpost and --end-signpost choose it."),
    ("W312", "trace-replay", "caution", "Ops are replays of a trace",
     "They carry the host time of its capture.", "--tracing-mode keeps the order of the file."),
    ("W313", "different-ops", "wrong", "Devices did not run the same ops",
     "Figures of these ops are unreliable.", "--no-merge-devices shows each device."),
    ("W314", "unbalanced", "caution", "One device takes longer than the others",
     "The others wait for it in collectives.", "Balance the work."),
    ("W315", "invalid-durations", "wrong", "Ops have no valid duration",
     "They are left out of the figures.", "Profile again."),
    ("W316", "sparse-matmuls", "caution", "Sparse matmuls have no utilisation",
     "Their number of active experts is unknown.", "--active-experts K gives it."),
    ("W317", "above-peak", "wrong", "Ops show more than the peak",
     "The architecture or the core count is probably wrong.", "--arch NAME changes it."),
    ("W318", "program-cache", "caution", "Ops missed the program cache",
     "They were compiled within the window.", "Show a later --step."),
    ("W319", "const-eval", "caution", "Ops evaluate constants",
     "A steady step should not repeat that.", "Show a later --step."),
    ("W320", "sub-devices", "caution", "Ops had different worker grids",
     "They may overlap: sums are not elapsed time.", "Nothing."),
    ("W321", "pauses", "caution", "Long gaps are pauses of the host",
     "They are left out of the potential savings.", "Show a steady --step."),
    ("W322", "device-only", "caution", "The file has times of the device alone",
     "It has no names of ops, or no signposts.", "Use ops_perf_results.csv."),
    ("W323", "not-a-number", "wrong", "Cells are not numbers",
     "They count as blank.", "Write the file again."),
    ("W324", "one-of-several", "caution", "One of several reports is shown",
     "The newest one is shown.", "Give the report that you mean."),
    ("W325", "run-json", "caution", "run.json cannot be read",
     "The facts of the run are missing.", "Run again."),
    ("W326", "step-passed-over", "caution", "An unusual step is not shown",
     "An earlier steady step is shown in its place.", "--step N shows it."),
)  # fmt: skip
WARNINGS = tuple(Warned(*row) for row in _ROWS)
#: Warnings that may be meant: so many at most, and so alike, as :mod:`difflib` counts it.
_MOST_NEAR, _ALIKE = 5, 0.7
_BY_KIND = {each.kind: each for each in WARNINGS}
_BY_CODE = {each.code: each for each in WARNINGS}


def code_of(kind: str) -> str:
    """The code of a warning by its name in documents; empty for what has none."""
    found = _BY_KIND.get(kind)
    return "" if found is None else found.code


def weight_of(kind: str) -> Weight | None:
    """What a warning weighs by its name in documents; None of what has no code."""
    found = _BY_KIND.get(kind)
    return None if found is None else found.weight


def near(word: str) -> tuple[Warned, ...]:
    """Warnings of which a code or name that there is not may be meant, the likeliest first."""
    from difflib import get_close_matches  # of a mistake alone: commands do not wait for it

    said = word.lower()
    parts = [each.kind for each in WARNINGS if len(said) > 2 and said in each.kind]
    names = [*_BY_KIND, *(each.code.lower() for each in WARNINGS)]
    alike = get_close_matches(said, names, _MOST_NEAR, cutoff=_ALIKE)
    found = (explained(name) for name in dict.fromkeys([*parts, *alike]))
    return tuple(each for each in found if each is not None)[:_MOST_NEAR]


def explained(code: str) -> Warned | None:
    """The warning of a code, or of a name in documents; None where there is none."""
    return _BY_CODE.get(code.upper()) or _BY_KIND.get(code)
