#!/usr/bin/env python3
"""The shape of the code, checked as a test rather than by reviewers.

  tidy.py [ROOT]       exit 1 and one line "file:line: rule: what to do" each
  tidy.py --self-test  plants one violation of every rule in a scratch tree

A line that must break a rule says so and why, in a comment on that line or on
the one above: "tidy: allow(rule) reason". The rules:

  length      functions of at most 70 lines, files of at most 800, lines of at
              most 80 columns (string literals, includes and URLs aside)
  opening     a header begins with a comment and has #pragma once; a .cc begins
              with one unless it is the other half of a header
  unfinished  no note to finish something later: finish it, or write it down
              where work is planned
  banned      calls that have a better replacement, which is named
  unbuilt     every .cc is named in the CMakeLists.txt of its folder or above
  kill_point  a kill point's name is a literal that stands in one place only
  machine     no path of somebody's machine
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import scan_cc

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 800
COLUMNS_MAX = 80

CODE = {".h", ".cc"}
TEXT = CODE | {".py", ".sh", ".txt", ".cmake", ".md", ".toml", ".json", ""}
SKIPPED_FOLDERS = {"build", "__pycache__", "node_modules", "data", "golden"}
# Spelled in two pieces, so that this file keeps its own rules.
UNFINISHED = re.compile(r"\b(FIX" r"ME|TO" r"DO|XX" r"X)\b")
MACHINE = re.compile(r"(?:^|[\s\"'`(=:])(/(?:wo" r"rk|ro" r"ot|ho" r"me)/)")
ALLOW = re.compile(r"tidy: allow\((\w+)\) \S")
KILL_POINT = re.compile(r"\bCAIRN_KILL_POINT\(([^)]*)\)")

# (what, where it is banned, what to write instead). A path is relative to the
# root; a test is any file of tests, and code that only tests are built from.
PRODUCT = re.compile(r"^(src|apps|include)/(?!.*_(test|benchmark)\.cc$)")
TESTS = re.compile(r"^(testing|tests)/|_test\.cc$")
EVERYWHERE = re.compile("")
THREADS = re.compile(r"^(apps|include|src/(?!engine/))(?!.*_(test|benchmark))")
BELOW_APPS = re.compile(r"^src/(?!.*_test\.cc$)")
BANNED = [
    (r"\bs?rand\(", EVERYWHERE, "a std::mt19937_64 whose seed is printed"),
    (r"\bstr(n?cpy|n?cat)\(", EVERYWHERE, "std::string"),
    (r"\bv?sn?printf\(", EVERYWHERE, "fmt::format"),
    (r"\b(ato[il]l?|atof|strto\w+)\(", EVERYWHERE, "std::from_chars"),
    (r"\bstd::sto\w+\(", EVERYWHERE, "std::from_chars, which cannot throw"),
    (r"\babsl::Str(Cat|Append|Format)\(", EVERYWHERE, "fmt::format"),
    (r"\bassert\(", EVERYWHERE, "CAIRN_CHECK, which stays on in release"),
    (r"\bstd::endl\b", EVERYWHERE, "'\\n'"),
    (r"\busing namespace (?!\S*literals)", EVERYWHERE, "the names one by one"),
    (r"\b(system|popen)\(", EVERYWHERE, "posix_spawn with an argument list"),
    (r"\b(localtime|gmtime|ctime)\(", EVERYWHERE, "absl::FormatTime"),
    (r"\b(mktemp|tmpnam|tempnam)\(", EVERYWHERE, "O_TMPFILE or TempDir"),
    (r"\bstrerror\(", EVERYWHERE, "PosixError (base/posix.h)"),
    (r"(\b(u|nano)?sleep\(|\babsl::SleepFor\(|\bsleep_(for|until)\()", TESTS,
     "FakeClock, or wait for the event itself"),
    (r"(\bstd::(j?thread\b(?!::)|async\b)|\bpthread_create\()", THREADS,
     "threads in src/engine, which owns them all"),
    (r"(?<!\w)(_?exit|quick_exit)\(", BELOW_APPS, "absl::Status"),
    (r"\bdynamic_cast<", PRODUCT, "a method of the interface"),
]  # fmt: skip
BANNED_COMPILED = [(re.compile(what), w, i) for what, w, i in BANNED]

Finding = tuple[int, str, str]  # line, rule, what to do


def long_lines(file: scan_cc.Source) -> Iterator[Finding]:
    for number, line in enumerate(file.lines, 1):
        if len(line) <= COLUMNS_MAX or "://" in line:
            continue
        # A literal may stick out, a comment can always be broken.
        bare = re.sub(r'"[^"]*"', '""', file.code[number - 1]).rstrip()
        comment = file.comments[number - 1].strip()
        include = bare.startswith("#include")
        if include or (len(bare) <= COLUMNS_MAX and not comment):
            continue
        yield number, "length", f"{len(line)} columns: {COLUMNS_MAX} at most"


def check_code(path: str, text: str) -> Iterator[Finding]:
    file = scan_cc.Source(text)
    yield from long_lines(file)
    for name, first, last in file.functions():
        count = last - first + 1
        if count > FUNCTION_LINES_MAX:
            yield first, "length", f"{name}: {count} lines: take it apart"
    if path.endswith(".h") and "#pragma once" not in text:
        yield 1, "opening", "#pragma once"
    for number, line in enumerate(file.code, 1):
        for what, where, instead in BANNED_COMPILED:
            match = what.search(line)
            if match and where.search(path):
                yield number, "banned", f"{match[0]}: use {instead}"


def check_text(path: str, text: str) -> Iterator[Finding]:
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX and not path.endswith((".md", ".txt")):
        yield 1, "length", f"{len(lines)} lines: {FILE_LINES_MAX} at most"
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line):
            yield number, "unfinished", "finish it, or plan it elsewhere"
        if MACHINE.search(line):
            yield number, "machine", "a path relative to the repository"


def needs_opening(file: Path) -> bool:
    """A header does; x.cc does not where x.h or, for a test, x.cc speaks."""
    subject = file.stem.removesuffix("_test")
    spoken_for = file.with_name(subject + ".h").exists() or (
        subject != file.stem and file.with_name(subject + ".cc").exists()
    )
    return file.suffix == ".h" or (file.suffix == ".cc" and not spoken_for)


def is_built(root: Path, path: Path) -> bool:
    for folder in path.parents:
        if (folder / "CMakeLists.txt").is_file():
            lists = (folder / "CMakeLists.txt").read_text()
            name = str(path.relative_to(folder))
            if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", lists):
                return True
        if folder == root:
            return False
    return False


def source_files(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        hidden = path.name.startswith(".") and path.name != ".ci"
        if hidden or path.is_symlink() or path.name in SKIPPED_FOLDERS:
            continue
        if path.is_dir():
            yield from source_files(path)
        elif path.suffix in TEXT and path.name != "LICENSE":
            yield path


def check(root: Path) -> list[str]:
    found: list[str] = []
    kill_points: dict[str, str] = {}
    for file in source_files(root):
        path = str(file.relative_to(root))
        text = file.read_text(errors="replace")
        findings = list(check_text(path, text))
        if file.suffix in CODE:
            findings += check_code(path, text)
        if not text.startswith("//") and needs_opening(file):
            findings.append((1, "opening", "begin with what this file is"))
        if file.suffix == ".cc" and not is_built(root, file):
            findings.append((1, "unbuilt", "name it in a CMakeLists.txt"))
        if file.suffix in CODE and PRODUCT.match(path):
            findings += check_kill_points(path, text, kill_points)
        found += report(path, text, findings)
    return found


def check_kill_points(
    path: str, text: str, seen: dict[str, str]
) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("#define", "//")):
            continue
        for match in KILL_POINT.finditer(line):
            here, name = f"{path}:{number}", match[1]
            if not re.fullmatch(r'"[a-z0-9_.]+"', name):
                yield number, "kill_point", f'{name}: a literal like "a.b"'
            elif name in seen:
                yield number, "kill_point", f"{name} is also in {seen[name]}"
            seen.setdefault(name, here)


def report(path: str, text: str, findings: list[Finding]) -> Iterator[str]:
    lines = [""] + text.splitlines()
    for number, rule, instead in sorted(findings):
        above = lines[number - 1] if number > 1 else ""
        here = lines[number] if number < len(lines) else ""
        if rule not in ALLOW.findall(above + here):
            yield f"{path}:{number}: {rule}: {instead}"


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        import tidy_self_test

        return tidy_self_test.run(check)
    root = Path(sys.argv[1] if sys.argv[1:] else Path(__file__).parent.parent)
    found = check(root.resolve())
    print("\n".join(found) if found else "tidy: nothing to say")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
