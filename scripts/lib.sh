# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts of this folder; sourced, not run. Plain POSIX sh.

say() { printf '%s\n' "$*"; }
die() {
  printf '%s\n' "$*" >&2
  exit 1
}

# Debian 12's packages for building the library and its examples, and those that the tests need in
# addition. docs/dependencies.md states the purpose of each.
build_packages="g++ cmake ninja-build mold libtbb-dev libopenblas-dev libfmt-dev
  libxxhash-dev nlohmann-json3-dev llvm-19-dev libzstd-dev zlib1g-dev libopenmpi-dev
  openmpi-bin"
test_packages="libgtest-dev libbenchmark-dev libcli11-dev clang-format-14
  pkg-config git valgrind chrpath help2man dpkg-dev iproute2"

# Runs a command as root, through sudo if necessary.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    if [ -t 0 ] && [ "${CI:-}" != true ]; then sudo "$@"; else sudo -n "$@"; fi
  else
    return 127
  fi
}

# need_packages NAME...: installs those that are missing. Asks dpkg only when none is.
need_packages() {
  if ! command -v dpkg-query >/dev/null 2>&1; then
    say "This is not a Debian system; these must be installed already: $*"
    return 0
  fi
  missing=
  # shellcheck disable=SC2016
  installed=" $(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^ii *//p' | tr '\n' ' ') "
  for package in "$@"; do
    case $installed in
      *" $package "*) ;;
      *) missing="$missing $package" ;;
    esac
  done
  [ -n "$missing" ] || return 0

  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null 2>&1; then
    die "These Debian packages are missing:$missing
Neither root nor sudo is at hand. Let an administrator run: apt-get install$missing"
  fi
  say "Installing$missing"
  apt_log=$(mktemp)
  # shellcheck disable=SC2086
  if ! {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 update &&
      as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 \
        -o Dpkg::Use-Pty=0 install --no-install-recommends $missing
  } >"$apt_log" 2>&1 </dev/null; then
    tail -n 30 "$apt_log" >&2
    rm -f "$apt_log"
    die "apt-get could not install:$missing (its last words are above)"
  fi
  rm -f "$apt_log"
}

# Number of parallel build jobs: one per core, but no more than memory allows (a large source takes
# about 1 GB).
build_jobs() {
  cores=$(nproc 2>/dev/null || echo 1)
  memory_gb=$(awk '/^MemAvailable:/ {print int($2 / 1000000)}' /proc/meminfo 2>/dev/null)
  if [ "${memory_gb:-0}" -ge 1 ] && [ "$memory_gb" -lt "$cores" ]; then
    cores=$memory_gb
  fi
  echo "$cores"
}

# configure PRESET [CMAKE OPTION...]; quiet unless it fails.
configure() {
  log=$(mktemp)
  if ! cmake --preset "$@" >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}
