"""A literal, token-by-token engine for one instance: the yardstick of the fast one.

It follows the rules of the behavioural specification as directly as possible (event heap, lists of
tokens, one block object per block) and shares no code with the product.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

ARRIVAL, ENTER, STEP, LEFT, TIMEOUT = 0, 1, 2, 4, 5
NEVER = 2**63


@dataclass(eq=False)
class Req:
    id: str
    arrival: int
    prompt: list
    output: list
    deadline: int = 0
    max_output: int = 0
    state: str = "queued"
    progress: int = 0
    num_new: int = 0
    ttft: int = -1
    delay: int = -1
    e2e: int = -1
    capped: bool = False
    itl: list = field(default_factory=list)


class Cache:
    def __init__(self, blocks, size):
        self.size = size
        self.total = blocks
        self.tokens = [[] for _ in range(blocks)]
        self.hash = [None] * blocks
        self.refs = [0] * blocks
        self.free = list(range(blocks))
        self.held = {}
        self.index = {}
        self.hits = self.misses = 0

    def lookup(self, tokens):
        found, chain = [], ()
        for i in range(len(tokens) // self.size):
            chain = (chain, tuple(tokens[i * self.size : (i + 1) * self.size]))
            if chain not in self.index:
                break
            found.append(self.index[chain])
        return found

    def pop(self):
        block = self.free.pop(0)
        if self.hash[block] is not None:
            self.index.pop(self.hash[block], None)
            self.hash[block] = None
        self.tokens[block] = []
        return block

    def seal(self, block, before):
        self.hash[block] = (before, tuple(self.tokens[block]))
        self.index[self.hash[block]] = block

    def alloc(self, req, start, end, cached):
        held = self.held.get(req.id)
        prefill = req.progress < len(req.prompt)
        if prefill:
            new = req.prompt[start:end]
            extra = len(new)
            if held:
                spare = self.size - len(self.tokens[held[-1]])
                if 0 < spare < self.size:
                    extra -= min(spare, extra)
            taken = sum(1 for b in cached if not self.refs[b])
            if math.ceil(extra / self.size) + taken > len(self.free):
                return False
        else:
            new = [req.output[start - len(req.prompt)]]
            if (not held or len(self.tokens[held[-1]]) == self.size) and not self.free:
                return False
        if not new:
            return True
        if held is None:
            held = self.held[req.id] = []
            for block in cached:
                if not self.refs[block]:
                    self.free.remove(block)
                self.refs[block] += 1
                self.hits += 1
                held.append(block)
        k = 0
        if held and 0 < len(self.tokens[held[-1]]) < self.size:
            last = held[-1]
            k = min(self.size - len(self.tokens[last]), len(new))
            self.tokens[last] += new[:k]
            if len(self.tokens[last]) == self.size:
                self.seal(last, (self.hash[held[-2]] or ()) if len(held) > 1 else ())
        chain = (self.hash[held[-1]] or ()) if held else ()
        while k < len(new):
            block = self.pop()
            self.tokens[block] = list(new[k : k + self.size])
            self.refs[block] = 1
            self.misses += 1
            if len(self.tokens[block]) == self.size and prefill:
                self.seal(block, chain)
                chain = self.hash[block]
            held.append(block)
            k += self.size
        return True

    def release(self, req):
        for block in reversed(self.held.pop(req.id, [])):
            self.refs[block] -= 1
            if not self.refs[block]:
                self.free.append(block)

    def mirror(self, batch):
        """One tier only."""

    def consume(self):
        return 0


class Engine:
    """``step_time(members)`` gets (progress, new, prompt length, output length) per member."""

    def __init__(self, *, latency, kv, limits, scheduler="fcfs", sign=0, horizon=None):
        self.latency = latency
        self.kv = kv
        self.limits = limits
        self.scheduler = scheduler
        self.sign = sign
        self.horizon = 2**63 - 1 if horizon is None else horizon
        self.heap = []
        self.seq = 0
        self.clock = None
        self.waiting = []
        self.running = []
        self.pending = False
        self.done = []
        self.count = dict.fromkeys(
            "completed preempted dropped timed_out capped failures inputs outputs".split(), 0
        )
        self.itls = []
        self.samples = []
        self.peak = 0
        self.rows = []

    def push(self, time, kind, req=None):
        self.seq += 1
        heapq.heappush(self.heap, (time, kind, self.seq, req))

    def run(self, requests):
        for req in requests:
            self.push(req.arrival, ARRIVAL, req)
        while self.heap:
            time, kind, _, req = heapq.heappop(self.heap)
            if kind == TIMEOUT and req.state == "completed":
                continue
            if time > self.horizon:
                break
            self.clock = time
            if kind == ARRIVAL:
                self.push(time + self.latency.queueing_time(len(req.prompt)), ENTER, req)
            elif kind == ENTER:
                self.enter(req)
            elif kind == STEP:
                self.step(time)
            elif kind == TIMEOUT:
                self.time_out(req)
        return self

    def schedule(self, time):
        self.pending = True
        self.push(time, STEP)

    def enter(self, req):
        longest, size = self.limits.max_model_len, self.kv.size
        prompt = len(req.prompt)
        if req.max_output == 0 and longest and prompt < longest:
            req.max_output = longest - prompt
        if longest and (prompt >= longest or prompt + req.max_output > longest):
            self.count["dropped"] += 1
            return
        if math.ceil(prompt / size) > self.kv.total:
            self.count["dropped"] += 1
            return
        self.count["inputs"] += prompt
        if 0 < req.deadline <= self.clock:
            req.state = "timed_out"
            self.count["timed_out"] += 1
            return
        self.waiting.append(req)
        if 0 < req.deadline <= self.horizon:
            self.push(req.deadline, TIMEOUT, req)
        if not self.pending:
            self.schedule(self.clock)

    def time_out(self, req):
        if req.state == "timed_out":
            return
        if req.state == "running":
            self.running.remove(req)
        else:
            self.waiting.remove(req)
        req.state = "timed_out"
        self.count["timed_out"] += 1
        self.kv.release(req)
        if not self.running and not self.pending and self.waiting:
            self.schedule(self.clock)

    def order(self, now):
        sign = self.sign
        rank = {
            "fcfs": None,
            "priority-fcfs": lambda r: (-sign * 1e-6 * (now - r.arrival), r.arrival, r.id),
            "reverse-priority": lambda r: (sign * 1e-6 * (now - r.arrival), r.arrival, r.id),
            "sjf": lambda r: (len(r.prompt), r.arrival, r.id),
        }[self.scheduler]
        if rank:
            self.waiting.sort(key=rank)

    def room(self, req, n):
        while not self.kv.alloc(req, req.progress, req.progress + n, []):
            self.preempted = True
            victim = self.running.pop()
            victim.state, victim.progress, victim.itl = "queued", 0, []
            self.kv.release(victim)
            self.waiting.insert(0, victim)
            self.count["preempted"] += 1
            if victim is req:
                return False
        return True

    def step(self, now):
        if not self.running and not self.waiting:
            self.pending = False
            return
        self.order(now)
        limits = self.limits
        long = limits.long_prefill or NEVER
        budget, self.preempted = limits.max_tokens, False
        for req in self.running:
            req.num_new = 0
        i = 0
        while i < len(self.running) and budget > 0:
            req = self.running[i]
            left = len(req.prompt) - req.progress
            n = min(left, long, budget) if left > 0 else 1
            if not self.room(req, n):
                break
            budget -= n
            req.num_new = n
            i += 1
        while (
            len(self.running) < limits.max_running
            and self.waiting
            and budget > 0
            and not self.preempted
        ):
            req = self.waiting[0]
            cached = self.kv.lookup(req.prompt)
            start = len(cached) * self.kv.size
            n = min(len(req.prompt) - start, long, budget)
            if not self.kv.alloc(req, start, start + n, cached):
                break
            self.waiting.pop(0)
            self.running.append(req)
            req.state, req.num_new, req.hit = "running", n, start
            req.delay = now - req.arrival
            budget -= n
        self.samples.append(len(self.waiting))
        work = [
            (r.progress, r.num_new, len(r.prompt), len(r.output)) for r in self.running if r.num_new
        ]
        took = max(1, self.latency.step_time(work) + self.kv.consume())
        per_token = took + self.latency.output_token_time()
        self.peak = max(self.peak, self.kv.total - len(self.kv.free))
        for req in self.running:
            if req.progress < len(req.prompt):
                req.progress = max(req.progress, req.hit) + req.num_new
                req.hit = 0
            elif req.num_new:
                req.progress += 1
                req.itl.append(per_token)
            if req.progress == len(req.prompt) and req.ttft < 0:
                req.ttft = now + per_token - req.arrival
        self.kv.mirror(self.running)
        stay = []
        for req in self.running:
            prompt, output = len(req.prompt), len(req.output)
            if req.progress >= prompt + max(output, 1) - 1:
                req.state = "completed"
                fits = output == 0 or self.kv.alloc(req, req.progress, req.progress + 1, [])
                self.count["failures"] += not fits
                self.complete(req, now + took)
            elif limits.max_model_len and req.progress >= limits.max_model_len - 1:
                req.state, req.capped = "completed", True
                self.count["capped"] += 1
                self.complete(req, now + took)
            else:
                stay.append(req)
        self.running = stay
        self.rows.append(
            (now, [(r.id, r.progress) for r in stay], [r.id for r in self.waiting],
             self.kv.total - len(self.kv.free))
        )  # fmt: skip
        self.pending = False
        if stay or self.waiting:
            self.schedule(now + took)

    def complete(self, req, end):
        self.kv.release(req)
        self.push(end, LEFT)
        self.count["completed"] += 1
        k = req.progress - len(req.prompt)
        self.count["outputs"] += k + 1 if k < len(req.output) else k
        req.e2e = req.ttft + sum(req.itl)
        if req.output:
            req.e2e += self.latency.completion_time()
        self.itls += req.itl
