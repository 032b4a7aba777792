"""docs/findings.md lists the defects that must not come back; each has a test whose name begins with its number."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Findings(unittest.TestCase):
    def test_each_has_a_test(self):
        listed = set(re.findall(r"^\| (C\d+) \|", (ROOT / "docs/findings.md").read_text(), re.MULTILINE))
        self.assertEqual(listed, {f"C{n}" for n in range(1, 34)})
        named = set()
        for folder in ("src", "tests"):
            for file in (ROOT / folder).rglob("*_test.cc"):
                named |= set(re.findall(r"^TEST(?:_F)?\(\w+,\s*(C\d+)_", file.read_text(), re.MULTILINE))
        self.assertEqual(listed - named, set(), "no test is named after these")


if __name__ == "__main__":
    unittest.main()
