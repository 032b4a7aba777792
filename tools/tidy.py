#!/usr/bin/env python3
"""Runs clang-tidy over our sources and remembers what was clean.

It reads the sources in the batches of the `tidy` preset: most of its time goes into the headers that
neighbours share. A batch is looked at again when one of its files, anything they include, the compile
command, the checks or the program changed. The compile of the `clang` preset has to come first: its
dependency records say what a file includes.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPILED = ROOT / "build/clang"  # each source alone, with records of what it includes
BATCHES = ROOT / "build/tidy"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "paddle-operator/tidy"
TIDY = "clang-tidy-19"
# A test may copy a string if it reads better so, and its numbers are small.
NOT_FOR_TESTS = "--checks=-performance-*,-bugprone-implicit-widening-of-multiplication-result"


def includes() -> dict[str, list[str]]:
    """What each object file was made from, as ninja recorded it."""
    text = subprocess.run(
        ["ninja", "-C", COMPILED, "-t", "deps"], capture_output=True, text=True, check=True
    ).stdout
    found, current = {}, None
    for line in text.splitlines():
        if line.startswith("    ") and current is not None:
            current.append(line.strip())
        elif ": #deps" in line:
            current = found[line.split(": #deps")[0]] = []
    return found


class Digests:
    """Digests of files, each file read once. Headers outside the tree count by size and time."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def of(self, name: str) -> str:
        if name not in self.known:
            path = COMPILED / name
            if path.resolve().is_relative_to(ROOT):
                self.known[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                stat = path.stat()
                self.known[name] = f"{name} {stat.st_size} {stat.st_mtime_ns}"
        return self.known[name]


def commands(build: pathlib.Path) -> list[dict[str, str]]:
    return json.loads((build / "compile_commands.json").read_text())


def object_of(entry: dict[str, str]) -> str:
    return re.search(r" -o (\S+)", entry["command"])[1]


def sources_of(entry: dict[str, str]) -> list[pathlib.Path]:
    """The files of the tree that a compile command reads: itself, or those of a batch."""
    name = pathlib.Path(entry["file"])
    if not name.is_relative_to(BATCHES):
        return [name]
    return [ROOT / path for path in re.findall(r'^#include "(.*)"$', name.read_text(), re.MULTILINE)]


def is_test(path: pathlib.Path) -> bool:
    return path.name.endswith("_test.cc") or "testing" in path.parts


def is_ours(path: pathlib.Path) -> bool:
    return path.relative_to(ROOT).parts[0] in ("src", "cmd")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*", help="only the batches of these; default: all of src/ and cmd/")
    options = parser.parse_args()

    wanted = {(ROOT / name).resolve() for name in options.files}
    deps, digests = includes(), Digests()
    made_of = {pathlib.Path(entry["file"]): deps.get(object_of(entry)) for entry in commands(COMPILED)}
    common = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    common += (ROOT / ".clang-tidy").read_text()
    CACHE.mkdir(parents=True, exist_ok=True)

    todo = []
    for entry in commands(BATCHES):
        sources = [path for path in sources_of(entry) if is_ours(path)]
        if not sources or (wanted and not wanted.intersection(sources)):
            continue
        checks = [NOT_FOR_TESTS] if all(map(is_test, sources)) else []
        key = hashlib.sha256("".join([common, *checks]).encode())
        key.update(entry["command"].replace(str(ROOT), "").encode())
        for source in sources:
            if made_of.get(source) is None:
                sys.exit(f"tools/tidy.py: {source.relative_to(ROOT)} is not built; build the clang preset first")
            for header in made_of[source]:
                key.update(digests.of(header).encode())
        stamp = CACHE / key.hexdigest()
        if not stamp.exists():
            todo.append((pathlib.Path(entry["file"]), checks, stamp))

    def look(item: tuple[pathlib.Path, list[str], pathlib.Path]) -> bool:
        name, checks, stamp = item
        done = subprocess.run(
            [TIDY, "-p", BATCHES, "--quiet", "--warnings-as-errors=*", *checks, name],
            capture_output=True, text=True,
        )
        if done.returncode == 0:
            stamp.touch()
            return True
        print(done.stdout, end="", flush=True)
        if "error:" not in done.stdout:
            print(done.stderr, end="", flush=True)
        return False

    print(f"clang-tidy: {len(todo)} batches to look at", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        bad = sum(not clean for clean in pool.map(look, todo))
    if bad:
        print(f"clang-tidy: {bad} batches with findings", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
