#!/usr/bin/env bash
# Every check that is not a test, each named as it runs; all of them run even
# when one fails, and the last line says how it went.
#
#   tools/check.sh [NAME...]   format lint headers clang tidy python
#
# clang-tidy remembers what it found clean (build/clang/tidy), so that a second
# run looks only at files that changed, themselves or through a header.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION=$(tools/clang_version.sh) || exit 1
readonly VERSION
readonly PYTHON=.venv/bin/python
readonly BUILD=build/clang

code_files() {
  find . \( -name '.?*' -o -name build \) -prune -o \
    \( -name '*.h' -o -name '*.cc' \) -print0
}

# Another version lays some lines out differently: only the one that the code
# was formatted with decides.
check_format() {
  if [ "$VERSION" != 19 ]; then
    echo "skipped: formatted with clang-format-19, here is $VERSION"
    return
  fi
  code_files | xargs -0 "clang-format-$VERSION" --dry-run -Werror
}

check_lint() {
  $PYTHON tools/check_layers.py && $PYTHON tools/check_layers.py --self-test &&
    $PYTHON tools/tidy.py && $PYTHON tools/tidy.py --self-test
}

configure() {
  cmake --preset clang --log-level=WARNING \
    -DCMAKE_CXX_COMPILER="clang++-$VERSION" >/dev/null
}
check_headers() { configure && cmake --build $BUILD --target headers_alone; }
check_clang() { configure && cmake --build $BUILD; }

check_tidy() {
  [ -f $BUILD/build.ninja ] || check_clang || return
  $PYTHON tools/clang_tidy.py "clang-tidy-$VERSION" $BUILD
}

# Scripts of one folder import each other, so mypy sees a folder at a time.
check_python() {
  local failed=0 folder
  $PYTHON -m ruff check --quiet . || failed=1
  $PYTHON -m ruff format --quiet --check . || failed=1
  for folder in tools examples bench tests/*/; do
    compgen -G "${folder%/}/*.py" >/dev/null || continue
    MYPYPATH=$folder $PYTHON -m mypy --no-error-summary "${folder%/}"/*.py ||
      failed=1
  done
  return $failed
}

[ $# -gt 0 ] || set -- format lint python headers clang tidy
failed=()
for name in "$@"; do
  echo "== $name"
  "check_$name" || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "check: failed: ${failed[*]}"
  exit 1
fi
echo "check: all $# passed ($*)"
