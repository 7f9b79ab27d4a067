#!/usr/bin/env bash
# frameworks.sh DIR: virtual environments DIR/torch, DIR/paddle and DIR/ps with the frameworks that TestFrameworks and
# TestIntegrations run, on CPUs, and DIR/matrix-… for TestVersions: each Python that is here with an older torch.
# One that is there is used as it is, but each gets the wheel that `make wheel` wrote.
set -euo pipefail
dir=$1
wheels=("$(dirname "$0")"/../bin/elasticd-*.whl)
venv() { # NAME PACKAGE...
  made "$@"
  "$dir/$1/bin/python" -m pip install -q --no-index --no-deps --force-reinstall "${wheels[@]}"
}
made() { # NAME PACKAGE...
  local name=$1
  shift
  if [ -x "$dir/$name/bin/python" ]; then return; fi
  rm -rf "${dir:?}/$name" # begun and not finished: scripts of an environment name its path, so none is renamed
  "${base:-python3}" -m venv --without-pip "$dir/$name"
  rm "$dir/$name/bin/python"
  "$dir/$name/bin/python3" -m ensurepip > /dev/null
  "$dir/$name/bin/python3" -m pip install -q "$@"
  ln -s python3 "$dir/$name/bin/python" # it is whole
}
mkdir -p "$dir"
venv torch torch==2.15.0 accelerate==1.15.0 lightning==2.6.6 transformers==5.24.0 jax==0.10.2
venv paddle paddlepaddle==3.3.1 setuptools
venv ps paddlepaddle==2.6.2 "numpy<2" "protobuf==4.25.*" setuptools # later wheels have no parameter servers
for pair in 3.9:2.4.1 3.10:2.6.0 3.12:2.8.0 3.13:2.10.0 3.14:2.15.0; do
  # pyenv's names in PATH do not run the version that they name.
  base=$(find "$HOME/.pyenv/versions" /usr/bin /usr/local/bin -path "*/bin/python${pair%:*}" 2> /dev/null | head -n 1)
  if [ -n "$base" ]; then venv "matrix-python${pair%:*}-torch${pair#*:}" "torch==${pair#*:}" numpy; fi
done
