#!/usr/bin/env bash
# build.sh DIR: builds kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl and coredns
# from source into DIR/<version>, unless they are there. It takes about 8 minutes on two cores and 700 MB.
set -euo pipefail
version=v1.34.4
staging=v0.34.4
coredns=v1.15.0
out=$1/$version
[ -x "$out/kubectl" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
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
