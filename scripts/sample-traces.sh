#!/bin/bash
# Makes the traces in traces/: each of skirmish's scenes, played for so many frames.
#
# usage: scripts/sample-traces.sh [path/to/heapreel]
#
# The game is built with its source paths made relative and run from /tmp, so that a
# trace holds nothing of the machine that it was made on but its kernel's version.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly root=$PWD heapreel=$(realpath "${1:-target/release/heapreel}")
readonly build=${CARGO_TARGET_DIR:-$root/target}/samples
home=${CARGO_HOME:-$HOME/.cargo}
RUSTFLAGS="--remap-path-prefix=$root=. --remap-path-prefix=$home=cargo -C force-frame-pointers=no" \
    cargo build --release --locked -p heapreel --example skirmish --target-dir "$build"
work=$(mktemp -d /tmp/samples.XXXXXX)
trap 'rm -rf "$work" /tmp/skirmish' EXIT
cp "$build/release/examples/skirmish" /tmp/skirmish
record() {
    local scene=$1 frames=$2
    shift 2
    # The scenes play without the preload library: the game carries the recorder.
    (cd /tmp && HEAPREEL_OUT="$work/$scene.hreel" ./skirmish "$scene" --frames "$frames" "$@")
    (cd /tmp && "$heapreel" symbols "$work/$scene.hreel")
    mv "$work/$scene.hreel" "traces/$scene.hreel"
}
rm -f traces/*.hreel
record hits 900
record stages 300 --leak
record openworld 120
record leak 600
record overrun 120
record padded 300
record segments 600
ls -l traces
