"""Just enough C++ to lint it: comments, literals and functions told apart.

It relies on code that clang-format laid out and a compiler took. Literals and
comments are blanked, character for character, so that line numbers and columns
stay true; of #if branches only the first is looked at, so braces balance.
"""

import re
from collections.abc import Iterator

TOKEN = re.compile(
    r"""
    (?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/)
  | (?P<raw>R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)")
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')
    """,
    re.VERBOSE | re.DOTALL,
)
# A block that opens names, not statements.
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
NAME = re.compile(r"([~\w:]+|operator\S+)\s*\(")


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


class Source:
    """One file: `lines` as written, `code` with literals' contents and comments
    blanked, `comments` with everything but comments blanked."""

    def __init__(self, text: str) -> None:
        code, comments, end = [], [], 0
        for match in TOKEN.finditer(text):
            code.append(text[end : match.start()])
            comments.append(blank(text[end : match.start()]))
            token, end = match[0], match.end()
            is_comment = match["comment"] is not None
            comments.append(token if is_comment else blank(token))
            if is_comment:
                code.append(blank(token))
            else:
                quote = "'" if token[-1] == "'" else '"'
                code.append(quote + blank(token[1:-1]) + quote)
        code.append(text[end:])
        comments.append(blank(text[end:]))
        self.lines = text.split("\n")
        self.code = "".join(code).split("\n")
        self.comments = "".join(comments).split("\n")

    def functions(self) -> Iterator[tuple[str, int, int]]:
        """(name, first line, last line) of each function outside functions."""
        code = "\n".join(without_directives(self.code))
        stack: list[tuple[str, int]] = []  # kind, where its head begins
        head_start, line = 0, 1
        # Only the outermost function counts: lambdas are part of it.
        for match in re.finditer(
            r"[{};]|\b(?:public|private|protected):", code
        ):
            token, at = match[0], match.start()
            inside = any(kind == "function" for kind, _ in stack)
            if token == "{":
                head = code[head_start:at]
                stack.append(("block" if inside else kind_of(head), head_start))
                if not inside:
                    head_start = at + 1
            elif token == "}" and stack:
                kind, start = stack.pop()
                if inside and kind != "function":
                    continue
                # What goes on after the brace is a member initializer list.
                goes_on = re.match(r"\s*[,{]", code[at + 1 :])
                head_start = start if goes_on else at + 1
                if kind == "function" and not goes_on:
                    head = code[start:at]
                    first = start + len(head) - len(head.lstrip())
                    name = NAME.search(head)
                    line = code.count("\n", 0, first) + 1
                    last = code.count("\n", 0, at) + 1
                    yield name[1] if name else "function", line, last
            elif not inside:
                head_start = match.end()


def kind_of(head: str) -> str:
    """What the brace after `head` opens: a scope, a function or data."""
    bare = re.sub(r"\([^()]*\)", "()", head)
    if head.rstrip().endswith("=") or "(" not in head:
        return "scope" if SCOPE.search(head) else "data"
    bare = re.sub(r"\b(const|noexcept|override|final|&)\s*$", "", bare).rstrip()
    is_class = re.match(r"\s*(template\s*<.*>\s*)?(class|struct)\b", bare, re.S)
    return "scope" if is_class and not bare.endswith(")") else "function"


def without_directives(code: list[str]) -> list[str]:
    """The lines with preprocessor directives blanked, their continuations too,
    and every #if branch after the first."""
    kept, continued, depth, dropped_at = [], False, 0, 0
    for line in code:
        directive = re.match(r"\s*#\s*(\w+)", line)
        if continued or directive:
            continued = line.rstrip().endswith("\\")
            kept.append("")
            word = directive[1] if directive else ""
            if word in ("if", "ifdef", "ifndef"):
                depth += 1
            elif word in ("else", "elif"):
                dropped_at = dropped_at or depth
            elif word == "endif":
                dropped_at = 0 if dropped_at == depth else dropped_at
                depth -= 1
        else:
            kept.append("" if dropped_at else line)
    return kept
