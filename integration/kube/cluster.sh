#!/usr/bin/env bash
# cluster.sh BIN DIR: runs a Kubernetes of three nodes (or NODES) until this script gets SIGTERM. BIN holds the
# Kubernetes programs (build.sh) and elasticd, DIR gets data, logs and the file "ready". The control plane and each
# node have a network namespace of their own: the rules and the ports of this machine stay as they are. kubectl works
# in the namespace elastic-kube. Needs root, containerd, the CNI plugins, conntrack.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
bin=$1 dir=$2
export NODES=${NODES:-3}
space=elastic-kube
mkdir -p "$dir/certs" "$dir/log"
pids=() nodes=() new=()
# What kubelet and the CNI plugins make wherever they run; it goes again if it was not there before.
for path in /var/lib/kubelet /var/lib/cni /var/log/containers; do [ -e "$path" ] || new+=("$path"); done
spaces() { echo "$space"; for n in $(seq "$NODES"); do echo "$space-n$n"; done; }
stop() {
  trap - TERM INT EXIT
  exec >>"$dir/log/stop.log" 2>&1 # the reader of the output may be gone already
  set +e
  for pid in "${nodes[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${nodes[@]}"; do wait "$pid" 2>/dev/null || true; done
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" 2>/dev/null || true
  done
  awk -v dir="$dir/" 'index($2, dir) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l
  rm -rf "$volumes" "${new[@]}"
  find /sys/fs/cgroup/*/k8s.io -depth -type d -exec rmdir {} + 2>/dev/null || true
  for s in $(spaces); do ip netns delete "$s" 2>/dev/null || true; done
}
trap 'exit 0' TERM INT

inside() { nsenter --net="/run/netns/$space" "$@"; }
run() { # name, command...
  local name=$1
  shift
  nsenter --net="/run/netns/$space" "$@" >"$dir/log/$name.log" 2>&1 & # no function: it is the process to end
  pids+=($!)
}
until_ok() { # what, command...
  local what=$1
  shift
  for _ in $(seq 480); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.25
  done
  echo "$what did not come up; see $dir/log" >&2
  return 1
}

# What an earlier lab left that was killed. One that runs is left alone.
for s in $(spaces); do
  [ -e "/run/netns/$s" ] || continue
  [ -z "$(ip netns pids "$s")" ] || { echo "a lab runs already, in the network namespace $s" >&2; exit 1; }
  ip netns delete "$s"
done
trap stop EXIT

# The volumes of the lab's pods, which are no root.
volumes=/var/lib/elastic-kube-lab
rm -rf "$volumes"
for pod in elasticd-{0..2} trainer-{0..7}; do install -d -m 0777 "$volumes/$pod"; done

# A bridge with the control plane at its first address, which is also that of the service kubernetes.
ip netns add "$space"
inside ip link set lo up
inside ip link add nodes type bridge
inside ip addr add 10.78.255.1/24 dev nodes
inside ip addr add 10.77.0.1/32 dev nodes
inside ip link set nodes up
inside sysctl -qw net.ipv4.ip_forward=1
for n in $(seq "$NODES"); do
  ip netns add "$space-n$n"
  inside ip link add "n$n" type veth peer name "ek$n"
  inside ip link set "n$n" master nodes up
  inside ip link set "ek$n" netns "$space-n$n"
  inside ip route add "10.78.$n.0/24" via "10.78.255.1$n"
done

# Control plane. elasticd is its etcd. Nothing routes the addresses of services: the API server calls webhooks at those
# of their pods.
run etcd "$bin/elasticd" --data-dir="$dir/etcd" --insecure --listen-client-urls=http://127.0.0.1:12379 \
  --listen-peer-urls=http://127.0.0.1:12380 --http=127.0.0.1:12381
until_ok elasticd inside curl -fs http://127.0.0.1:12381/readyz
openssl genrsa -out "$dir/certs/sa.key" 2048 2>/dev/null
openssl rsa -in "$dir/certs/sa.key" -pubout -out "$dir/certs/sa.pub" 2>/dev/null
echo 'lab,admin,1,"system:masters"' >"$dir/certs/tokens"
run apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:12379 --cert-dir="$dir/certs" \
  --bind-address=0.0.0.0 --advertise-address=10.78.255.1 --secure-port=443 --allow-privileged=true \
  --authorization-mode=RBAC --token-auth-file="$dir/certs/tokens" --service-cluster-ip-range=10.77.0.0/16 \
  --service-account-key-file="$dir/certs/sa.pub" --service-account-signing-key-file="$dir/certs/sa.key" \
  --service-account-issuer=https://kubernetes.default.svc --kubelet-preferred-address-types=InternalIP \
  --enable-aggregator-routing=true
cat >"$dir/kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://10.78.255.1", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: lab}}]
contexts: [{name: lab, context: {cluster: lab, user: admin}}]
current-context: lab
YAML
export KUBECONFIG="$dir/kubeconfig"
until_ok kube-apiserver inside "$bin/kubectl" get --raw /readyz
run controllers "$bin/kube-controller-manager" --kubeconfig="$KUBECONFIG" --leader-elect=false \
  --root-ca-file="$dir/certs/apiserver.crt" --service-account-private-key-file="$dir/certs/sa.key" \
  --node-monitor-grace-period=10s --bind-address=127.0.0.1
run scheduler "$bin/kube-scheduler" --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1
cat >"$dir/Corefile" <<CORE
.:53 {
  bind 10.78.255.1
  kubernetes cluster.local {
    kubeconfig $KUBECONFIG lab
  }
}
CORE
run dns "$bin/coredns" -conf "$dir/Corefile"

for n in $(seq "$NODES"); do
  "$here/node.sh" "$bin" "$dir" "$n" >"$dir/log/n$n.log" 2>&1 &
  nodes+=($!)
done
ready() {
  [ "$(inside "$bin/kubectl" get nodes -o jsonpath='{.items[*].status.conditions[?(@.type=="Ready")].status}' |
    grep -o True | wc -l)" = "$NODES" ]
}
until_ok "a node" ready
touch "$dir/ready"
wait "${pids[@]}"
