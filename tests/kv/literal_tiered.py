"""A literal two-tier KV cache, block by block: the yardstick of the fast one."""

from __future__ import annotations

import math
from collections import OrderedDict

from tests.engine.naive import Cache


class TieredCache(Cache):
    def __init__(self, blocks, size, cpu_blocks, bandwidth=100.0, base_latency=0):
        super().__init__(blocks, size)
        self.capacity = cpu_blocks
        self.reload_time = base_latency + math.ceil(float(size) / bandwidth)
        self.cpu = OrderedDict()  # chain -> tokens, the oldest first
        self.cpu_misses = self.stores = self.evictions = self.pending = 0
        self.branches = set()

    def mirror(self, batch):
        for req in batch:
            for block in self.held.get(req.id, []):
                chain = self.hash[block]
                if chain is None or len(self.tokens[block]) < self.size:
                    continue
                if chain in self.cpu:
                    self.cpu.move_to_end(chain)
                    continue
                if len(self.cpu) >= self.capacity:
                    self.cpu.popitem(last=False)
                    self.evictions += 1
                self.cpu[chain] = tuple(self.tokens[block])
                self.stores += 1

    def consume(self):
        pending, self.pending = self.pending, 0
        return pending

    def alloc(self, req, start, end, cached):
        if super().alloc(req, start, end, cached):
            return True
        if not self.reload(req.prompt):
            self.cpu_misses += 1
            return False
        found = self.lookup(req.prompt)
        covered = len(found) * self.size
        if covered > start:
            first = math.ceil(start / self.size) if req.id in self.held else 0
            self.branches.add(("entry" if req.id in self.held else "new", covered >= end))
            if covered >= end:
                self.claim(req, found[first : min(math.ceil(end / self.size), len(found))])
                return True
            self.claim(req, found[first:])
            return super().alloc(req, covered, end, found)
        return super().alloc(req, start, end, cached)

    def claim(self, req, blocks):
        if not blocks:
            return
        held = self.held.setdefault(req.id, [])
        for block in blocks:
            if not self.refs[block]:
                self.free.remove(block)
            self.refs[block] += 1
            self.hits += 1
            held.append(block)

    def reload(self, prompt):
        room, done, chain = len(self.free), 0, ()
        for i in range(len(prompt) // self.size):
            chain = (chain, tuple(prompt[i * self.size : (i + 1) * self.size]))
            if chain in self.index:
                continue
            if chain not in self.cpu or done == room:
                break
            block = self.pop()
            self.tokens[block] = list(self.cpu[chain])
            self.hash[block] = chain
            self.index[chain] = block
            self.free.append(block)
            self.pending += self.reload_time
            self.cpu.move_to_end(chain)
            done += 1
        return done > 0
