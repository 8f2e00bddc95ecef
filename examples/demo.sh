#!/bin/sh
# The demo, with the Python that tools/setup.sh made; see examples/demo.py.
# $CAIRN_BIN names the cairn program (`make demo` builds it and sets this).
set -eu
cd "$(dirname "$0")/.."
exec .venv/bin/python -u examples/demo.py "$@"
