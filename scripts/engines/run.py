#!/usr/bin/env python3
"""Builds a real headless app of bevy with heapreel inside, runs it, and compares what the
trace says with what the app says of itself: its frames, and the bytes that its system `hoard`
keeps. By hand: bevy takes minutes to build.

    scripts/engines/run.py [--frames 600] [--heapreel target/release/heapreel]
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def build():
    """The app's file; one target folder with the workspace where the caller names one."""
    manifest = os.path.join(HERE, "bevy", "Cargo.toml")
    told = subprocess.run(
        ["cargo", "build", "--release", "--manifest-path", manifest, "--message-format=json"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    found = [json.loads(line).get("executable") for line in told.splitlines()]
    return [path for path in found if path][-1]


def answer(heapreel, *arguments):
    return json.loads(subprocess.run([heapreel, *arguments, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument("--heapreel", default="heapreel", help="the program (else the one in the PATH)")
    arguments = parser.parse_args()
    app = build()
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "bevy.hreel")
        said = subprocess.run([app, trace, str(arguments.frames)], check=True, capture_output=True, text=True).stdout
        hoarded = int(re.search(r"hoard (\d+)", said)[1])
        info = answer(arguments.heapreel, "info", trace)
        contexts = answer(arguments.heapreel, "contexts", trace, "--kind", "system", "--at", "@full", "--limit", "0")
    wrong = compare(arguments.frames, hoarded, info, contexts)
    for line in wrong:
        print(line, file=sys.stderr)
    print("differs" if wrong else f"{arguments.frames} frames and {hoarded} bytes of hoard, as the app says")
    return bool(wrong)


def compare(frames, hoarded, info, contexts):
    """What differs, a line each."""
    systems = {context["name"]: context for context in contexts["contexts"]}
    hoard = systems.get("headless_bevy::hoard")
    if not hoard:
        return [f"no context system:headless_bevy::hoard, but {', '.join(systems) or 'none'}"]
    pairs = [
        ("frames from the first mark on", frames - 1, info["frames"]),
        ("times that hoard ran", frames, hoard["instances"]),
        ("bytes that hoard keeps", hoarded, hoard["own"]["live_bytes"]),
    ]
    return [f"{what}: {want} by the app, {got} by the trace" for what, want, got in pairs if want != got]


if __name__ == "__main__":
    sys.exit(main())
