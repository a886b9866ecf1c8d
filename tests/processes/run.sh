#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs tests in several processes.
# usage: run.sh MPIRUN cases N DEVICES PROGRAM     the cases of PROGRAM, in N processes
#        run.sh MPIRUN failures PROGRAM            what goes wrong ends all processes with a reason
#        run.sh MPIRUN plugins PROGRAM FAILING OWN what goes wrong with plugins, and in which order
#        run.sh MPIRUN moments TIMES PROGRAM       a process is killed or stopped at random moments
#        run.sh MPIRUN checkpoints PROGRAM         saved by some processes, restored by others
#        run.sh MPIRUN corpus N TOOL CORPUS        TOOL run and check, against one process's results
#        run.sh MPIRUN random N COUNT PROGRAM      random programs, against one process's results
#        run.sh MPIRUN examples N,... PROGRAM ...  programs print what they print in one process
# Exit code 77: there is no MPIRUN, or it starts no processes here.
set -eu
mpirun=$1 what=$2
shift 2

skip() {
  echo "skipped: $*"
  exit 77
}
command -v "$mpirun" >/dev/null 2>&1 || skip "there is no mpirun ($mpirun)"
flags=
if "$mpirun" --version 2>&1 | grep -qi 'open.\?mpi\|openrte'; then
  # More processes than cores, also as root in a container, and without warnings of its own.
  flags="--oversubscribe --allow-run-as-root"
  export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_base_warn_component_unused=0
fi
in_processes() {
  n=$1
  shift
  # shellcheck disable=SC2086
  "$mpirun" $flags -np "$n" "$@"
}
in_processes 2 true >/dev/null 2>&1 || skip "$mpirun can't start processes here"

TESSERA_EXCHANGE_TIMEOUT=${TESSERA_EXCHANGE_TIMEOUT:-60}
export TESSERA_EXCHANGE_TIMEOUT
failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

cases() {
  TESSERA_NUM_DEVICES=$2
  export TESSERA_NUM_DEVICES
  in_processes "$1" "$3"
}

# ends HOW SECONDS WORDS: the program ends so soon, with an error that has the words.
ends() {
  how=$1 seconds=$2
  shift 2
  begin=$(date +%s)
  code=0
  TESSERA_NUM_DEVICES=2 in_processes 2 "$program" "$how" >"$folder/out" 2>&1 || code=$?
  took=$(($(date +%s) - begin))
  if [ "$how" = nothing ] || [ "$how" = plugin_first ]; then
    [ "$code" -eq 0 ] || fail "$how: exit code $code"
  else
    [ "$code" -ne 0 ] || fail "$how: exit code 0"
  fi
  [ "$took" -le "$seconds" ] || fail "$how: it took $took seconds"
  for word in "$@"; do
    grep -q -- "$word" "$folder/out" || fail "$how: its output has no '$word'"
  done
  if [ "$failed" -ne 0 ]; then
    cat "$folder/out"
    return
  fi
  echo "ok: $how, $took seconds"
}

failures() {
  program=$1
  TESSERA_EXCHANGE_TIMEOUT=3
  ends nothing 20
  ends killed 20
  ends ends 20 'process 0.* in all-\(gather\|reduce\)' 'process 1 has ended'
  ends exits 20 'process 1 has ended'
  ends throws 20 "this process can't go on" 'process 1 has ended'
  ends sleeps 25 'nothing has arrived from process 1 for 3.0 s' 'TESSERA_EXCHANGE_TIMEOUT' \
    "process 1: doesn't answer"
  ends differs 20 'run different programs' '\[process 0\]' '\[process 1\]' 'first that differs'
  ends other 20 '\[process 0\]' 'exchanges something else'
}

plugins() {
  program=$1 PLUGIN=$2 PJRT_TEST_PLUGIN=$3 PJRT_TEST_FAULT=PJRT_Client_Create
  export PLUGIN PJRT_TEST_PLUGIN PJRT_TEST_FAULT
  ends plugin_fails 30 'on purpose' '^0 threads are left'
  PLUGIN=$3
  ends plugin_options 30 '\[process 0\].*process 1 .*num_nodes=3' '\[process 1\].*num_nodes=2'
  ends plugin_late 30 'process 0\]' 'needs MPI_THREAD_MULTIPLE' 'load_pjrt_plugin before'
  ends plugin_first 30
}

moments() {
  times=$1 program=$2
  TESSERA_EXCHANGE_TIMEOUT=2
  TESSERA_NUM_DEVICES=2
  PIDS=$folder/pids
  export TESSERA_NUM_DEVICES PIDS
  k=0
  while [ "$k" -lt "$times" ]; do
    k=$((k + 1))
    random=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
    victim=$((random % 3)) after=$(printf '0.%03d' $((random / 3 % 400)))
    signal=KILL
    [ $((random / 1200 % 2)) -eq 0 ] || signal=STOP
    rm -rf "$PIDS"
    mkdir "$PIDS"
    in_processes 3 "$program" loops >"$folder/out" 2>&1 &
    launcher=$!
    tries=0
    while [ ! -s "$PIDS/0" ] || [ ! -s "$PIDS/1" ] || [ ! -s "$PIDS/2" ]; do
      sleep 0.05
      tries=$((tries + 1))
      [ "$tries" -lt 400 ] || break
    done
    sleep "$after"
    kill -s "$signal" "$(cat "$PIDS/$victim")" || fail "process $victim isn't there"
    begin=$(date +%s)
    tries=0
    while kill -0 "$launcher" 2>/dev/null && [ "$tries" -lt 300 ]; do
      sleep 0.05
      tries=$((tries + 1))
    done
    what="$signal of process $victim after $after s"
    if [ "$tries" -ge 300 ]; then
      kill -s KILL "$launcher" 2>/dev/null || true
      fail "$what: still there after $(($(date +%s) - begin)) seconds"
    fi
    code=0
    wait "$launcher" || code=$?
    [ "$code" -ne 0 ] || fail "$what: exit code 0"
    for p in 0 1 2; do
      # One that has ended may wait for its parent to notice.
      sleeps=0
      while ps -o stat= -p "$(cat "$PIDS/$p")" | grep -qv '^Z' && [ "$sleeps" -lt 20 ]; do
        sleep 0.1
        sleeps=$((sleeps + 1))
      done
      if [ "$sleeps" -ge 20 ]; then
        kill -s KILL "$(cat "$PIDS/$p")" 2>/dev/null || true
        fail "$what: process $p is left behind"
      fi
    done
    if [ "$signal" = STOP ]; then
      grep -q 'TESSERA_EXCHANGE_TIMEOUT' "$folder/out" || fail "$what: no process says why"
    fi
    [ "$failed" -eq 0 ] || cat "$folder/out"
  done
  echo "$times moments"
}

# checkpoint N DEVICES HOW STEP ...: by N processes of so many devices.
checkpoint() {
  n=$1 how=$3 step=$4
  TESSERA_NUM_DEVICES=$2
  export TESSERA_NUM_DEVICES
  shift 4
  code=0
  in_processes "$n" "$program" "$how" "$folder/run" "$step" "$@" >"$folder/out" 2>&1 || code=$?
}
good_checkpoint() {
  checkpoint "$@"
  [ "$code" -eq 0 ] && return
  cat "$folder/out"
  fail "checkpoint $*: exit code $code"
}

checkpoints() {
  program=$1
  good_checkpoint 2 2 save 1
  good_checkpoint 4 1 check 1
  good_checkpoint 1 8 check 1
  good_checkpoint 3 2 check 1
  good_checkpoint 1 2 save 2
  good_checkpoint 2 4 check 2
  good_checkpoint 4 2 save 3
  good_checkpoint 2 1 check 3
  # A process is killed at one of the calls of its save: the step before remains.
  for at in "0 1" "1 1" "2 0" "3 1" "6 0" "8 1" "12 0" "16 0" "20 0"; do
    # shellcheck disable=SC2086
    checkpoint 2 2 killed 4 $at
    [ "$code" -ne 0 ] || fail "nobody noticed that a process was killed ($at)"
    if [ -e "$folder/run/step_00000004" ]; then
      good_checkpoint 1 4 check 4
      rm -r "$folder/run/step_00000004"
    else
      good_checkpoint 1 4 check 3
    fi
  done
  good_checkpoint 2 2 save 4
  [ "$(ls -A "$folder/run")" = "step_00000003
step_00000004" ] || fail "other things are left: $(ls -A "$folder/run")"
}

corpus() {
  n=$1 tool=$2 programs=$3
  in_processes "$n" "$tool" check "$programs" -q || fail "$n processes give other results"
  for case in mlp_train_step transformer_block rnn_scan cond_switch sort_argsort_topk; do
    "$tool" run "$programs/$case/s1.mlir" --inputs "$programs/$case" --output-dir "$folder/one" \
      >/dev/null
    in_processes "$n" "$tool" run "$programs/$case/s1.mlir" --inputs "$programs/$case" \
      --output-dir "$folder/several" >"$folder/out"
    grep -q "8 devices of $n processes" "$folder/out" || fail "$case: not in $n processes"
    cmp "$folder/one/out0.npy" "$folder/several/out0.npy" || fail "$case: other bits"
  done
}

random() {
  TESSERA_LOG=error in_processes "$1" "$3" "$2" || fail "$1 processes give other results"
}

# What a program prints, but for how long things took and which parts of arrays this process has.
comparable() {
  grep -v -e 'steps/s' -e ' replica [0-9]* holds' "$1" | sed 's/, [0-9.]* s;/;/'
}

# Programs on 8 devices in all, whatever the number of processes. Of these the first one's output
# counts.
examples() {
  counts=$1
  shift
  for program in "$@"; do
    name=$(basename "$program")
    TESSERA_NUM_DEVICES=8 "$program" >"$OUT" 2>"$folder/errors" || fail "$name in one process"
    comparable "$OUT" >"$folder/alone"
    for n in $(echo "$counts" | tr , ' '); do
      TESSERA_NUM_DEVICES=$((8 / n))
      export TESSERA_NUM_DEVICES
      # shellcheck disable=SC2016
      if ! in_processes "$n" sh -c '
        if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" != 0 ]; then exec "$@" >/dev/null; fi
        exec "$@" >"$OUT"' sh "$program" >"$folder/errors" 2>&1; then
        cat "$OUT" "$folder/errors"
        fail "$name in $n processes"
        continue
      fi
      comparable "$OUT" >"$folder/together"
      if diff "$folder/alone" "$folder/together"; then
        echo "ok: $name in $n processes"
      else
        fail "$name prints something else in $n processes"
      fi
    done
  done
}

folder=$(mktemp -d)
OUT=$folder/out
export OUT
trap 'rm -rf "$folder"' EXIT
"$what" "$@"
[ "$failed" -eq 0 ]
