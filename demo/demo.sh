#!/usr/bin/env bash
# Runs two nodes on this machine, kills one, and scales to three; once with each way to scale the
# batch. It needs only the binaries in bin/. All files are in one temporary directory, which is
# removed at the end, also after Ctrl-C.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/bin
[ -x "$bin/elastic" ] && [ -x "$bin/elasticd" ] && [ -x "$bin/elastic-demo" ] || { echo "demo: build first: make build"; exit 1; }

dir=$(mktemp -d /tmp/elastic-demo.XXXXXX)
export XDG_RUNTIME_DIR=$dir/run XDG_STATE_HOME=$dir/state
unset ELASTIC_SERVER ELASTIC_JOB_ID ELASTIC_STATE_DIR PADDLE_ELASTIC_SERVER PET_RDZV_ENDPOINT POD_NAME POD_IP
mkdir -m 700 "$XDG_RUNTIME_DIR" "$XDG_STATE_HOME"
declare -A agents=()

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$'\e[1;36m' red=$'\e[1;31m' dim=$'\e[2m' off=$'\e[0m'
else
  bold= red= dim= off=
fi
step() { printf '\n%s# %s%s\n' "$bold" "$*" "$off"; }
typed() { printf '%s$ %s%s\n' "$dim" "$*" "$off"; }

cleanup() {
  trap - EXIT INT TERM
  for pid in "${agents[@]}"; do kill -9 "$pid" 2>/dev/null; done
  wait 2>/dev/null
  server=$(sed -n 's/.*"pid": *\([0-9][0-9]*\).*/\1/p' "$XDG_RUNTIME_DIR/elastic/elasticd.json" 2>/dev/null)
  if [ -n "$server" ] && [ "$(readlink "/proc/$server/exe" 2>/dev/null)" = "$bin/elasticd" ]; then kill "$server" 2>/dev/null; fi
  for _ in $(seq 50); do [ -d "/proc/${server:-none}" ] || break; sleep 0.1; done
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'echo; echo "demo: interrupted, cleaning up"; exit 130' INT TERM

# node NAME JOB: starts one node, as in a terminal of its own. Its lines begin with its name.
node() {
  mkdir -p "$dir/$1"
  (cd "$dir/$1" && exec "$bin/elastic" run --node="$1" --np=2 --job_id="$2" --batch-size=256 --lr=0.1 --scaling="$3" \
    elastic-demo --epochs=1000 --step-sleep=20ms) > >(sed -u "s/^/  $1 | /") 2>&1 &
  agents[$1]=$!
  disown
}
state() { "$bin/elastic" status "$1" -o json 2>/dev/null; }
# until JOB PATTERN: waits for a state of the job, at most half a minute.
until_() {
  for _ in $(seq 300); do state "$1" | grep -q "$2" && return; sleep 0.1; done
  echo "demo: waited 30 s for $2 in vain"; "$bin/elastic" status "$1"; exit 1
}
line='elastic run --np=2 --job_id=%s --batch-size=256 --lr=0.1 --scaling=%s elastic-demo\n'

act() { # JOB SCALING WHAT
  step "$3"
  printf "${dim}\$ $line\$ $line${off}" "$1" "$2" "$1" "$2"
  node one "$1" "$2"; node two "$1" "$2"
  until_ "$1" '"state":"running"'; sleep 6

  step "kill -9 the first node's agent: its worker goes with it, and the second one waits"
  printf '%s$ kill -9 %s%s\n' "$red" "${agents[one]}" "$off"
  kill -9 "${agents[one]}"; unset 'agents[one]'
  until_ "$1" '"state":"waiting"'; sleep 2
  typed "elastic status $1"; "$bin/elastic" status "$1"

  step "the same line again: generation 2, the same ranks"
  node one "$1" "$2"
  until_ "$1" '"state":"running"'; sleep 5

  step "ask for three, and bring one more: watch batch and rate"
  typed "elastic scale $1 --np=3"
  "$bin/elastic" scale "$1" --np=3 & scaling=$!
  sleep 1; node three "$1" "$2"
  wait "$scaling"; sleep 4
  typed "elastic status $1"; "$bin/elastic" status "$1"

  step "enough"
  typed "elastic stop $1"; "$bin/elastic" stop "$1"
  for pid in "${agents[@]}"; do while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done; done
  agents=()
}

act demo-linear linear "two nodes train; the batch per worker stays, so the global batch grows with the world and the rate with it"
act demo-fixed fixed-batch "once more; now the global batch and the rate stay, and the shares change"

step "what happened, as the job remembers it"
typed "elastic events demo-linear"; "$bin/elastic" events demo-linear | tail -n 16
printf '\n%sThat was it. README.md says how it works.%s\n' "$bold" "$off"
