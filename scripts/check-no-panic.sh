#!/bin/bash
# Checks in the linked preload library that no panic can be reached from an entry that
# stands between the program and its allocator: follows direct calls, jumps, and calls
# through the table of addresses that the loader fills in. Not followed is what
# no event waits for: the start of a forked child's own recording, and the search for a
# C++ library that a plug-in brought along.
#
# usage: scripts/check-no-panic.sh path/to/libheapreel_preload.so   (a release build)
# exit 0: none reached; 1: the ways to those that are; 2: misuse
set -euo pipefail
library=${1:?usage: check-no-panic.sh libheapreel_preload.so}
[ -r "$library" ] || { echo "check-no-panic: $library: not readable" >&2; exit 2; }
{
    # Slots of the table: their address and that of the function in them.
    readelf -rW "$library" | awk '$3 == "R_X86_64_RELATIVE" { print "slot", $1, $4 }'
    # Names as the linker has them: once demangled, instances of one generic look alike.
    objdump -d --no-show-raw-insn "$library"
} | awk '
    function edge(target) {
        if (target != current && !((current, target) in known)) {
            known[current, target] = 1
            callee[current, ++callees[current]] = target
        }
    }
    function bare(address) { sub(/^0+/, "", address); return address }
    $1 == "slot" && NF == 3 { holds[bare($2)] = bare($3); next }
    /^[0-9a-f]+ <.*>:$/ {
        address = bare($1)
        current = $0; sub(/^[0-9a-f]+ </, "", current); sub(/>:$/, "", current)
        name[address] = current
        next
    }
    /\t(call|jmp|j[a-z]+) +[0-9a-f]+ </ {
        target = $0; sub(/^[^<]*</, "", target); sub(/>[^>]*$/, "", target); sub(/\+0x[0-9a-f]+$/, "", target)
        edge(target)
        next
    }
    # A function whose address is taken may be called.
    /# [0-9a-f]+ </ {
        slot = $0; sub(/^.*# /, "", slot); sub(/ <.*$/, "", slot)
        taken[current, ++takes[current]] = slot
    }
    END {
        for (f in takes) for (i = 1; i <= takes[f]; i++) {
            slot = taken[f, i]; current = f
            if (slot in name) edge(name[slot])
            else if (slot in holds && holds[slot] in name) edge(name[holds[slot]])
        }
        for (f in callees) if (f ~ /heapreel_preload.*(c_entries|cxx_entries).*(entered|counted)/) {
            queue[++reached] = f; by[f] = ""; entries++
        }
        if (entries < 20) { print "check-no-panic: entries not found; is this a release build with symbols?"; exit 2 }
        # `panic_in_cleanup` and `panic_cannot_unwind` are not counted: they are where a panic
        # from elsewhere would be stopped, and there is none if the rest finds none.
        panics = "panick|panic_|unwrap_failed|expect_failed|index_fail|index_len_fail|index_order_fail|slice_error_fail|copy_from_slice|len_mismatch|handle_alloc_error|capacity_overflow|rust_begin_unwind"
        for (i = 1; i <= reached; i++) {
            f = queue[i]
            if (f ~ panics || f ~ /(8heapreel7session10fork_child|16heapreel_preload(11cxx_entries9find_late|11cxx_runtime6loaded))/) continue
            for (k = 1; k <= callees[f]; k++) if (!(callee[f, k] in by)) {
                by[callee[f, k]] = f; queue[++reached] = callee[f, k]
            }
        }
        for (i = 1; i <= reached; i++) if (queue[i] ~ panics && queue[i] !~ /panic_in_cleanup|panic_cannot_unwind/) {
            bad++
            print queue[i]
            for (f = by[queue[i]]; f != ""; f = by[f]) print "    from " f
        }
        printf "check-no-panic: %d functions reached from %d entries, %d of them panic\n", reached, entries, bad
        exit bad > 0
    }' | { c++filt 2>/dev/null || cat; }
