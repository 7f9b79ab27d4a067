#!/usr/bin/env bash
# frameworks.sh DIR: virtual environments DIR/torch, DIR/paddle and DIR/ps with the frameworks that TestFrameworks runs, on CPUs.
# One that is there is used as it is.
set -euo pipefail
dir=$1
venv() { # NAME PACKAGE...
  local name=$1
  shift
  if [ -x "$dir/$name/bin/python" ]; then return; fi
  rm -rf "${dir:?}/$name" # begun and not finished: scripts of an environment name its path, so none is renamed
  python3 -m venv --without-pip "$dir/$name"
  rm "$dir/$name/bin/python"
  "$dir/$name/bin/python3" -m ensurepip > /dev/null
  "$dir/$name/bin/python3" -m pip install -q "$@"
  ln -s python3 "$dir/$name/bin/python" # it is whole
}
mkdir -p "$dir"
venv torch torch==2.15.0 accelerate==1.15.0 lightning==2.6.6
venv paddle paddlepaddle==3.3.1 setuptools
venv ps paddlepaddle==2.6.2 "numpy<2" "protobuf==4.25.*" setuptools # later wheels have no parameter servers
