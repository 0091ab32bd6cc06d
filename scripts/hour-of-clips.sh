#!/usr/bin/env bash
# An hour, or so many minutes, of skirmish's patrol at 60 frames a second: plain, then with
# clips. Prints the mean frame time of both and the groups of clips. By hand, on a quiet machine.
# usage: hour-of-clips.sh HEAPREEL SKIRMISH [MINUTES]
set -euo pipefail
heapreel=$1 skirmish=$2 minutes=${3:-60}
folder=$(mktemp -d)
frames=$((minutes * 3600))
game=("$skirmish" patrol --pace 60 --frames "$frames")

# Prints nanoseconds a frame of the command.
timed() {
    local start end
    start=$(date +%s%N)
    "$@" >&2
    end=$(date +%s%N)
    echo $(((end - start) / frames))
}

plain=$(timed "${game[@]}")
clipped=$(timed "$heapreel" record --clips 300frames --frame-budget 20ms --clip-every 5s \
    --keep-clips 100 -o "$folder/clips" -- "${game[@]}" --truth "$folder/truth.json")
echo "frame time plain $plain ns, with clips $clipped ns"
"$heapreel" trend "$folder/clips"
echo "truth and clips are in $folder"
