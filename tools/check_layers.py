#!/usr/bin/env python3
"""Checks that modules include only what the table below lets them.

The table is the architecture: a new edge is an edit here, reviewed as such.
An edge is listed in full, never inherited. Includes are written from src/, the
root of include/ or the root of the repository ("base/bytes.h",
"cairn/store.h", "testing/temp_dir.h"), so the first folder names the module.

  check_layers.py [ROOT]       exit 1 and one line for each include not allowed
  check_layers.py --self-test  plants bad includes in a scratch tree
"""

import re
import sys
import tempfile
from pathlib import Path

# "cairn" is include/cairn, the public interface.
ALLOWED = {
    "src/base": {"base"},
    "src/io": {"io", "base"},
    "src/object": {"object", "base", "io"},  # docs/decisions/0002
    "src/format": {"format", "base"},
    "src/catalog": {"catalog", "base"},
    "src/policy": {"policy", "base", "catalog"},
    "src/engine": {
        "engine", "cairn", "base", "io", "object", "format", "catalog",
        "policy",
    },
    "include/cairn": {"cairn"},
    "apps/cairn": {"apps", "cairn", "base", "engine"},
}  # fmt: skip
OURS = set().union(*ALLOWED.values()) | {"testing", "tests", "bench", "fuzz"}
# What the public interface may show of other people's: Abseil, and the
# standard library, whose headers have no folder.
PUBLIC_LIBRARIES = {"absl"}
# Libraries that one module hides from all others.
HIDDEN_BY = {
    "liburing.h": "src/io",
    "openssl": "src/base",
    "soci": "src/catalog",
    "CLI": "apps/cairn",
}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def is_test(path: Path) -> bool:
    return path.stem.endswith(("_test", "_benchmark"))


def problem(where: str, path: Path, quote: str, target: str) -> str | None:
    folder = target.split("/")[0] if "/" in target else ""
    if folder in OURS:
        if quote == "<":
            return "our own headers are included with quotes"
        allowed = ALLOWED[where] | ({"testing"} if is_test(path) else set())
        return None if folder in allowed else f"{where} may not use {folder}"
    hider = HIDDEN_BY.get(folder or target)
    if hider:
        return None if where == hider else f"only {hider} may use this library"
    if quote == '"' and not folder:
        return "write the path from the root of the module tree"
    if where == "include/cairn" and folder not in PUBLIC_LIBRARIES | {""}:
        return f"the public interface may not show {folder}"
    return None


def check(root: Path) -> list[str]:
    found = []
    for parent in ("src", "apps"):
        for child in sorted((root / parent).glob("*/")):
            if f"{parent}/{child.name}" not in ALLOWED:
                found.append(f"{parent}/{child.name}: not in the table")
    for where in ALLOWED:
        for path in sorted((root / where).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            lines = path.read_text(errors="replace").splitlines()
            for number, line in enumerate(lines, 1):
                match = INCLUDE.match(line)
                said = match and problem(where, path, match[1], match[2])
                if match and said:
                    name = path.relative_to(root)
                    found.append(f"{name}:{number}: {match[2]}: {said}")
    return found


GOOD = [
    ("src/io/a.cc", '#include "io/a.h"\n#include "absl/status/status.h"\n'),
    ("src/io/a.h", "#include <liburing.h>\n#include <vector>\n"),
    ("src/io/a_test.cc", '#include "testing/temp_dir.h"\n'),
    ("src/engine/a.cc", '#include "cairn/store.h"\n#include "policy/a.h"\n'),
    ("include/cairn/store.h", '#include "absl/status/status.h"\n'),
    ("apps/cairn/main.cc", '#include "engine/a.h"\n'),
    ("testing/x.h", '#include "engine/a.h"\n'),
]
BAD = [
    ("src/base/a.cc", '#include "io/a.h"'),  # upwards
    ("src/io/a.cc", '#include "object/a.h"'),  # sideways
    ("src/policy/a.cc", '#include "io/a.h"'),  # policy decides, never does
    ("src/catalog/a.h", '#include "testing/temp_dir.h"'),  # tests in product
    ("src/io/a_test.cc", '#include "engine/a.h"'),  # a test is no way round
    ("apps/cairn/main.cc", '#include "catalog/a.h"'),  # past the engine
    ("include/cairn/store.h", '#include "base/bytes.h"'),  # inside shown
    ("include/cairn/store.h", "#include <nlohmann/json.hpp>"),
    ("src/io/a.cc", "#include <base/bytes.h>"),
    ("src/io/a.cc", '#include "a.h"'),
    ("src/engine/a.cc", "#include <soci/soci.h>"),
    ("src/novel/a.cc", ""),  # a module nobody decided on
]


def self_test() -> None:
    def plant(root: Path, files: list[tuple[str, str]]) -> Path:
        for name, text in files:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root

    with tempfile.TemporaryDirectory() as scratch:
        found = check(plant(Path(scratch), GOOD))
        assert not found, found
    for name, text in BAD:
        with tempfile.TemporaryDirectory() as scratch:
            root = plant(plant(Path(scratch), GOOD), [(name, text)])
            found = check(root)
            assert len(found) == 1, (name, text, found)
    print(f"layers: {len(BAD)} planted edges found, {len(GOOD)} good files")


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root = Path(sys.argv[1] if sys.argv[1:] else Path(__file__).parent.parent)
    found = check(root.resolve())
    print("\n".join(found) if found else "layers: every include is allowed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
