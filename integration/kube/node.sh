#!/usr/bin/env bash
# node.sh BIN DIR NUMBER: runs node nNUMBER of the lab that cluster.sh made, until it gets SIGTERM: a network namespace
# of its own, in it containerd with the images of DIR/images, and kubelet. Nothing but DIR and the namespace is touched.
set -euo pipefail
bin=$1 lab=$2 number=$3
node=n$number space=elastic-kube-n$number
dir=$lab/$node
mkdir -p "$dir/cni"
here() { nsenter --net="/run/netns/$space" "$@"; }
containers() { ctr --address "$dir/containerd.sock" -n k8s.io "$@"; }
stop() {
  trap - TERM INT EXIT
  exec >>"$lab/log/stop-$node.log" 2>&1 # the reader of the output may be gone already
  set +e
  if [ -n "${kubelet:-}" ]; then
    kill "$kubelet" 2>/dev/null || true
    wait "$kubelet" 2>/dev/null || true
  fi
  for task in $(containers tasks ls -q 2>/dev/null); do
    containers tasks rm --force "$task" >/dev/null 2>&1 || true
  done
  for container in $(containers containers ls -q 2>/dev/null); do
    for pod in $(containers containers info "$container" | grep -o '/netns/cni-[0-9a-f-]*' | sort -u); do
      ip netns delete "${pod#/netns/}" 2>/dev/null || true
    done
    containers containers rm "$container" >/dev/null 2>&1 || true
  done
  if [ -n "${containerd:-}" ]; then
    kill "$containerd" 2>/dev/null || true
    wait "$containerd" 2>/dev/null || true
  fi
}
trap stop EXIT
trap 'exit 0' TERM INT

# The network of the pods. Other nodes are reached by their routes, everything else by the control plane.
here ip link set lo up
here ip link set "ek$number" name eth0
here ip addr add "10.78.255.1$number/24" dev eth0
here ip link set eth0 up
here ip route add default via 10.78.255.1
for other in $(seq "${NODES:-3}"); do
  [ "$other" = "$number" ] || here ip route add "10.78.$other.0/24" via "10.78.255.1$other"
done
here sysctl -qw net.ipv4.ip_forward=1
cat >"$dir/cni/10-elastic.conf" <<JSON
{"cniVersion": "0.4.0", "name": "elastic-$node", "type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": false,
 "ipam": {"type": "host-local", "dataDir": "$dir/addresses", "subnet": "10.78.$number.0/24",
  "routes": [{"dst": "0.0.0.0/0"}]}}
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
nsenter --net="/run/netns/$space" containerd --config "$dir/containerd.toml" >"$lab/log/containerd-$node.log" 2>&1 &
containerd=$!
for _ in $(seq 240); do
  containers version >/dev/null 2>&1 && break
  sleep 0.25
done
for image in "$lab"/images/*.tar; do
  containers images import "$image" >/dev/null
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
podLogsDir: $dir/pods
resolvConf: ""
syncFrequency: 10s # a pod sees soon that a Secret changed
clusterDNS: [10.78.255.1]
clusterDomain: cluster.local
YAML
nsenter --net="/run/netns/$space" "$bin/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$lab/kubeconfig" \
  --hostname-override="$node" --node-ip="10.78.255.1$number" --root-dir="$dir/kubelet" --cert-dir="$dir/pki" >"$lab/log/kubelet-$node.log" 2>&1 &
kubelet=$!
wait "$kubelet" "$containerd"
