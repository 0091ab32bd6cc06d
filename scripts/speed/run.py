#!/usr/bin/env python3
"""Speed beside the plain program and heaptrack, as ratios of one interleaved run.

    scripts/speed/run.py [--reps 5] [--frames 120] [--report-frames 600] [--only REGEX]

Builds the workloads beside this file, runs every variant once a round, so that a drift of
the machine meets all alike, and prints medians. CPU is user + system time of the whole
process tree, recorder and interpreter included; an event is one malloc or one free. Needs
heapreel (`cargo build --release`), heaptrack, g++, gcc and cargo. OpenTTD is measured where
it is installed, bevy (minutes to build) with `--bevy`.
"""

import argparse
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OPENTTD = "/usr/games/openttd"
FRAME_POINTERS = ["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"]


def build(folder, bevy):
    def compile(source, name, flags):
        compiler = "g++" if source.endswith("cpp") else "gcc"
        command = [compiler, "-O2", "-g", "-pthread", *flags, os.path.join(HERE, source), "-o"]
        subprocess.run(command + [os.path.join(folder, name)], check=True)

    def cargo(package, program, name, *flags):
        manifest = os.path.join(HERE, package, "Cargo.toml")
        target = os.path.join(folder, "target")
        command = ["cargo", "build", "--release", "--quiet", "--locked", "--manifest-path", manifest, "--target-dir", target]
        subprocess.run(command + list(flags), check=True)
        shutil.copy(os.path.join(target, "release", program), os.path.join(folder, name))

    compile("game.cpp", "game_fp", ["-std=c++17", *FRAME_POINTERS])
    compile("game.cpp", "game_nofp", ["-std=c++17", "-fomit-frame-pointer"])
    compile("tight.c", "tight_fp", ["-fno-builtin", *FRAME_POINTERS])
    compile("tight.c", "tight_nofp", ["-fno-builtin", "-fomit-frame-pointer"])
    cargo("rust", "speed", "game_rs")
    cargo("rust", "speed", "game_rs_linked", "--features", "linked")
    if bevy:
        cargo("bevy", "speed-bevy", "bevy")


def run(command, outputs):
    """One run: wall and CPU seconds, peak memory, events, bytes written."""
    for pattern in outputs:
        for path in glob.glob(pattern):
            os.remove(path)
    with tempfile.TemporaryFile("w+") as out:
        start = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
        wall = time.monotonic() - start
        out.seek(0)
        said = dict(re.findall(r"(\w+)=([0-9.]+)", out.read()))
    return {
        "wall": wall,
        "cpu": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss,
        "events": int(said.get("mallocs", 0)) + int(said.get("frees", 0)),
        "bytes": sum(os.path.getsize(path) for pattern in outputs for path in glob.glob(pattern)),
        "status": status,
    }


def programs(folder, arguments):
    """(name, command, the variants that are of interest)"""
    frames = str(arguments.frames)
    each = ["heapreel", "no backtraces", "neither", "also frees", "heaptrack"]
    found = [
        (f"game_fp {frames}", [f"{folder}/game_fp", frames], each),
        (f"game_nofp {frames}", [f"{folder}/game_nofp", frames], each),
        (f"game_rs {frames}", [f"{folder}/game_rs", frames], ["heapreel", "heaptrack"]),
        (f"game_fp {frames}, 1 thread", [f"{folder}/game_fp", frames, "20000", "tame", "1"], ["heapreel"]),
        ("tight_fp 5M", [f"{folder}/tight_fp", "5000000"], each),
        ("tight_nofp 5M", [f"{folder}/tight_nofp", "5000000"], ["heapreel"]),
    ]
    if os.path.exists(OPENTTD):
        game = [OPENTTD, "-x", "-g", "-G", "42", "-s", "null", "-m", "null", "-v", f"null:ticks={arguments.ticks}"]
        found.append((f"OpenTTD {arguments.ticks}", game, ["heapreel", "heaptrack"]))
    if arguments.bevy:
        found.append(("bevy 600", [f"{folder}/bevy", "600"], ["heapreel", "heaptrack"]))
    return found


FLAGS = {
    "heapreel": [],
    "no backtraces": ["--no-backtraces"],
    "neither": ["--no-backtraces", "--no-latency"],
    "also frees": ["--free-backtraces"],
}


def record_rows(folder, heapreel, arguments):
    """(name, name of the plain row, command, output patterns)"""
    rows = []
    for name, program, variants in programs(folder, arguments):
        plain = f"{name} plain"
        rows.append((plain, None, program, []))
        for variant in variants:
            if variant == "heaptrack":
                rows.append((f"{name} heaptrack", plain, ["heaptrack", "-o", f"{folder}/ht", *program], [f"{folder}/ht*"]))
                continue
            trace = f"{folder}/{variant}.hreel".replace(" ", "-")
            ours = [heapreel, "record", "--force", "--no-symbols", *FLAGS[variant], "-o", trace, "--", *program]
            rows.append((f"{name} {variant}", plain, ours, [trace]))
    frames = str(arguments.frames)
    rows.append((f"game_rs {frames} linked in, not started", f"game_rs {frames} plain", [f"{folder}/game_rs_linked", frames], []))
    return rows


def events_of(heapreel, trace):
    """Of a program that does not count its own calls."""
    said = subprocess.run([heapreel, "info", "--json", trace], capture_output=True, text=True).stdout
    info = json.loads(said or "{}")
    return info.get("allocations", 0) + info.get("deallocations", 0) + 2 * info.get("reallocations", 0)


def memory_rows(folder, heapreel):
    """100,000 backtraces and random sizes: what recording and reading take."""
    trace, program = f"{folder}/wild.hreel", [f"{folder}/game_fp", "60", "20000", "wild"]
    plain = run(program, [])
    recorded = run([heapreel, "record", "--force", "--no-symbols", "-o", trace, "--", *program], [trace])
    reported = run([heapreel, "report", trace], [])
    print("\n| game_fp 60 20000 wild | peak MiB |\n|---|---|")
    for name, result in [("plain", plain), ("heapreel record, program or wrapper", recorded), ("heapreel report", reported)]:
        failed = f" failed: {result['status']}" if result["status"] else ""
        print(f"| {name} | {result['memory'] / 1024:.0f}{failed} |")


def table(rows, results):
    print("| run | wall s | CPU s | wall ratio | added ns/event (CPU) | bytes/event | peak MiB | min..max wall |")
    print("|---|---|---|---|---|---|---|---|")
    median = lambda name, key: statistics.median(result[key] for result in results[name])
    for name, plain, _, _ in rows:
        if any(result["status"] for result in results[name]):
            print(f"| {name} | failed: {[result['status'] for result in results[name]]} |")
            continue
        wall, cpu = median(name, "wall"), median(name, "cpu")
        events = median(plain or name, "events") or median((plain or name).removesuffix(" plain") + " heapreel", "events") or 1
        added = (cpu - median(plain, "cpu")) / events * 1e9 if plain else 0
        ratio = wall / median(plain, "wall") if plain else 1
        walls = [result["wall"] for result in results[name]]
        print(
            f"| {name} | {wall:.3f} | {cpu:.3f} | {ratio:.2f} | {added:.0f} | {median(name, 'bytes') / events:.2f} "
            f"| {median(name, 'memory') / 1024:.0f} | {min(walls):.2f}..{max(walls):.2f} |"
        )


def report_rows(folder, heapreel, frames):
    """Records once with both, then reads: heapreel's report beside heaptrack's interpret and print."""
    program = [f"{folder}/game_fp", str(frames)]
    trace = f"{folder}/report.hreel"
    run([heapreel, "record", "--force", "-o", trace, "--", *program], [])
    recorded = run(["heaptrack", "--raw", "-o", f"{folder}/raw", *program], [f"{folder}/raw*"])
    unpack = "zstd -dcq" if glob.glob(f"{folder}/raw*.zst") else "gzip -dc"
    places = glob.glob("/usr/lib*/heaptrack/libexec/heaptrack_interpret") + glob.glob("/usr/lib/*/heaptrack/libexec/heaptrack_interpret")
    interpreter = places[0] if places else "heaptrack_interpret"
    interpret = f"{unpack} {folder}/raw*.raw* | {interpreter} > {folder}/interpreted && heaptrack_print -f {folder}/interpreted"
    return recorded["events"], [
        ("heapreel report", None, [heapreel, "report", trace], []),
        ("heaptrack interpret + print", None, ["sh", "-c", interpret], []),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--ticks", type=int, default=200_000, help="of OpenTTD")
    parser.add_argument("--bevy", action="store_true", help="also the bevy app, which takes minutes to build")
    parser.add_argument("--report-frames", type=int, default=600)
    parser.add_argument("--only", default=".", help="rows whose name this expression finds")
    parser.add_argument("--heapreel", default=os.path.join(ROOT, "target/release/heapreel"))
    parser.add_argument("--folder", help="where to build and write; a temporary folder by default")
    arguments = parser.parse_args()
    os.environ["SDL_VIDEODRIVER"] = "dummy"  # not by env(1): heaptrack loses a program at exec
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        os.makedirs(folder, exist_ok=True)
        build(folder, arguments.bevy)
        wanted = re.compile(arguments.only)
        rows = record_rows(folder, arguments.heapreel, arguments)
        chosen = {row[0] for row in rows if wanted.search(row[0])}
        chosen |= {row[1] for row in rows if row[0] in chosen and row[1]}
        rows = [row for row in rows if row[0] in chosen]
        results = {row[0]: [] for row in rows}
        for _ in range(arguments.reps):
            for name, plain, command, outputs in rows:
                result = run(command, outputs)
                if plain and name == plain.removesuffix(" plain") + " heapreel" and not result["events"]:
                    result["events"] = events_of(arguments.heapreel, outputs[0])
                results[name].append(result)
        if rows:
            table(rows, results)
        if wanted.search("wild"):
            memory_rows(folder, arguments.heapreel)
        if arguments.report_frames and wanted.search("report"):
            events, rows = report_rows(folder, arguments.heapreel, arguments.report_frames)
            results = {row[0]: [] for row in rows}
            for _ in range(max(1, arguments.reps // 2)):
                for name, _, command, outputs in rows:
                    results[name].append(run(command, outputs))
            print(f"\n{events} events\n\n| read | wall s | events/s | CPU s | peak MiB |\n|---|---|---|---|---|")
            for name, runs in results.items():
                wall = statistics.median(result["wall"] for result in runs)
                cpu = statistics.median(result["cpu"] for result in runs)
                memory = statistics.median(result["memory"] for result in runs) / 1024
                print(f"| {name} | {wall:.2f} | {events / wall / 1e6:.1f} M | {cpu:.2f} | {memory:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
