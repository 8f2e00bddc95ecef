"""What tidy.py must find, and what it must let pass; run by its --self-test."""

import tempfile
from collections.abc import Callable
from pathlib import Path

Check = Callable[[Path], list[str]]

HEAD = "// A file.\n"
HEADER = HEAD + "#pragma once\n"
LISTS = {"src/io/CMakeLists.txt": "cairn_module(io SOURCES a.cc b.cc)\n"}


def function(lines: int, opening: str = "int Long() {") -> str:
    return f"{opening}\n" + "  Step();\n" * (lines - 2) + "}\n"


LONG_STRING = '  Say("' + "x" * 90 + '");\n'
LONG_COMMENT = "// " + "word " * 20 + "\n"
INIT_LIST = "Foo::Foo()\n    : a_{1},\n      b_{2} {"
BRANCHES = "#ifdef A\nvoid F(int a) {\n#else\nvoid F() {\n#endif\n  G();\n}\n"
WORK, ROOT = "/" + "work/x", "/" + "root/x"
LATER = "TO" + "DO"

# Each text must pass as src/io/a.cc (or as the named file).
GOOD = [
    HEAD + function(70),
    HEAD + "namespace n {\n" + function(60) + function(60) + "}\n",
    HEAD + "class A {\n public:\n" + function(50) * 3 + "};\n",
    HEAD + "struct S f() const {\n" + "  if (a) {\n  }\n" * 30 + "}\n",
    HEAD + "const Rule kRules[] = {\n" + '    {"a", F()},\n' * 100 + "};\n",
    HEAD + "#define M(x) \\\n  do {       \\\n" + function(66, "void F() {"),
    HEAD + BRANCHES + function(68),
    HEAD + LONG_STRING,
    HEAD + "// see https://example.org/" + "x" * 80 + "\n",
    HEAD + 'auto t = R"(\n' + "y" * 100 + '\n{ rand() " )";\n' + function(70),
    HEAD + "// rand() is banned; so is sprintf(\n",
    HEAD + "Say(\"rand()\", '\"', '\\'', 1'000'000);\n",
    HEAD + "// tidy: allow(banned) the library wants it\nx = rand();\n",
    HEAD + "int n = std::thread::hardware_concurrency();\n",
    HEAD + 'CAIRN_KILL_POINT("a.one");\nCAIRN_KILL_POINT("a.two");\n',
    HEAD + "static_assert(sizeof(int) == 4);\n",
    HEAD + 'auto p = Dir() + "/a/' + 'work/b";\n',
]
# (rule, file, text): exactly this rule must be found in this file.
BAD = [
    ("length", "src/io/a.cc", HEAD + function(71)),
    ("length", "src/io/a.cc", HEAD + "namespace n {\n" + function(71) + "}\n"),
    ("length", "src/io/a.cc", HEAD + "class A {\n" + function(71) + "};\n"),
    ("length", "src/io/a.cc", HEAD + function(71, "TEST(A, B) {")),
    ("length", "src/io/a.cc", HEAD + function(69, INIT_LIST)),
    ("length", "src/io/a.cc", HEAD + BRANCHES + function(71)),
    ("length", "src/io/a.cc", HEAD + "int x;\n" * 800),
    ("length", "src/io/a.cc", HEAD + "int x = 1" + " + 1" * 20 + ";\n"),
    ("length", "src/io/a.cc", HEAD + LONG_COMMENT),
    ("opening", "src/io/a.cc", "int x;\n"),
    ("opening", "src/io/a.h", HEAD),
    ("opening", "src/io/a.h", "#pragma once\n// Late.\n"),
    ("unfinished", "src/io/a.cc", HEAD + f"// {LATER}: more\n"),
    ("unfinished", "docs/a.md", f"{LATER}: more\n"),
    ("banned", "src/io/a.cc", HEAD + "int x = rand();\n"),
    ("banned", "src/io/a.cc", HEAD + "auto n = std::stoull(text);\n"),
    ("banned", "src/io/a.cc", HEAD + "auto s = absl::StrCat(a, b);\n"),
    ("banned", "src/io/a.cc", HEAD + "std::thread t(F);\n"),
    ("banned", "src/io/a.cc", HEAD + "std::vector<std::thread> t;\n"),
    ("banned", "src/io/a.cc", HEAD + "system(line.c_str());\n"),
    ("banned", "src/io/a.cc", HEAD + "assert(x);\n"),
    ("banned", "testing/a.h", HEADER + "void F() { sleep(1); }\n"),
    ("banned", "testing/a.h", HEADER + "std::this_thread::sleep_for(d);\n"),
    ("unbuilt", "src/io/lost.cc", HEAD),
    ("kill_point", "src/io/a.cc", HEAD + "CAIRN_KILL_POINT(name);\n"),
    ("kill_point", "src/io/a.cc", HEAD + 'CAIRN_KILL_POINT("a.b");\n' * 2),
    ("machine", "docs/a.md", f"run it in `{WORK}`\n"),
    ("machine", "tools/a.sh", f"cd {ROOT}\n"),
    # Permission for one rule is none for another, and needs a reason.
    ("banned", "src/io/a.cc", HEAD + "x = rand();  // tidy: allow(length) a\n"),
    ("banned", "src/io/a.cc", HEAD + "x = rand();  // tidy: allow(banned)\n"),
]


def found_in(check: Check, files: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in files.items():
            path = Path(scratch, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return check(Path(scratch))


def run(check: Check) -> int:
    for text in GOOD:
        found = found_in(check, LISTS | {"src/io/a.cc": text})
        assert not found, (text, found)
    for rule, name, text in BAD:
        found = found_in(check, LISTS | {name: text})
        assert len(found) == 1, (rule, text, found)
        assert found[0].startswith(name) and f": {rule}: " in found[0], found
    twice = {"src/io/a.cc": "x", "src/io/b.cc": "y"}
    for name in twice:
        twice[name] = HEAD + 'CAIRN_KILL_POINT("same");\n'
    found = found_in(check, LISTS | twice)
    assert len(found) == 1 and "src/io/a.cc:2" in found[0], found
    print(f"tidy: {len(BAD) + 1} planted faults found, {len(GOOD)} texts pass")
    return 0
