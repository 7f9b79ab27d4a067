#!/usr/bin/env bash
# types.sh DIR: mypy --strict and ruff over the helper and the examples, from an environment in DIR that is made once.
set -euo pipefail
tools=$1/mypy-2.4.1-ruff-0.17.6
cd "$(dirname "$0")"
if [ ! -x "$tools/bin/python" ]; then
  rm -rf "$tools" # begun and not finished
  python3 -m venv --without-pip "$tools"
  rm "$tools/bin/python"
  "$tools/bin/python3" -m ensurepip > /dev/null
  "$tools/bin/python3" -m pip install -q mypy==2.4.1 ruff==0.17.6
  ln -s python3 "$tools/bin/python" # it is whole
fi
"$tools/bin/mypy"
"$tools/bin/ruff" check -q --no-cache --config pyproject.toml . ../examples ../bench/gpu
