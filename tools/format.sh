#!/usr/bin/env bash
# Formats the C++ and Python of the given files, or of everything.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ $# -eq 0 ]; then
  mapfile -t files < <(find . \( -name '.?*' -o -name build \) -prune -o \
    \( -name '*.h' -o -name '*.cc' -o -name '*.py' \) -print)
  set -- "${files[@]}"
fi
clang_format=clang-format-$(tools/clang_version.sh)
for file in "$@"; do
  case $file in
    *.h | *.cc) "$clang_format" -i "$file" ;;
    *.py)
      .venv/bin/ruff check --quiet --fix-only --select I "$file"
      .venv/bin/ruff format --quiet "$file"
      ;;
  esac
done
