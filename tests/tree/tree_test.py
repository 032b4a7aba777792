"""The tree keeps its promises: arrows, the map, a README in every room, links that lead somewhere."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_layers  # noqa: E402


def rooms() -> list[str]:
    """Every folder below src/ that has a CMakeLists.txt calling paddleop_room."""
    found = []
    for path in (ROOT / "src").rglob("CMakeLists.txt"):
        if "paddleop_room(" in path.read_text():
            found.append(path.parent.relative_to(ROOT / "src").as_posix())
    return sorted(found)


class Layers(unittest.TestCase):
    def test_every_include_follows_an_arrow(self):
        self.assertEqual(check_layers.check(ROOT), [])

    def test_a_wrong_arrow_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "tools").mkdir()
            (root / "tools" / "layers.txt").write_text("base:\nnet: base\n")
            (root / "src/base").mkdir(parents=True)
            (root / "src/net/internal").mkdir(parents=True)
            (root / "src/net/a.h").write_text("")
            (root / "src/base/b.cc").write_text('#include "net/a.h"\n')
            self.assertEqual(check_layers.check(root), ["src/base/b.cc:1: base must not include net/a.h"])


class Map(unittest.TestCase):
    def test_the_map_names_every_room_and_no_other(self):
        text = (ROOT / "docs/architecture.md").read_text()
        named = set(re.findall(r"^\| `src/([^`]+)`", text, re.MULTILINE))
        self.assertEqual(named, set(rooms()))

    def test_every_room_has_a_readme(self):
        missing = [r for r in rooms()
                   if not (ROOT / "src" / r / "README.md").exists()
                   and not (ROOT / "src" / r).parent.joinpath("README.md").exists()]
        self.assertEqual(missing, [])


class Metrics(unittest.TestCase):
    def test_the_list_for_users_names_every_metric_and_no_other(self):
        named = set(re.findall(r"^\| `(paddleop_[a-z0-9_]+)`", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
        there = set()
        for header in (ROOT / "src").rglob("metrics.h"):
            there |= set(re.findall(r'constexpr char k\w+\[\]\s*=\s*"([a-z0-9_]+)";', header.read_text()))
        self.assertEqual(named, there, "docs/metrics.md and the constants in the rooms' metrics.h differ")


class Documents(unittest.TestCase):
    def test_relative_links_lead_somewhere(self):
        broken = []
        files = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
        for name in files.stdout.split():
            for target in re.findall(r"\]\(([^)#\s]+)", (ROOT / name).read_text()):
                if "://" not in target and not (ROOT / name).parent.joinpath(target).exists():
                    broken.append(f"{name}: {target}")
        self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main()
