#!/usr/bin/env python3
"""Speed beside the plain program and heaptrack, as ratios of one interleaved run.

    scripts/speed/run.py [--reps 5] [--frames 120] [--report-frames 600] [--only REGEX]

Builds the workloads beside this file with g++ and gcc, runs every variant once a round,
so that a drift of the machine meets all alike, and prints medians. CPU is user + system
time of the whole process tree, recorder and interpreter included; an event is one malloc
or one free. Needs heapreel (`cargo build --release`), heaptrack, g++, gcc.
"""

import argparse
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FRAME_POINTERS = ["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer"]


def build(folder):
    def compile(source, name, flags):
        compiler = "g++" if source.endswith("cpp") else "gcc"
        command = [compiler, "-O2", "-g", "-pthread", *flags, os.path.join(HERE, source), "-o"]
        subprocess.run(command + [os.path.join(folder, name)], check=True)

    compile("game.cpp", "game_fp", ["-std=c++17", *FRAME_POINTERS])
    compile("game.cpp", "game_nofp", ["-std=c++17", "-fomit-frame-pointer"])
    compile("tight.c", "tight_fp", ["-fno-builtin", *FRAME_POINTERS])
    compile("tight.c", "tight_nofp", ["-fno-builtin", "-fomit-frame-pointer"])


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


def record_rows(folder, heapreel, frames):
    """(name, name of the plain row, command, output patterns)"""
    programs = [
        (f"game_fp {frames}", [f"{folder}/game_fp", str(frames)]),
        (f"game_nofp {frames}", [f"{folder}/game_nofp", str(frames)]),
        ("tight_fp 2M", [f"{folder}/tight_fp", "2000000"]),
        ("tight_nofp 2M", [f"{folder}/tight_nofp", "2000000"]),
    ]
    trace = f"{folder}/ours.hreel"
    rows = []
    for name, program in programs:
        ours = [heapreel, "record", "--force", "--no-symbols", "-o", trace]
        rows.append((f"{name} plain", None, program, []))
        rows.append((f"{name} heapreel", f"{name} plain", [*ours, "--", *program], [trace]))
        bare = ["--no-backtraces"]
        rows.append((f"{name} heapreel, no backtraces", f"{name} plain", [*ours, *bare, "--", *program], [trace]))
        barest = ["--no-backtraces", "--no-latency"]
        rows.append((f"{name} heapreel, neither", f"{name} plain", [*ours, *barest, "--", *program], [trace]))
        free = ["--free-backtraces"]
        rows.append((f"{name} heapreel, also frees", f"{name} plain", [*ours, *free, "--", *program], [trace]))
        heaptrack = ["heaptrack", "-o", f"{folder}/ht", *program]
        rows.append((f"{name} heaptrack", f"{name} plain", heaptrack, [f"{folder}/ht*"]))
    return rows


def table(rows, results):
    print("| run | wall s | CPU s | wall ratio | added ns/event (CPU) | bytes/event | peak MiB | min..max wall |")
    print("|---|---|---|---|---|---|---|---|")
    median = lambda name, key: statistics.median(result[key] for result in results[name])
    for name, plain, _, _ in rows:
        if any(result["status"] for result in results[name]):
            print(f"| {name} | failed: {[result['status'] for result in results[name]]} |")
            continue
        wall, cpu = median(name, "wall"), median(name, "cpu")
        events = median(plain or name, "events") or 1
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
    parser.add_argument("--report-frames", type=int, default=600)
    parser.add_argument("--only", default=".", help="rows whose name this expression finds")
    parser.add_argument("--heapreel", default=os.path.join(ROOT, "target/release/heapreel"))
    parser.add_argument("--folder", help="where to build and write; a temporary folder by default")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        os.makedirs(folder, exist_ok=True)
        build(folder)
        wanted = re.compile(arguments.only)
        rows = [row for row in record_rows(folder, arguments.heapreel, arguments.frames)]
        chosen = {row[0] for row in rows if wanted.search(row[0])}
        chosen |= {row[1] for row in rows if row[0] in chosen and row[1]}
        rows = [row for row in rows if row[0] in chosen]
        results = {row[0]: [] for row in rows}
        for _ in range(arguments.reps):
            for name, _, command, outputs in rows:
                results[name].append(run(command, outputs))
        if rows:
            table(rows, results)
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
