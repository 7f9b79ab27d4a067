#!/usr/bin/env bash
# build.sh DIR: builds kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl, coredns and helm
# from source into DIR/<version>, unless they are there. It takes about 9 minutes on two cores and 800 MB.
set -euo pipefail
version=v1.34.4
staging=v0.34.4
coredns=v1.15.0
helm=v3.19.4
out=$(realpath "$1")/$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

kubernetes() {
  local source_mod
  mkdir "$work/kubernetes" && cd "$work/kubernetes"
  source_mod=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
  {
    echo "module kube"
    echo "go 1.24"
    echo "require k8s.io/kubernetes $version"
    sed -n "s#^\t*\(k8s.io/[^ ]*\) => ./staging.*#replace \1 => \1 $staging#p" "$source_mod"
  } >go.mod
  cat >keep.go <<'GO'
package kube

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "k8s.io/kubernetes/cmd/kubelet/app"
)
GO
  go mod tidy -e >/dev/null 2>&1
  mkdir -p "$out.part"
  for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
    echo "building $program $version"
    CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags='-s -w' -o "$out.part/" "k8s.io/kubernetes/cmd/$program"
  done
  mkdir "$work/dns" && cd "$work/dns"
  printf 'module dns\ngo 1.24\nrequire github.com/coredns/coredns %s\n' "$coredns" >go.mod
  printf 'package dns\n\nimport _ "github.com/coredns/coredns/coremain"\n' >keep.go
  go mod tidy -e >/dev/null 2>&1
  echo "building coredns $coredns"
  CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags='-s -w' -o "$out.part/" github.com/coredns/coredns
  mv "$out.part" "$out"
}

[ -x "$out/kubectl" ] || kubernetes
if [ ! -x "$out/helm" ]; then
  echo "building helm $helm" # with the versions that its own module names
  source=$(go mod download -json "helm.sh/helm/v3@$helm" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
  (cd "$source" && CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags='-s -w' -o "$out/helm.part" ./cmd/helm)
  mv "$out/helm.part" "$out/helm"
fi
