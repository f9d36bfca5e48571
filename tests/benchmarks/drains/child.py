"""The loop of a contestant's process: one JSON request a line, one JSON answer a line.

Needs Python 3.8 and nothing else.

A request is ``{"drain": name, "page": rows or null, ...}``. The answer tells what a run cost: seconds, the process's
CPU seconds (all threads), and how much memory it had at the most, and before. A short run is repeated, and the answer
has the average: a moment in which the machine does something else weighs less.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Runs are repeated until they have taken so long together.
SECONDS = 1.0


def _status(field):
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def _forget_peak():
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")


def measure(run, after):
    """What a call of ``run``, which returns (rows, bytes or None), costs; ``after`` cleans up after each."""
    _forget_peak()
    before, seconds, cpu, runs = _status("VmRSS"), 0.0, 0.0, 0
    while seconds < SECONDS:
        cpu_then, then = time.process_time(), time.perf_counter()
        try:
            rows, size = run()
            seconds += time.perf_counter() - then
            cpu += time.process_time() - cpu_then
        finally:
            after()
        runs += 1
    return {
        "rows": rows,
        "bytes": size,
        "seconds": seconds / runs,
        "cpu": cpu / runs,
        "peak": _status("VmHWM"),
        "before": before,
    }


def serve(prepare):
    """Answers requests until standard input ends.

    ``prepare(request)`` returns the function to measure, and perhaps another one that cleans up after each run.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    ready = {}
    for line in sys.stdin:
        try:
            # Building a pipeline and asking for the schema is no part of draining it.
            if line not in ready:
                made = prepare(json.loads(line))
                ready[line] = made if isinstance(made, tuple) else (made, lambda: None)
            run, after = ready[line]
            answer = measure(run, after)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:2000]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
