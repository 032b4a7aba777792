"""The page at the end of the demo: facts as tables, and pictures."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import platform
import time

# What the original project measured: ResNet50 on ImageNet from a bucket behind 50 Mbps, one machine with GPUs.
ORIGINAL = [("1 GPU", 211.26, 383.01), ("2 GPUs", 224.23, 746.76)]
ORIGINAL_LOCAL = 383.01
COLOURS = {"local": "#2a9d8f", "peer": "#e9c46a", "store": "#e76f51"}


@dataclasses.dataclass
class Reads:
    """Where one worker's reads were served from while a job ran."""
    worker: str
    node: str
    local: int
    peer: int
    store: int

    @property
    def total(self) -> int:
        return self.local + self.peer + self.store

    def share(self, part: str) -> float:
        return 100.0 * getattr(self, part) / self.total if self.total else 0.0


@dataclasses.dataclass
class Facts:
    images: str
    limit: int  # Mbps
    seconds: float
    speeds: dict[str, float]  # "cold", "cached", "plain": images per second of both workers
    reads: dict[str, list[Reads]]  # "cold", "cached"
    losses: dict[str, float]
    table: str  # what `kubectl get sampleset` printed


TITLES = {"cold": "cold", "cached": "cached", "plain": "plain local files"}


def bars(rows: list[tuple[str, float]], unit: str) -> str:
    """A bar chart as SVG."""
    width, left, height, gap = 720, 190, 34, 14
    most = max(value for _, value in rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(rows) * (height + gap) + gap}" '
           'font-family="sans-serif" font-size="15">', '<rect width="100%" height="100%" fill="white"/>']
    for i, (name, value) in enumerate(rows):
        y = gap + i * (height + gap)
        length = (width - left - 140) * value / most
        out += [f'<text x="{left - 10}" y="{y + 22}" text-anchor="end">{name}</text>',
                f'<rect x="{left}" y="{y}" width="{length:.0f}" height="{height}" fill="#4f6d9e"/>',
                f'<text x="{left + length + 8:.0f}" y="{y + 22}">{value:,.0f} {unit}</text>']
    return "\n".join(out + ["</svg>", ""])


def shares(rows: list[tuple[str, Reads]]) -> str:
    """Where reads came from, as bars of 100 %, as SVG."""
    width, left, height, gap = 720, 190, 34, 14
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{(len(rows) + 1) * (height + gap)}" '
           'font-family="sans-serif" font-size="15">', '<rect width="100%" height="100%" fill="white"/>']
    for i, (name, reads) in enumerate(rows):
        x, y = float(left), gap + i * (height + gap)
        out.append(f'<text x="{left - 10}" y="{y + 22}" text-anchor="end">{name}</text>')
        for part, colour in COLOURS.items():
            length = (width - left - 20) * reads.share(part) / 100
            if length <= 0:
                continue
            out.append(f'<rect x="{x:.0f}" y="{y}" width="{length:.0f}" height="{height}" fill="{colour}"/>')
            if length > 50:
                out.append(f'<text x="{x + 6:.0f}" y="{y + 22}" fill="white">{reads.share(part):.1f} %</text>')
            x += length
    y = gap + len(rows) * (height + gap)
    for i, (part, colour) in enumerate(COLOURS.items()):
        x = left + i * 150
        out += [f'<rect x="{x}" y="{y}" width="16" height="16" fill="{colour}"/>',
                f'<text x="{x + 22}" y="{y + 14}">{TITLE_OF_PART[part]}</text>']
    return "\n".join(out + ["</svg>", ""])


TITLE_OF_PART = {"local": "this node", "peer": "the other node", "store": "the store"}


def gain(cold: float, cached: float) -> str:
    return f"{100 * (cached / cold - 1):+.0f} %"


def text(facts: Facts, pictures: list[str]) -> str:
    speeds = facts.speeds
    lines = [
        f"# One run of `make demo`, {time.strftime('%Y-%m-%d %H:%M')}", "",
        f"{facts.images}; 2 collective workers of a PaddleJob on 2 logical nodes of one machine ({os.cpu_count()} cores, "
        f"{platform.machine()}); the store is limited to {facts.limit} Mbps for each node. {facts.seconds:.0f} s in all.", "",
        "## Images per second, both workers", "",
        "| data | images/s | of plain files | loss |", "| --- | --- | --- | --- |"]
    for kind, title in TITLES.items():
        lines.append(f"| {title} | {speeds[kind]:.0f} | {100 * speeds[kind] / speeds['plain']:.0f} % "
                     f"| {facts.losses[kind]:.3f} |")
    lines += ["", f"![images per second]({pictures[0]})", "",
              "*cold*: nothing cached, every block comes from the store. *cached*: after a warm-up SampleJob for this "
              "epoch. *plain*: the files that were imported, from this machine's disk and page cache.", "",
              "## Where each worker's reads came from", "",
              "| job | worker | node | reads | this node | the other node | the store |",
              "| --- | --- | --- | --- | --- | --- | --- |"]
    for kind in ("cold", "cached"):
        for each in facts.reads[kind]:
            lines.append(f"| {TITLES[kind]} | {each.worker} | {each.node} | {each.total} | "
                         + " | ".join(f"{each.share(part):.1f} %" for part in COLOURS) + " |")
    lines += ["", f"![where reads came from]({pictures[1]})", "",
              "A read from the store brings a whole block of up to 4 MiB, and with it a hundred images that are read from this "
              "node later: also cold, few reads go to the store. Their bytes are what takes the time.", "",
              "## Beside the original project's figures", "",
              "Theirs: ResNet50, ImageNet, a bucket behind 50 Mbps, one machine with GPUs. Ours: a small network on "
              "CPUs, images of the same mean size. Compare the gains, not the speeds.", "",
              "| | cold, images/s | cached, images/s | gain | plain files, images/s |", "| --- | --- | --- | --- | --- |"]
    for name, cold, cached in ORIGINAL:
        local = f"{ORIGINAL_LOCAL:.2f}" if name == "1 GPU" else "not given"
        lines.append(f"| original, {name} | {cold:.2f} | {cached:.2f} | {gain(cold, cached)} | {local} |")
    lines.append(f"| this run, 2 workers | {speeds['cold']:.0f} | {speeds['cached']:.0f} | "
                 f"{gain(speeds['cold'], speeds['cached'])} | {speeds['plain']:.0f} |")
    lines += ["", "## The data set", "", "```", facts.table.rstrip(), "```", ""]
    return "\n".join(lines)


def write(facts: Facts, file: pathlib.Path) -> str:
    """Writes the page and its pictures beside it; the page's text."""
    file.parent.mkdir(parents=True, exist_ok=True)
    speed, reads = f"{file.stem}-speed.svg", f"{file.stem}-reads.svg"
    (file.parent / speed).write_text(bars([(TITLES[kind], facts.speeds[kind]) for kind in TITLES], "images/s"))
    rows = [(f"{TITLES[kind]}, {each.worker}", each) for kind in ("cold", "cached") for each in facts.reads[kind]]
    (file.parent / reads).write_text(shares(rows))
    page = text(facts, [speed, reads])
    file.write_text(page)
    return page
