#!/usr/bin/env bash
# cluster.sh DIR: runs a Slurm of three nodes on this machine until it gets SIGTERM. DIR gets configuration,
# state, logs and the file "ready"; use it with SLURM_CONF=DIR/slurm.conf. Needs root and slurm-wlm.
set -euo pipefail
dir=$1
mkdir -p "$dir"/{state,log,munge}
pids=()
stop() {
  trap - TERM INT EXIT
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill "${pids[i]}" 2>/dev/null || true
    wait "${pids[i]}" 2>/dev/null || true
  done
}
trap stop EXIT
trap 'exit 0' TERM INT

chmod 0711 "$dir" && chmod 0700 "$dir/munge"
(umask 077; head -c 1024 /dev/urandom >"$dir/munge/key")
mkdir -p "$dir/socket"
munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/socket/munge" \
  --pid-file="$dir/munge/pid" --log-file="$dir/log/munged.log" --seed-file="$dir/munge/seed" &
pids+=($!)
host=$(hostname -s)
cat >"$dir/slurm.conf" <<CONF
ClusterName=elastic
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/socket/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/state/spool.%n
SlurmctldPidFile=$dir/state/slurmctld.pid
SlurmdPidFile=$dir/state/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout=10
KillWait=10
SchedulerParameters=batch_sched_delay=1,sched_interval=2,permit_job_expansion
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=16821 CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=16822 CPUs=1 State=UNKNOWN
NodeName=n3 NodeHostname=$host NodeAddr=127.0.0.1 Port=16823 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=n1,n2,n3 Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF="$dir/slurm.conf"
for _ in $(seq 40); do [ -S "$dir/socket/munge" ] && break; sleep 0.1; done
slurmctld -D -f "$SLURM_CONF" >>"$dir/log/out" 2>&1 &
pids+=($!)
for n in n1 n2 n3; do
  mkdir -p "$dir/state/spool.$n"
  slurmd -D -N "$n" -f "$SLURM_CONF" >>"$dir/log/out" 2>&1 &
  pids+=($!)
  echo $! >"$dir/state/$n.pid"
done
for _ in $(seq 120); do
  [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 3 ] && touch "$dir/ready" && break
  sleep 0.5
done
[ -e "$dir/ready" ] || { echo "Slurm did not come up; see $dir/log" >&2; exit 1; }
wait "${pids[@]}"
