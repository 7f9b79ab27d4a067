#!/usr/bin/env bash
# build.sh DIR: builds kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl, coredns, helm and the
# controllers of JobSet and of Kubeflow's trainer from source into DIR/<version>, unless they are there. It takes about
# 16 minutes on two cores and 800 MB.
set -euo pipefail
version=v1.34.4
staging=v0.34.4
coredns=v1.15.0
helm=v3.19.4
jobset=v0.12.0
trainer=v2.3.0
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

source_of() { go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)",*/\1/p'; }
from_module() { # program, module, version, package
  [ -x "$out/$1" ] && return
  echo "building $1 $3" # with the versions that its own module names
  (cd "$(source_of "$2@$3")" &&
    CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags='-s -w' -o "$out/$1.part" "$4")
  mv "$out/$1.part" "$out/$1"
}

[ -x "$out/kubectl" ] || kubernetes
from_module helm helm.sh/helm/v3 "$helm" ./cmd/helm
from_module jobset sigs.k8s.io/jobset "$jobset" .
from_module kubeflow-trainer github.com/kubeflow/trainer/v2 "$trainer" ./cmd/trainer-controller-manager
if [ ! -d "$out/kubeflow" ]; then # the manifests of both modules
  rm -rf "$out/kubeflow.part"
  mkdir "$out/kubeflow.part"
  cp -r "$(source_of "sigs.k8s.io/jobset@$jobset")/config" "$out/kubeflow.part/jobset"
  cp -r "$(source_of "github.com/kubeflow/trainer/v2@$trainer")/manifests" "$out/kubeflow.part/trainer"
  chmod -R u+w "$out/kubeflow.part"
  # The trainer's would fetch JobSet's from the web.
  sed -i '/third-party.jobset/d' "$out/kubeflow.part/trainer/overlays/manager/kustomization.yaml"
  mv "$out/kubeflow.part" "$out/kubeflow"
fi
