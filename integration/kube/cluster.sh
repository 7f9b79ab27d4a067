#!/usr/bin/env bash
# cluster.sh BIN DIR: runs a Kubernetes of one node until this script gets SIGTERM. BIN holds the Kubernetes
# programs (build.sh) and elasticd, DIR gets data, logs and the file "ready". Needs root, containerd, the CNI plugins, conntrack.
set -euo pipefail
bin=$1 dir=$2
mkdir -p "$dir/certs" "$dir/cni" "$dir/log"
pids=()
stop() {
  trap - TERM INT EXIT
  # The node first, then what still runs on it, then the rest.
  if [ -n "${kubelet:-}" ]; then kill "$kubelet" 2>/dev/null; wait "$kubelet" 2>/dev/null || true; fi
  for task in $(ctr --address "$dir/containerd.sock" -n k8s.io tasks ls -q 2>/dev/null); do
    ctr --address "$dir/containerd.sock" -n k8s.io tasks rm --force "$task" >/dev/null 2>&1 || true
  done
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" 2>/dev/null || true
  done
  awk -v dir="$dir/" 'index($2, dir) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l
  rm -rf "$volumes"
  ip link delete elastic-cni0 2>/dev/null || true
  iptables -t nat -D "${nat[@]}" 2>/dev/null || true
}
trap stop EXIT
trap 'exit 0' TERM INT

run() { # name, command...
  local name=$1
  shift
  "$@" >"$dir/log/$name.log" 2>&1 &
  pids+=($!)
}
until_ok() { # what, command...
  local what=$1
  shift
  for _ in $(seq 240); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.25
  done
  echo "$what did not come up; see $dir/log" >&2
  return 1
}

# The volumes of the lab's pods, which are no root.
volumes=/var/lib/elastic-kube-lab
rm -rf "$volumes"
for pod in elasticd-{0..2} trainer-{0..7}; do install -d -m 0777 "$volumes/$pod"; done

# The network of the pods, with the control plane at its first address.
ip link show elastic-cni0 >/dev/null 2>&1 || ip link add elastic-cni0 type bridge
ip addr replace 10.78.0.1/24 dev elastic-cni0
ip link set elastic-cni0 up
nat=(PREROUTING -d 10.77.0.1 -p tcp --dport 443 -j DNAT --to-destination 10.78.0.1:16443)
iptables -t nat -C "${nat[@]}" 2>/dev/null || iptables -t nat -A "${nat[@]}"
for way in "-i elastic-cni0" "-o elastic-cni0"; do
  # shellcheck disable=SC2086
  iptables -C FORWARD $way -j ACCEPT 2>/dev/null || iptables -I FORWARD $way -j ACCEPT
done

# Control plane. elasticd is its etcd.
run etcd "$bin/elasticd" --data-dir="$dir/etcd" --insecure --listen-client-urls=http://127.0.0.1:12379 \
  --listen-peer-urls=http://127.0.0.1:12380 --http=127.0.0.1:12381
until_ok elasticd curl -fs http://127.0.0.1:12381/readyz
openssl genrsa -out "$dir/certs/sa.key" 2048 2>/dev/null
openssl rsa -in "$dir/certs/sa.key" -pubout -out "$dir/certs/sa.pub" 2>/dev/null
echo 'lab,admin,1,"system:masters"' >"$dir/certs/tokens"
run apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:12379 --cert-dir="$dir/certs" \
  --bind-address=10.78.0.1 --secure-port=16443 --allow-privileged=true --authorization-mode=RBAC \
  --token-auth-file="$dir/certs/tokens" --service-cluster-ip-range=10.77.0.0/16 \
  --service-account-key-file="$dir/certs/sa.pub" --service-account-signing-key-file="$dir/certs/sa.key" \
  --service-account-issuer=https://kubernetes.default.svc --kubelet-preferred-address-types=InternalIP
cat >"$dir/kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://10.78.0.1:16443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: lab}}]
contexts: [{name: lab, context: {cluster: lab, user: admin}}]
current-context: lab
YAML
export KUBECONFIG="$dir/kubeconfig"
until_ok kube-apiserver "$bin/kubectl" get --raw /readyz
run controllers "$bin/kube-controller-manager" --kubeconfig="$KUBECONFIG" --leader-elect=false \
  --root-ca-file="$dir/certs/apiserver.crt" --service-account-private-key-file="$dir/certs/sa.key" \
  --node-monitor-grace-period=10s --bind-address=127.0.0.1
run scheduler "$bin/kube-scheduler" --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1

cat >"$dir/Corefile" <<CORE
.:53 {
  bind 10.78.0.1
  kubernetes cluster.local {
    kubeconfig $KUBECONFIG lab
  }
}
CORE
run dns "$bin/coredns" -conf "$dir/Corefile"

# The node: containerd, a bridge network, kubelet.
cat >"$dir/cni/10-elastic.conf" <<'JSON'
{"cniVersion": "0.4.0", "name": "elastic", "type": "bridge", "bridge": "elastic-cni0", "isGateway": true,
 "ipMasq": true, "ipam": {"type": "host-local", "subnet": "10.78.0.0/24", "routes": [{"dst": "0.0.0.0/0"}]}}
JSON
cat >"$dir/containerd.toml" <<TOML
version = 2
root = "$dir/containerd"
state = "$dir/containerd-run"
disabled_plugins = []
[grpc]
  address = "$dir/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:local"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "$dir/cni"
TOML
run containerd containerd --config "$dir/containerd.toml"
until_ok containerd ctr --address "$dir/containerd.sock" version
for image in "$dir"/images/*.tar; do
  ctr --address "$dir/containerd.sock" -n k8s.io images import "$image" >/dev/null
done
cat >"$dir/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failSwapOn: false
failCgroupV1: false
containerRuntimeEndpoint: unix://$dir/containerd.sock
imageMinimumGCAge: 100h
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
localStorageCapacityIsolation: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
resolvConf: ""
clusterDNS: [10.78.0.1]
clusterDomain: cluster.local
YAML
run kubelet "$bin/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$KUBECONFIG" --hostname-override=n1 \
  --node-ip=10.78.0.1 --root-dir="$dir/kubelet"
kubelet=${pids[-1]}
until_ok "the node" sh -c "'$bin/kubectl' get node n1 -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}' | grep -q True"
touch "$dir/ready"
wait "${pids[@]}"
