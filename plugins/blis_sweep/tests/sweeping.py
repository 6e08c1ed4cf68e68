"""A plugin that marks what it simulates, and sweeps in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from blis_sweep import worker

PLUGIN = '''
import os, signal, time
import attrs
from blis_core.api import LatencyModel, ValueKind, hookimpl, option


@attrs.frozen(kw_only=True)
class Marks:
    mode: str = option(ValueKind.TEXT, "", "", "What happens at the first step.")
    step_us: int = option(ValueKind.INT, "", 10_000, "Length of a step.", at_least=1)


class Marked(LatencyModel):
    """Writes a line when a simulation starts."""

    analytical = False
    accepts_coefficients = False
    options_class = Marks

    def __init__(self, setup):
        self.options, self.started = setup.options, False

    def step_time(self, shape):
        if not self.started:
            self.started = True
            self.start()
        return self.options.step_us

    def start(self):
        mode = self.options.mode
        with open("started.txt", "a") as file:
            file.write(f"{os.getpid()} {mode}\\n")
        if mode == "slow":
            time.sleep(0.4)
        if mode == "fail":
            raise RuntimeError("no luck")
        if mode == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "print":
            print("noise")


@hookimpl
def blis_register_latency_models(register):
    register("marked", Marked)
'''
RUN = ["run", "--model", "acme/small", "--latency-model", "marked", "--total-kv-blocks", "1000"]
RUN += ["--num-requests", "5", "--output-tokens", "4", "--output-tokens-stdev", "2"]


class InThisProcess:
    """A backend for tests that are not about processes, which take long to start."""

    slots = 1

    def run(self, setup, tasks):
        for task in tasks:
            yield worker.run_task(setup, task)


class Process:
    """A sweep as a process of its own, which a test may kill."""

    def __init__(self, *arguments):
        script = Path(sys.executable).with_name("blis")
        command = [script, "sweep", "--plugin", "marked.py", *arguments, "--", *RUN]
        self.popen = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.pid = self.popen.pid

    def end(self):
        """Exit code, stdout and stderr."""
        out, err = self.popen.communicate(timeout=300)
        return self.popen.returncode, out, err


def wait_for(condition):
    """Wait until ``condition()`` holds, for a minute at most."""
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to that")


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        os.kill(pid, 0)
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
