#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The server as a process of its own: try.sh PROGRAM. It starts, answers (if there is curl) and stops on SIGTERM with 0.
set -u
log=$(mktemp)
trap 'rm -f "$log"; kill "$server" 2>/dev/null' EXIT
"$1" --port 0 >"$log" 2>&1 &
server=$!
for _ in $(seq 300); do
  grep -q '^listening' "$log" && break
  sleep 0.1
done
url=$(sed -n 's/^listening on //p' "$log")
if [ -z "$url" ]; then
  cat "$log"
  exit 1
fi
if command -v curl >/dev/null 2>&1; then
  zeros=$(printf '0 %.0s' $(seq 64))
  answer=$(curl -sS --noproxy '*' -X POST --data "$zeros" "$url/predict")
  case $answer in
    '{"digit": '*) echo "$answer" ;;
    *)
      echo "no answer: $answer"
      exit 1
      ;;
  esac
  [ "$(curl -sS --noproxy '*' -o /dev/null -w '%{http_code}' -X POST --data "1 2 3" "$url/predict")" = 400 ] || exit 1
fi
kill -TERM "$server"
wait "$server"
status=$?
cat "$log"
exit $status
