#!/usr/bin/env bash
# Installs what cairn needs on Debian 12 and 13, as root or through sudo.
#
#   tools/setup.sh [GROUP...]     groups: build check bench all (the default)
#
#   build   compiler, libraries, and the Python environment in .venv
#   check   clang, clang-tidy and clang-format
#   bench   what the benchmarks compare with and look through
#
# Installs what is missing and nothing else: with nothing missing it asks no
# server and ends within a second. Two runs at once wait for each other.
#
# CAIRN_PYTHON=/path/to/python names the interpreter for .venv; otherwise the
# first that torch can be had for is taken. Where torch cannot be had at all,
# Debian's python3-torch serves, without the distributed-checkpoint part.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec 9<tools/setup.sh
flock 9

readonly VENV=.venv
readonly STAMP=$VENV/.requirements
readonly CLANG_WANTED=19

readonly BUILD_PACKAGES=(
  g++ cmake ninja-build ccache pkg-config make git
  libabsl-dev liburing-dev libssl-dev nlohmann-json3-dev libtomlplusplus-dev
  libzstd-dev libsoci-dev libsqlite3-dev libpq-dev libboost-dev libfmt-dev
  libcli11-dev libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-venv e2fsprogs rsync strace)
readonly BENCH_PACKAGES=(fio)

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# The names among the arguments that are not installed, one a line.
missing_packages() {
  comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null |
      sed -n 's/^ii  *//p' | sort -u)
}

apt() {
  local as=()
  [ "$(id -u)" -eq 0 ] || as=(sudo)
  ${as[@]+"${as[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -q \
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@"
}

apt_updated=no
apt_update() {
  [ "$apt_updated" = yes ] && return
  say "reading the package lists"
  apt update >/dev/null || say "some package lists could not be read"
  apt_updated=yes
}

# Installs those of the named packages that are missing; tries twice, because a
# mirror in the middle of an update serves lists and packages that disagree.
install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ "${#missing[@]}" -eq 0 ] && return
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
    die "neither root nor sudo here; as root: apt-get install ${missing[*]}"
  apt_update
  say "installing ${#missing[@]} packages: ${missing[*]}"
  apt install -y --no-install-recommends "${missing[@]}" >/dev/null && return
  say "that failed; trying once more with fresh package lists"
  apt_updated=no
  apt_update
  apt install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# The clang to check with: the wanted one, else the newest on offer.
install_clang() {
  local version=$CLANG_WANTED
  # A substitute that is there already is as good as what would be picked here.
  tools/clang_version.sh >/dev/null 2>&1 && return
  apt_update
  apt-cache show "clang-tidy-$version" >/dev/null 2>&1 ||
    version=$(apt-cache search --names-only '^clang-tidy-[0-9]+$' |
      sed 's/^clang-tidy-\([0-9]*\).*/\1/' | sort -n | tail -1)
  [ -n "$version" ] || die "no clang-tidy among the packages on offer"
  install_packages "clang-$version" "clang-tidy-$version" \
    "clang-format-$version"
}

# Interpreters to try, the preferred one first, each file once.
python_candidates() {
  local name path real seen=" "
  for name in ${CAIRN_PYTHON:-python3 python3.13 python3.12 python3.11 \
    /usr/bin/python3}; do
    path=$(command -v "$name" 2>/dev/null) || continue
    # The interpreter itself, behind links and version managers' shims.
    real=$("$path" -c 'import ensurepip, os, sys, venv
assert sys.version_info >= (3, 11)
print(os.path.realpath(sys.executable))' 2>/dev/null) || continue
    case $seen in *" $real "*) continue ;; esac
    seen+="$real "
    printf '%s\n' "$real"
  done
}

torch_requirement() { grep '^torch==' tools/requirements.txt; }

pip() {
  "$VENV/bin/python" -m pip --disable-pip-version-check --quiet "$@"
}

# A new .venv of interpreter $1 with torch and all the rest; fails if either
# cannot be had.
make_venv() {
  say "Python environment $VENV from $1"
  "$1" -m venv --clear "$VENV" || return
  say "installing $(torch_requirement) (the largest part)"
  pip install --retries 2 "$(torch_requirement)" ||
    pip install --retries 2 "$(torch_requirement)" || return
  say "installing the other Python packages"
  pip install --retries 2 -r tools/requirements.txt ||
    pip install --retries 2 -r tools/requirements.txt
}

# Debian's own torch, seen through the environment. Too old for everything the
# tests and the demo do with it: they look, skip that part and say so.
make_fallback_venv() {
  say "torch cannot be had from the package index; taking Debian's instead"
  install_packages python3-torch python3-numpy python3-pytest ||
    die "neither the package index nor Debian's python3-torch is in reach"
  /usr/bin/python3 -m venv --clear --system-site-packages "$VENV"
  grep -vE '^(torch|numpy)==|^#' tools/requirements.txt |
    while read -r requirement; do
      pip install --retries 0 --no-deps "$requirement" ||
        say "without $requirement"
    done
  say "Debian's torch in use: parts that need $(torch_requirement) are" \
    "skipped; remove $VENV and run this again to have them"
}

install_python() {
  local wanted python made=no
  wanted=$(sha256sum <tools/requirements.txt)
  if [ -x "$VENV/bin/python" ] && [ "$(cat "$STAMP" 2>/dev/null)" = "$wanted" ] &&
    "$VENV/bin/python" -c '' 2>/dev/null; then
    return
  fi
  if "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    say "bringing $VENV up to date"
    pip install --retries 2 "$(torch_requirement)" &&
      pip install --retries 2 -r tools/requirements.txt && made=yes
  fi
  if [ $made = no ]; then
    while read -r python; do
      make_venv "$python" </dev/null && made=yes && break
      say "$python will not do"
    done < <(python_candidates)
  fi
  [ $made = yes ] || make_fallback_venv
  printf '%s\n' "$wanted" >"$STAMP"
}

setup_build() {
  install_packages "${BUILD_PACKAGES[@]}"
  install_python
}
setup_check() { install_clang; }
setup_bench() { install_packages "${BENCH_PACKAGES[@]}"; }

command -v dpkg-query >/dev/null ||
  die "made for Debian; CONTRIBUTING.md lists what to install elsewhere"
[ $# -gt 0 ] || set -- all
for group in "$@"; do
  case $group in
    build | check | bench) "setup_$group" ;;
    all)
      setup_build
      setup_check
      setup_bench
      ;;
    *) die "unknown group $group; one of: build check bench all" ;;
  esac
done
say "ready ($*)"
