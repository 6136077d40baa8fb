"""What the instrumented copy carries at its top: signposts, the clock, the barrier, the records.

The function below is copied as text into the script (see :mod:`instrumentor.passes.recorder`),
so it must stand alone, run on Python 3.8 and import only what is always there. It reads

* ``INSTRUMENT_RECORD``: file that gets one JSON object per event, appended and flushed at once;
* ``INSTRUMENT_PROFILER``: tracy, torch, wallclock or auto (signposts when Tracy runs the script);
* ``INSTRUMENT_STEPS``, ``INSTRUMENT_WARMUP``: instead of the numbers written into the copy;
* ``INSTRUMENT_HOOK``: file with ``open_profile()`` / ``close_profile(profile, device)``, used for
  one extra step after the samples;
* ``INSTRUMENT_LOSS``: 1 records each sample's loss, read behind the clock and the barrier. Never
  by default: a loss that is read is an output of the compiled graph, which changes what is timed.
"""


def _instrument_recorder(file, steps, warmup, profiler):
    import atexit
    import itertools
    import json
    import os
    import sys
    import time

    class Recorder:
        """Times regions of the main process; in any other process every method does nothing."""

        def __init__(self):
            self.pid = os.getpid()
            process = sys.modules.get("multiprocessing.process")
            self.active = process is None or (
                process.parent_process() is None
                # a spawned worker that still imports the script
                and not getattr(process.current_process(), "_inheriting", False)
            )
            self.steps = int(os.environ.get("INSTRUMENT_STEPS") or steps)
            self.warmup = int(os.environ.get("INSTRUMENT_WARMUP") or warmup)
            self.hook = os.environ.get("INSTRUMENT_HOOK", "")
            self.losses = os.environ.get("INSTRUMENT_LOSS") == "1"
            self.profile = None  # the open profile of the extra step
            self.samples = []  # milliseconds of every sample, in order
            self.labels = {}  # label -> its steady samples
            self.counts = {}  # label -> number of samples
            self.name = None  # the open region
            self.done = False
            self.device = None
            self.batches = []  # (shape, data type) of the first tensor of each, in this region
            self.started = 0.0
            self.file = None
            self.signpost = self.find_signpost()
            path = os.environ.get("INSTRUMENT_RECORD", "")
            if self.active and path:
                self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            self.write(event="load", file=os.path.abspath(file) if file else "", time=time.time())
            if self.active:
                atexit.register(self.summarise)

        def find_signpost(self):
            wanted = os.environ.get("INSTRUMENT_PROFILER") or profiler
            if self.active and (wanted == "tracy" or (wanted == "auto" and "tracy" in sys.modules)):
                from tracy import signpost  # a failure here is meant to end the run

                return signpost
            return lambda name: None

        def write(self, **event):
            if self.file is not None and os.getpid() == self.pid:
                event["pid"] = self.pid
                os.write(self.file, (json.dumps(event) + "\n").encode())

        def begin(self, *batch, resume=False):
            """Open a region, ahead of the forward; `resume` keeps one that is open."""
            if self.done or not self.active or os.getpid() != self.pid:
                return
            if self.name is not None:
                if resume:
                    self.batches.append(self.tensor_in(batch, 0))
                    return
                self.signpost(self.name + "_cancelled")
                self.write(event="cancelled", name=self.name)
            self.drain()  # what runs still, such as the last optimizer step, is not this sample's
            index = len(self.samples)
            if self.hook and index >= self.steps:
                self.name = "step_profiled"
                self.open_profile()
            elif index == 0:
                self.name = "step_compile"
            else:
                self.name = "step_%s_%d" % ("warmup" if index < self.warmup else "steady", index)
            self.batches = [self.tensor_in(batch, 0)]
            self.signpost(self.name + "_start")
            self.started = time.perf_counter()

        def end(self, *values, label="fwd+bwd", synced=False):
            """Wait for the device, read the clock, record the sample."""
            if self.name is None or os.getpid() != self.pid:
                return
            stopped = time.perf_counter()
            self.wait(values, synced)
            if self.device not in ("cpu", "unknown"):  # nothing was pending there
                stopped = time.perf_counter()
            seconds = stopped - self.started
            self.signpost(self.name + "_end")
            name, self.name = self.name, None
            milliseconds = seconds * 1000.0
            if self.profile is not None:
                self.close_profile(name, milliseconds)
                return
            count = self.counts.get(label, 0)
            self.counts[label] = count + 1
            kind = "compile" if count == 0 else "warmup" if count < self.warmup else "steady"
            self.write(
                event="sample",
                index=len(self.samples),
                name=name,
                kind=kind,
                label=label,
                ms=milliseconds,
                start_s=self.started,
                device=self.device,
                **self.size_of_batches(),
                **({"loss": self.loss_of(values)} if self.losses else {}),
            )
            self.samples.append(milliseconds)
            if self.hook and self.device == "xla":
                self.hook = ""
                self.write(
                    event="warning",
                    text="torch.profiler sees nothing of XLA work: wall clock only",
                )
            if kind == "steady":
                self.labels.setdefault(label, []).append(milliseconds)
            print(
                "[TIMER] Step %d: %s = %.1f ms  (%s)"
                % (len(self.samples), label, milliseconds, "COMPILE" if count == 0 else kind),
                flush=True,
            )

        def wait(self, values, synced):
            """Wait until the device that holds the loss is idle; never open another one."""
            kind = None
            for value in values:
                found = self.device_of(value)
                if found is not None and (kind is None or found != "cpu"):
                    kind = found
                if kind not in (None, "cpu"):
                    break
            kind = kind or self.opened() or self.device
            if kind is None:
                kind = "unknown"
                self.write(event="warning", text="no tensor at the barrier: not waited for")
            self.device = kind
            if kind == "xla" and not synced:
                import torch_xla
                import torch_xla.core.xla_model

                # A sync advances the seed on the device: keep the dropout masks of the script.
                seed = torch_xla.core.xla_model.get_rng_state()
                if hasattr(torch_xla, "sync"):
                    torch_xla.sync(wait=True)
                else:
                    torch_xla.core.xla_model.mark_step(wait=True)
                torch_xla.core.xla_model.set_rng_state(seed)
            self.drain()

        def drain(self):
            """Wait until the device that held the last loss is idle; nothing before the first."""
            if self.device == "xla":
                import torch_xla.core.xla_model

                torch_xla.core.xla_model.wait_device_ops()
            elif self.device in ("cuda", "mps", "xpu"):
                getattr(sys.modules["torch"], self.device).synchronize()

        def device_of(self, value):
            """The accelerator that holds a part of a value, else "cpu" if that does, else None."""
            found, parts = None, [value]
            try:
                for part in parts:  # grows by what the part holds: the nearest come first
                    kind = getattr(getattr(part, "device", None), "type", None)
                    if callable(getattr(type(part), "parameters", None)):
                        inner = list(itertools.islice(part.parameters(), 8))
                    elif isinstance(kind, str) and hasattr(part, "dtype"):
                        if kind not in ("cpu", "meta"):
                            return kind
                        found = "cpu" if kind == "cpu" else found
                        continue
                    elif isinstance(part, dict):
                        inner = list(part.values())
                    elif isinstance(part, (list, tuple)):
                        inner = part
                    elif isinstance(part, (type, type(sys))):
                        continue
                    else:  # an optimizer, a trainer: what its attributes hold
                        inner = list((getattr(part, "__dict__", None) or {}).values())
                    parts.extend(inner[:64] if len(parts) < 400 else ())
            except Exception as error:  # an attribute of the script's own
                if not self.samples:
                    self.write(event="warning", text="the barrier cannot look in: %r" % (error,))
            return found

        def opened(self):
            """The accelerator that the script has opened, None when it has opened none."""
            lowest = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
            if getattr(lowest, "_xla_runtime_is_initialized", bool)():
                return "xla"
            for kind in ("cuda", "xpu"):
                module = getattr(sys.modules.get("torch"), kind, None)
                if getattr(module, "is_initialized", bool)():
                    return kind
            return None

        def tensor_in(self, value, depth):
            """Shape and data type of the first tensor in a batch, or (None, None)."""
            shape = getattr(value, "shape", None)
            if isinstance(shape, tuple) and shape:
                kind = str(getattr(value, "dtype", "")).split(".")[-1]
                return [int(size) for size in shape], kind or None
            value = getattr(value, "data", value)  # a batch of a tokenizer keeps its dict there
            items = list(value.values()) if isinstance(value, dict) else value
            if depth < 3 and isinstance(items, (list, tuple)):
                for item in items[:8]:
                    found = self.tensor_in(item, depth + 1)
                    if found[0]:
                        return found
            return None, None

        def size_of_batches(self):
            """The first batch of the region as it is, all of them by their rows and tokens."""
            (shape, kind), shapes = self.batches[0], [shape for shape, _ in self.batches]
            rows = tokens = None
            if all(shapes):
                rows = sum(shape[0] for shape in shapes)
                whole = kind in ("int64", "int32", "int16") and all(len(s) == 2 for s in shapes)
                tokens = sum(a * b for a, b in shapes) if whole else None
            return {
                "batch_shape": shape,
                "batch_dtype": kind,
                "batch_samples": rows,
                "batch_tokens": tokens,
            }

        def loss_of(self, values):
            """The first single number among what the barrier was given, or None."""
            try:
                for value in values:
                    if isinstance(value, dict):
                        value = value.get("loss")
                    value = getattr(value, "loss", value)
                    if getattr(value, "numel", lambda: 1)() == 1 and hasattr(value, "item"):
                        loss = float(value.item())
                        return loss if loss - loss == 0 else str(loss)  # JSON has no nan
            except Exception as error:
                self.losses = False
                self.write(event="warning", text="the loss cannot be read: %r" % (error,))
            return None

        def finished(self, stepped=True):
            """True once enough samples are taken and an optimizer step has been made."""
            if self.done or not stepped or len(self.samples) < self.steps:
                return self.done
            if self.hook:  # the extra step is still to come
                return False
            self.complete()
            return True

        def complete(self):
            self.done = True
            self.signpost("benchmark_complete")
            if self.device == "cuda":
                peak = sys.modules["torch"].cuda.max_memory_allocated()
                self.write(event="memory", what="torch.cuda.max_memory_allocated", bytes=peak)
            self.write(event="complete", samples=len(self.samples))

        def open_profile(self):
            import runpy

            try:
                functions = runpy.run_path(self.hook)
                self.profile = (functions["close_profile"], functions["open_profile"]())
            except Exception as error:
                self.write(event="warning", text="the profiled step failed: %r" % (error,))
                self.profile = (lambda profile, device: None, None)

        def close_profile(self, name, milliseconds):
            close, profile = self.profile
            self.profile, self.hook = None, ""
            try:
                close(profile, self.device)
            except Exception as error:
                self.write(event="warning", text="the profiled step failed: %r" % (error,))
            self.write(event="profiled", name=name, ms=milliseconds, device=self.device)

        def summarise(self):
            if os.getpid() != self.pid or not self.samples:
                return
            for label, steady in self.labels.items():
                ordered = sorted(steady)
                half = len(ordered) // 2
                median = (
                    ordered[half] if len(ordered) % 2 else sum(ordered[half - 1 : half + 1]) / 2
                )
                print("\n" + "=" * 50)
                print("[TIMER] Summary (%s, steady steps):" % label)
                print("  samples : %d" % len(steady))
                print("  mean    : %.1f ms" % (sum(steady) / len(steady)))
                print("  median  : %.1f ms" % median)
                print("  min     : %.1f ms" % ordered[0])
                print("  max     : %.1f ms" % ordered[-1])
                print("=" * 50 + "\n", flush=True)

    return Recorder()
