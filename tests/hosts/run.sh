#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs on several hosts, which are namespaces of this one: each has a network, a host name, System
# V IPC and /dev/shm of its own, and an Ethernet link to a bridge. Messages go over TCP, and links go
# down, hosts are killed, and one link is slow.
# usage: run.sh MPIRUN SOURCE BINARY [CASE ...]    all cases, or those named
# This needs root, Linux's namespaces, iproute2 and Open MPI: where they aren't, a line says so, and
# nothing is tested.
set -eu
mpirun=$1 source=$2 binary=$3
shift 3

skip() {
  echo "hosts: skipped, $*"
  exit 77
}
if [ "${HOSTS_INSIDE:-}" != 1 ]; then
  [ "$(id -u)" -eq 0 ] || skip "hosts are made by root alone"
  command -v ip >/dev/null || skip "there is no ip (Debian: iproute2)"
  "$mpirun" --version 2>/dev/null | grep -qE 'Open MPI|OpenRTE' || skip "$mpirun isn't Open MPI's"
  unshare -m -n -p -f --mount-proc true 2>/dev/null || skip "namespaces can't be made here"
  unshare -m -n sh -c 'ip link add name bridge0 type bridge && ip link add name veth0 type veth peer name veth1' 2>/dev/null ||
    skip "the kernel makes no bridges or veth links"
  # What happens in it ends with it: links, mounts and processes.
  HOSTS_INSIDE=1 exec unshare -m -n -p -f --kill-child --mount-proc \
    sh "$0" "$mpirun" "$source" "$binary" "$@"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

# --- the hosts --------------------------------------------------------------------------------

count=4
ip link set lo up
ip link add name hosts type bridge
ip link set hosts up
echo "127.0.0.1 localhost" >"$folder/etc_hosts"
k=0
while [ "$k" -lt "$count" ]; do
  echo "10.77.0.$((k + 1)) host$k" >>"$folder/etc_hosts"
  k=$((k + 1))
done

# in_host K COMMAND...
in_host() {
  host=$1
  shift
  nsenter -t "$(cat "$folder/host$host.pid")" -n -u -i -m "$@"
}

# plug K: its end of a link is eth0.
plug() {
  in_host "$1" ip addr add "10.77.0.$(($1 + 1))/24" dev eth0
  in_host "$1" ip link set eth0 up
}
boot() {
  rm -f "$folder/host$1.pid"
  unshare -n -u -i -m sh -c '
    hostname "$1"
    mount -t tmpfs tmpfs /dev/shm
    mkdir -p "$2/$1"
    mount -t tmpfs tmpfs "$2/$1"
    mount --bind "$2/etc_hosts" /etc/hosts
    echo $$ >"$2/$1.pid"
    exec sleep 100000' sh "host$1" "$folder" &
  while ! [ -s "$folder/host$1.pid" ]; do sleep 0.02; done
  pid=$(cat "$folder/host$1.pid")
  ip link add "link$1" type veth peer name eth0 netns "$pid"
  ip link set "link$1" master hosts up
  in_host "$1" ip link set lo up
  # TCP gives up what nobody acknowledges after 13 s, not after 15 minutes: mpirun waits for that.
  in_host "$1" sh -c 'echo 6 >/proc/sys/net/ipv4/tcp_retries2'
  plug "$1"
}
k=0
while [ "$k" -lt "$count" ]; do
  boot "$k"
  k=$((k + 1))
done

# In place of ssh: what mpirun starts on another host. Its errors also go to a file, as a host that is
# cut off can't tell anybody else.
cat >"$folder/agent" <<AGENT
#!/bin/sh
host=\$1
shift
exec nsenter -t "\$(cat "$folder/\$host.pid")" -n -u -i -m env TMPDIR="$folder/\$host" sh -c "\$*"
AGENT
cat >"$folder/logged" <<LOGGED
#!/bin/sh
exec "\$@" 2>>"\$LOG.\$(hostname)"
LOGGED
chmod +x "$folder/agent" "$folder/logged"

export TESSERA_NUM_DEVICES=2 OMPI_MCA_plm_rsh_agent="$folder/agent" OMPI_ALLOW_RUN_AS_ROOT=1 \
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=eth0 \
  OMPI_MCA_oob_tcp_if_include=eth0 OMPI_MCA_rmaps_base_oversubscribe=1 \
  OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_plm_rsh_no_tree_spawn=1 \
  OMPI_MCA_mpi_yield_when_idle=1

# on HOSTS PROGRAM...: a process on each of the first HOSTS hosts; started on the first one.
on() {
  hosts=$1
  shift
  list=host0:1
  k=1
  while [ "$k" -lt "$hosts" ]; do
    list=$list,host$k:1
    k=$((k + 1))
  done
  in_host 0 env TMPDIR="$folder/host0" "$mpirun" -x LOG -x TESSERA_NUM_DEVICES \
    -x TESSERA_EXCHANGE_TIMEOUT -x TESSERA_CACHE_DIR --host "$list" -np "$hosts" \
    "$folder/logged" "$@"
}
LOG=$folder/log
export LOG
quiet_logs() { rm -f "$LOG".*; }

# passes NAME HOSTS PROGRAM...
passes() {
  name=$1
  shift
  quiet_logs
  code=0
  begin=$(date +%s)
  on "$@" >"$folder/out" 2>&1 || code=$?
  if [ "$code" -ne 0 ]; then
    tail -n 30 "$folder/out" "$LOG".* 2>/dev/null || true
    fail "$name: exit code $code"
    return 1
  fi
  echo "ok: $name, $(($(date +%s) - begin)) s"
}

program=$binary/tessera_processes_failures
tool=$binary/tessera

# The clock of the day jumps by an hour every 100 ms, there and back: nothing may wait by it. The
# steady clock goes on, as it does when a machine's clock is set.
clock=
if command -v cc >/dev/null &&
  cc -shared -fPIC -O1 -o "$folder/clock.so" "$source/tests/hosts/jumping_clock.c" 2>/dev/null; then
  clock="env LD_PRELOAD=$folder/clock.so"
fi

# --- the cases --------------------------------------------------------------------------------

corpus() {
  passes "corpus, 4 hosts" 4 "$tool" check "$source/tests/corpus" -q \
    --only '^(mlp_train_step|transformer_block|rnn_scan|sort_argsort_topk|cond_switch)/' || true
}

network() {
  passes "network, 4 hosts" 4 "$tool" network --mesh data=4,model=2 --megabytes 0.5 || return 0
  [ "$(grep -c 'between hosts' "$folder/out")" -eq 6 ] || fail "network: not 6 links between hosts"
  text=$(tail -n 1 "$folder/out")
  "$tool" partition --network "$text" --json -o /dev/null \
    "$source/tests/corpus/mlp_train_step/s1.mlir" >"$folder/costs" 2>&1 ||
    { cat "$folder/costs"; fail "network: what it prints isn't one: $text"; }
  grep -q 'step_seconds' "$folder/costs" || fail "network: no costs"
}

training() {
  passes "training, 4 hosts" 4 "$binary/example_mlp_training" || return 0
  cp "$folder/out" "$folder/together"
  TESSERA_NUM_DEVICES=8 "$binary/example_mlp_training" >"$folder/alone"
  grep -v 'steps/s' "$folder/alone" | sed 's/, [0-9.]* s;/;/' | grep -q . || fail "training: no output"
  last=$(tail -n 1 "$folder/alone")
  grep -qF "$last" "$folder/together" || fail "training: other results: $last"
  # Saved by 4 hosts, read by 2 and by 1.
  checkpoints=$binary/tessera_processes_checkpoints
  mkdir -p "$folder/shared"
  passes "checkpoint saved by 4 hosts" 4 "$checkpoints" save "$folder/shared/run" 1 || return 0
  passes "checkpoint read by 2 hosts" 2 "$checkpoints" check "$folder/shared/run" 1 || return 0
  passes "checkpoint read by 1 host" 1 "$checkpoints" check "$folder/shared/run" 1 || true
}

# mpirun's daemon on a host that was cut off lives on for a while. When it ends, it removes the folder
# of its user's programs on that host, with what a later daemon has there.
no_daemons() {
  tries=0
  while pgrep -x orted >/dev/null && [ "$tries" -lt 40 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  pkill -9 -x orted || return 0
  while pgrep -x orted >/dev/null; do sleep 0.05; done
  k=0
  while [ "$k" -lt "$count" ]; do
    in_host "$k" sh -c 'rm -rf "$1"/ompi.*' sh "$folder/host$k"
    k=$((k + 1))
  done
}

# A link that has just come up carries nothing for up to a second, and mpirun doesn't try twice. A host
# that is reached refuses a connection to a port of nobody's.
reaches() {
  in_host "$1" env LC_ALL=C bash -c ": >/dev/tcp/10.77.0.$(($2 + 1))/9" 2>&1 | grep -q refused
}
all_reached() {
  k=1
  while [ "$k" -lt "$count" ]; do
    tries=0
    until reaches "$k" 0 && reaches 0 "$k"; do
      tries=$((tries + 1))
      [ "$tries" -lt 20 ] || { fail "host$k and host0 don't reach each other"; break; }
      sleep 0.1
    done
    k=$((k + 1))
  done
}

# started HOSTS PROGRAM...: in the background, when all say that they loop.
started() {
  quiet_logs
  rm -rf "$folder/pids"
  mkdir "$folder/pids"
  PIDS=$folder/pids
  hosts=$1
  shift
  on "$hosts" env PIDS="$PIDS" "$@" >"$folder/out" 2>&1 &
  launcher=$!
  tries=0
  while [ "$(find "$PIDS" -type f -size +0 | wc -l)" -lt "$hosts" ] && [ "$tries" -lt 600 ]; do
    sleep 0.1
    tries=$((tries + 1))
  done
  [ "$tries" -lt 600 ] || fail "$* didn't start on $hosts hosts within a minute: $(tail -n 3 "$folder/out")"
  sleep 0.5
}

# Whether the launcher ends within so many seconds; its exit code is in `code`.
ended_within() {
  tries=0
  while kill -0 "$launcher" 2>/dev/null && [ "$tries" -lt $(($1 * 20)) ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  if kill -0 "$launcher" 2>/dev/null; then
    return 1
  fi
  code=0
  wait "$launcher" || code=$?
}

# All processes of the program are gone, wherever they were, in so many seconds.
gone_within() {
  tries=0
  while pgrep -f "^$program loops" >/dev/null && [ "$tries" -lt $(($1 * 20)) ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  ! pgrep -f "^$program loops" >/dev/null
}

link_down_briefly() {
  started 3 "$program" lasts 6
  ip link set link1 down
  sleep 2
  ip link set link1 up
  if ended_within 40 && [ "$code" -eq 0 ]; then
    echo "ok: a link is down for 2 s"
  else
    tail -n 20 "$folder/out" "$LOG".* 2>/dev/null || true
    fail "a link that is down for 2 s"
    kill "$launcher" 2>/dev/null || true
  fi
}

# mpirun notices a host that is gone, but after the processes did.
mpirun_looks() {
  export OMPI_MCA_oob_tcp_keepalive_time=12 OMPI_MCA_oob_tcp_keepalive_intvl=2 \
    OMPI_MCA_oob_tcp_keepalive_probes=2
}
mpirun_waits() {
  unset OMPI_MCA_oob_tcp_keepalive_time OMPI_MCA_oob_tcp_keepalive_intvl \
    OMPI_MCA_oob_tcp_keepalive_probes
}

# What the others of a host that is cut off say, and that all end.
all_end() {
  name=$1
  begin=$(date +%s)
  gone_within 25 || fail "$name: processes are left: $(pgrep -af "^$program loops" | head -3)"
  took=$(($(date +%s) - begin))
  for h in 0 2; do
    grep -q -e 'nothing has arrived from process' -e 'has ended' -e 'ended by SIGTERM' -e "can't be" \
      "$LOG.host$h" 2>/dev/null || fail "$name: host$h doesn't say why it ends"
  done
  ended_within 60 || { fail "$name: mpirun is left"; kill -9 "$launcher"; wait "$launcher" || true; }
  [ "${code:-1}" -ne 0 ] || fail "$name: exit code 0"
  if [ "$failed" -ne 0 ]; then
    tail -n 12 "$folder/out" "$LOG".* 2>/dev/null || true
  else
    echo "ok: $name, all have ended after $took s"
  fi
}

# Timeouts pass as ever while the clock jumps.
link_down_for_good() {
  TESSERA_EXCHANGE_TIMEOUT=4
  mpirun_looks
  # shellcheck disable=SC2086
  started 3 $clock "$program" loops
  ip link set link1 down
  all_end "a link is down for good"
  mpirun_waits
  grep -q -e 'nothing has arrived' -e 'ended by' "$LOG.host1" 2>/dev/null ||
    fail "the host that is cut off doesn't say why it ends"
  ip link set link1 up
}

host_killed() {
  TESSERA_EXCHANGE_TIMEOUT=4
  mpirun_looks
  started 3 "$program" loops
  # As if its power were cut: nobody says goodbye.
  ip link set link1 down
  space=$(readlink "/proc/$(cat "$folder/host1.pid")/ns/net")
  for p in /proc/[0-9]*; do
    [ "$(readlink "$p/ns/net" 2>/dev/null)" = "$space" ] && kill -9 "${p#/proc/}" 2>/dev/null
  done
  all_end "a host is killed"
  mpirun_waits
  ip link del link1 2>/dev/null || true
  boot 1
}

two_programs() {
  (
    failed=0
    passes "one program of two" 4 "$tool" check "$source/tests/corpus" -q --only '^heat_roll/'
    exit $failed
  ) >"$folder/first" 2>&1 &
  first=$!
  (
    folder2=$(mktemp -d)
    code=0
    on 4 "$program" nothing >"$folder2/out" 2>&1 || code=$?
    [ "$code" -eq 0 ] || cat "$folder2/out"
    rm -rf "$folder2"
    exit "$code"
  ) || fail "two programs at once: the second one"
  wait "$first" || { cat "$folder/first"; fail "two programs at once: the first one"; }
  echo "ok: two programs at once"
}

jumping_clock() {
  if [ -z "$clock" ]; then
    echo "skipped: a clock that jumps, there is no C compiler"
    return 0
  fi
  # shellcheck disable=SC2086
  passes "a clock that jumps" 3 $clock "$program" nothing || true
}

slow_link() {
  if tc qdisc add dev link1 root netem delay 50ms loss 1% 2>/dev/null &&
    in_host 1 tc qdisc add dev eth0 root netem delay 50ms loss 1% 2>/dev/null; then
    how="netem"
  elif [ -c /dev/net/tun ] && command -v python3 >/dev/null; then
    ip link del link1
    python3 "$source/tests/hosts/slow_link.py" slow1 link1 50 1 >"$folder/slow" &
    carrier=$!
    while ! [ -s "$folder/slow" ]; do sleep 0.05; done
    ip link set link1 master hosts up
    ip link set slow1 netns "$(cat "$folder/host1.pid")" name eth0
    plug 1
    how="TAP"
  else
    echo "skipped: no slow link, there is neither netem nor TAP"
    return 0
  fi
  passes "50 ms each way, 1 % lost, by $how" 3 "$program" nothing || true
  passes "the same, a program of the corpus" 2 "$tool" check "$source/tests/corpus" -q \
    --only '^mlp_train_step/s1.hlo' || true
  if [ "$how" = TAP ]; then
    kill "$carrier"
    boot 1
  else
    tc qdisc del dev link1 root
    in_host 1 tc qdisc del dev eth0 root
  fi
}

[ $# -gt 0 ] || set -- corpus network training link_down_briefly link_down_for_good host_killed \
  two_programs jumping_clock slow_link
for case in "$@"; do
  no_daemons
  all_reached
  TESSERA_EXCHANGE_TIMEOUT=60
  export TESSERA_EXCHANGE_TIMEOUT
  "$case"
done
[ "$failed" -eq 0 ] || exit 1
echo "hosts: ok"
