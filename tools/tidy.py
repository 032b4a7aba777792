#!/usr/bin/env python3
"""Runs clang-tidy over our sources and remembers what was clean.

A file is looked at again when it, anything it includes, its compile command, the checks or the
program changed. The compile of the `clang` preset has to come first: its dependency records say
what a file includes.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/clang"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "paddle-operator/tidy"
TIDY = "clang-tidy-19"


def includes() -> dict[str, list[str]]:
    """What each object file was made from, as ninja recorded it."""
    text = subprocess.run(
        ["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True
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
            path = BUILD / name
            if path.resolve().is_relative_to(ROOT):
                self.known[name] = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                stat = path.stat()
                self.known[name] = f"{name} {stat.st_size} {stat.st_mtime_ns}"
        return self.known[name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("files", nargs="*", help="only these; default: all of src/ and cmd/")
    options = parser.parse_args()

    commands = json.loads((BUILD / "compile_commands.json").read_text())
    wanted = {str((ROOT / name).resolve()) for name in options.files}
    deps, digests = includes(), Digests()
    common = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    common += (ROOT / ".clang-tidy").read_text()
    CACHE.mkdir(parents=True, exist_ok=True)

    todo = []
    for entry in commands:
        name = pathlib.Path(entry["file"])
        if not name.is_relative_to(ROOT) or name.relative_to(ROOT).parts[0] not in ("src", "cmd"):
            continue
        if wanted and str(name) not in wanted:
            continue
        if entry["output"] not in deps:
            sys.exit(f"tools/tidy.py: {name.relative_to(ROOT)} is not built; build the clang preset first")
        key = hashlib.sha256(common.encode())
        key.update(entry["command"].replace(str(ROOT), "").encode())
        for header in deps[entry["output"]]:
            key.update(digests.of(header).encode())
        stamp = CACHE / key.hexdigest()
        if not stamp.exists():
            todo.append((name, stamp))

    def look(item: tuple[pathlib.Path, pathlib.Path]) -> bool:
        name, stamp = item
        done = subprocess.run(
            [TIDY, "-p", BUILD, "--quiet", "--warnings-as-errors=*", name],
            capture_output=True, text=True,
        )
        if done.returncode == 0:
            stamp.touch()
            return True
        print(done.stdout, end="", flush=True)
        if "error:" not in done.stdout:
            print(done.stderr, end="", flush=True)
        return False

    print(f"clang-tidy: {len(todo)} files to look at", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        bad = sum(not clean for clean in pool.map(look, todo))
    if bad:
        print(f"clang-tidy: {bad} files with findings", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
