#!/bin/bash
# Runs the unit tests of code built for arm64 under qemu-user, on an x86-64 Debian or Ubuntu: C
# tests and Go tests of native, and tests of the packages whose results could depend on the CPU. It
# installs the cross compiler and qemu-user if they are missing. The arm64 libraries are unpacked
# below .build/arm64, so that the machine's list of architectures does not change.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/env.sh
packages=(./native ./internal/order ./internal/transform ./internal/catalog ./mmap ./pinned)

die() { printf 'arm64: %s\n' "$*" >&2; exit 1; }

missing=()
command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
if [ "${#missing[@]}" -gt 0 ]; then
  [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || die "these Debian/Ubuntu packages are missing: ${missing[*]}."
  export DEBIAN_FRONTEND=noninteractive
  mkdir -p .build
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } </dev/null >.build/apt.log 2>&1 ||
    die "apt-get could not install ${missing[*]} (see .build/apt.log)."
fi

# libjpeg, libwebp and zlib for arm64, with headers and static archives.
sysroot=$root/.build/arm64/sysroot
if [ ! -e "$sysroot/usr/lib/aarch64-linux-gnu/libwebp.a" ]; then
  state=$root/.build/arm64/apt
  rm -rf "$sysroot" "$state"
  mkdir -p "$sysroot" "$state"/{lists,archives}/partial
  options=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$state"
    -o Dir::State::status=/dev/null -o Dir::Cache="$state" -o APT::Sandbox::User=root)
  # Ubuntu's libjpeg-turbo8-dev is Debian's libjpeg62-turbo-dev.
  { apt-get "${options[@]}" update &&
    cd "$state/archives" &&
    apt-get "${options[@]}" download zlib1g-dev libwebp-dev &&
    { apt-get "${options[@]}" download libjpeg62-turbo-dev || apt-get "${options[@]}" download libjpeg-turbo8-dev; }
  } </dev/null >"$root/.build/apt.log" 2>&1 || die "the arm64 libraries could not be fetched (see .build/apt.log)."
  cd "$root"
  for package in "$state"/archives/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
fi

include=$sysroot/usr/include
export GOOS=linux GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc
export CGO_CFLAGS="-g -O2 -I$include -I$include/aarch64-linux-gnu"
export CGO_LDFLAGS="-L$sysroot/usr/lib/aarch64-linux-gnu"
export CPATH=$include/aarch64-linux-gnu
emulator="qemu-aarch64 -L /usr/aarch64-linux-gnu"
export HEADRACE_CTEST_RUN=$emulator

go build -buildmode=c-shared -o .build/arm64/libheadrace.so ./capi
# What qemu-user does not do, and the tests that need it: start another arm64 program (the
# kernel does not run those), respect RLIMIT_AS, pass on MADV_POPULATE and MADV_DONTFORK, say where a bus
# error happened.
skipped='CanBeForced|RefusalsOfTheKernel|DevShm|AddressSpaceThatIsUsedUp|PopulateMakesPagesResident'
skipped+='|ReserveMakesWarmSlots|GuardTurnsAFault|PopulateSaysWhat|InjectedFaults|KernelWithoutPopulate'
skipped+='|MemoryThatIsNotThere|ForkedChildrenJustWhile|StormOfSignals'
go test -timeout 60m -exec "$emulator" -skip "$skipped" "${packages[@]}"
