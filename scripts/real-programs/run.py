#!/usr/bin/env python3
"""Real programs under the recorder: outputs, exit codes and files as without it, every
trace whole, every backtrace as one that is unwound anew.

    scripts/real-programs/run.py [--heapreel PATH] [--only REGEX] [--keep FOLDER] [--option OPTION]

Each program runs plainly, recorded, and recorded with its backtraces checked. Ends with a
table; exit code 1 if anything differs. The CPU ratio is there for information alone.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor

import project
from recorded import Program, Recorder, shares, table, without_addresses

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def script(name):
    return os.path.join(HERE, name)


def python_tests(ran):
    """How each test ended, by its name. Some may fail on a machine, but then also without us."""
    try:
        report = xml.etree.ElementTree.parse(os.path.join(ran.folder, "work", "report.xml"))
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        raise ValueError(f"no report of tests: {error}") from error
    results = {}
    for case in report.iter("testcase"):
        outcomes = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        results[case.get("name")] = outcomes or [case.get("result", "completed")]
    if len(results) < 10:
        raise ValueError(f"only {len(results)} tests ran")
    return results


def python(module, least, may_be_told=""):
    return Program(
        f"python3 {module}",
        ["/usr/bin/python3", "-m", "test", "--junit-xml", "report.xml", module],
        {os.path.basename(os.path.realpath("/usr/bin/python3")): least},
        own_events=least // 10,
        may_be_told=may_be_told,
        code=None,
        normal=python_tests,
        environment={"PYTHONDONTWRITEBYTECODE": "1"},
        seconds=170,
    )


PROGRAMS = [
    # The longest first.
    python("test_signal", 60_000),
    # Some of its children are another user, who may not write where the others are recorded.
    python("test_subprocess", 700_000, may_be_told="not recording: .*Permission denied"),
    python("test_threading", 85_000),
    Program(
        "openttd",
        "openttd -x -g -G 42 -v null:ticks=2000 -s null -m null".split(),
        {"openttd": 270_000},
        own_events=270_000,
        environment={"SDL_VIDEODRIVER": "dummy"},
    ),
    Program(
        "make and gcc",
        ["make", "-j2", "--output-sync=target"],
        {
            "make": 1_600,
            "cc1": 170_000,
            "cc1plus": 400_000,
            "x86_64-linux-gnu-as": 2_200,
            "collect2": 75,
            "x86_64-linux-gnu-ar": 3_800,
            "program": 230,
        },
        own_events=1_600,
        prepare=project.write,
        files=project.PRODUCTS,
        normal=lambda ran: (sorted(ran.stdout.splitlines()), ran.stderr),
    ),
    Program("git", ["bash", script("git.sh")], {"git": 25_000, "bash": 6_000}, own_events=4_000),
    Program("bash", ["bash", script("shell.sh")], {"bash": 70_000, "dash": 15, "sort": 400, "seq": 900}, code=6),
    Program("ldd", ["ldd", "/bin/ls"], {"bash": 3_000}, normal=without_addresses),
    Program("env", ["env", "A=b", "sh", "-c", "echo $A; exit 3"], {"dash": 10}, own_events=130, code=3),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--heapreel", default=default_heapreel())
    parser.add_argument("--only", default="", help="programs whose names match")
    parser.add_argument("--keep", help="an empty folder for what the programs wrote; kept where one fails anyway")
    parser.add_argument("--option", action="append", default=[], help="of heapreel record, as --option=--free-backtraces")
    arguments = parser.parse_args()
    programs = [program for program in PROGRAMS if re.search(arguments.only, program.name)]
    folder = arguments.keep or tempfile.mkdtemp(prefix="real-programs-")
    recorder = Recorder(os.path.abspath(arguments.heapreel), folder, arguments.option)
    # Most of these sleep more than they work.
    with ThreadPoolExecutor(3) as pool:
        all_seen = list(pool.map(recorder.look_at, programs))
    print(table(all_seen))
    print("\nevents of each program, and in how many processes:")
    print(shares(all_seen))
    failed = [seen for seen in all_seen if seen.faults]
    for seen in failed:
        for fault in seen.faults[:20]:
            print(f"{seen.program.name}: {fault}", file=sys.stderr)
    if failed:
        print(f"kept for inspection: {folder}", file=sys.stderr)
    elif not arguments.keep:
        shutil.rmtree(folder)
    sys.exit(1 if failed or not all_seen else 0)


def default_heapreel():
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    return os.path.join(target, "debug", "heapreel")


if __name__ == "__main__":
    main()
