"""The loop of a contestant's process: one JSON request a line, one JSON answer a line.

Needs Python 3.8 and nothing else.

A request is ``{"drain": name, "page": rows or null, ...}``. The answer tells what the whole run cost: seconds, the
process's CPU seconds (all threads), and how much memory it had at the most, and before.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _status(field):
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def _forget_peak():
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")


def measure(run):
    """What one call of ``run``, which returns (rows, bytes or None), costs."""
    _forget_peak()
    before, cpu, start = _status("VmRSS"), time.process_time(), time.perf_counter()
    rows, size = run()
    seconds = time.perf_counter() - start
    return {
        "rows": rows,
        "bytes": size,
        "seconds": seconds,
        "cpu": time.process_time() - cpu,
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
            try:
                answer = measure(run)
            finally:
                after()
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error)[:2000]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
