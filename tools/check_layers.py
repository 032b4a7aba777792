#!/usr/bin/env python3
"""Checks that every #include between rooms follows an arrow of tools/layers.txt.

Also: <room>/internal/ is private to its room, <room>/testing/ is for tests only, and no file of src/
includes cmd/ or tests/. Prints each offence as file:line and exits 1 if there is one.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def read_arrows(path: pathlib.Path) -> dict[str, list[str]]:
    arrows = {}
    for line in path.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            room, _, targets = line.partition(":")
            arrows[room.strip()] = targets.split()
    return arrows


def reachable(arrows: dict[str, list[str]], room: str) -> set[str]:
    seen, todo = set(), [room]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            parent = room_of(arrows, current)
            todo.extend(arrows.get(parent or current, []))
    return seen


def room_of(arrows: dict[str, list[str]], path: str) -> str | None:
    """The longest room name that is a prefix of the path."""
    parts = path.split("/")
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in arrows:
            return name
    return None


def allowed(arrows: dict[str, list[str]], room: str, included: str) -> bool:
    # An arrow to part of a room (api/meta) allows that part and what lies in it.
    return any(included == target or included.startswith(target + "/") for target in reachable(arrows, room))


def check(root: pathlib.Path) -> list[str]:
    arrows = read_arrows(root / "tools" / "layers.txt")
    offences = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        relative = path.relative_to(root / "src").as_posix()
        room = room_of(arrows, relative)
        if room is None:
            offences.append(f"src/{relative}:1: no room in tools/layers.txt has this file")
            continue
        is_test = relative.endswith("_test.cc") or "/testing/" in relative
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            included = match.group(1)
            where = f"src/{relative}:{number}"
            if not (root / "src" / included).exists():
                offences.append(f"{where}: \"{included}\" is not a header below src/")
            elif not allowed(arrows, room, included):
                offences.append(f"{where}: {room} must not include {included}")
            elif "/internal/" in included and room_of(arrows, included) != room:
                offences.append(f"{where}: {included} is internal to its room")
            elif "/testing/" in included and not is_test:
                offences.append(f"{where}: {included} is for tests only")
    return offences


if __name__ == "__main__":
    problems = check(pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT)
    print("\n".join(problems), end="\n" if problems else "")
    sys.exit(1 if problems else 0)
