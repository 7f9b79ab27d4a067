#!/usr/bin/env bash
# run.sh CACHE BIN: builds Kubernetes into CACHE unless it is there, makes the images, runs the tests.
set -euo pipefail
cache=$1 bin=$(realpath "$2")
cd "$(dirname "$0")"
missing=()
for pair in containerd:containerd conntrack:conntrack openssl:openssl curl:curl iptables:iptables; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ -d /usr/lib/cni ] || missing+=(containernetworking-plugins)
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
mkdir -p "$cache"
cache=$(realpath "$cache")
./build.sh "$cache"
programs=$(ls -d "$cache"/v*/ | tail -n 1)
cp "$bin/elasticd" "$programs"
images=$(mktemp -d)
trap 'rm -rf "$images"' EXIT
CGO_ENABLED=0 go build -o "$images/pause" ./pause
docker build -q -t pause:local -f pause/Dockerfile "$images" >/dev/null
rm "$images/pause"
for controller in jobset kubeflow-trainer; do
  cp "$programs/$controller" "$images/manager"
  docker build -q -t "$controller:local" -f controller.Dockerfile "$images" >/dev/null
  rm "$images/manager"
done
docker save pause:local -o "$images/pause.tar"
docker save elastic:local -o "$images/elastic.tar"
docker save jobset:local kubeflow-trainer:local -o "$images/kubeflow.tar"
KUBE_BIN=$programs KUBE_IMAGES=$images ELASTIC_BIN=$bin go test -tags kube -count=1 -timeout 30m -v .
