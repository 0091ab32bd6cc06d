"""Runs a program plainly and under `heapreel record`, and finds what differs.

A program must say the same, end the same and leave the same files; each of its processes
must have a whole trace in which no backtrace differs from one unwound anew.
"""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable

# What `heapreel record` itself may say of a run in which nothing went wrong.
USUAL_LINES = re.compile(
    r"heapreel: (\S+\.hreel: .* none lost(; .*)?"
    r"|[\d,]+ smaller traces? in .*"
    r"|to read it: .*"
    r"|the command has ended; still recording .*)\n"
)
# Must be zero in every trace.
FAULTS = [
    "lost_events",
    "missing_records",
    "unreadable_records",
    "damaged_parts",
    "order_anomalies",
    "unwinds_differing",
]
# Not how a process's recording ends that nobody stopped.
EARLY_ENDS = ["confined", "stopped", "recorder left", "running", None]
# Fewer events than this are not compared between two runs.
FEW = 1000
NOBODY = 65534
ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclasses.dataclass
class Program:
    """A program and what is expected of it."""

    name: str
    command: list[str]
    # Programs, by their file names, and how many events of theirs must at least have been
    # recorded: half of what there were when this was written.
    expected: dict[str, int]
    # The same of the process that the command became, by whatever names.
    own_events: int = 0
    # How it ends without us; None where that depends on the machine.
    code: int | None = 0
    # Furnishes the folder that the program runs in.
    prepare: Callable[[str], None] = lambda folder: None
    # Files that must be equal byte for byte, by their names in the folder.
    files: list[str] = dataclasses.field(default_factory=list)
    # What is compared of the output; by default all of it. A ValueError says what is missing.
    normal: Callable[["Ran"], object] = lambda ran: (ran.stdout, ran.stderr)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    # What heapreel may have to say beyond the usual, as a regular expression.
    may_be_told: str = ""
    # Programs that may do without allocating. Of any other that was met some process must
    # have events; not each, for between fork and exec nobody need allocate.
    may_be_silent: set[str] = dataclasses.field(default_factory=lambda: {"true", "false", "sleep"})
    seconds: int = 120
    # Run by nobody, who may use sandboxes that root may not.
    as_nobody: bool = False


@dataclasses.dataclass
class Ran:
    """A run that has ended."""

    folder: str
    code: int
    stdout: str
    stderr: str
    cpu: float
    wall: float
    hung: bool = False


@dataclasses.dataclass
class Seen:
    """What was seen of a program; faults are empty where all was well."""

    program: Program
    faults: list[str]
    processes: int = 0
    events: int = 0
    sums: dict[str, int] = dataclasses.field(default_factory=dict)
    checked: int = 0
    cut: int = 0
    unknown: int = 0
    # Processes and events of each program, by its file name: of the recorded run, and of
    # the one with backtraces checked.
    shares: dict[str, dict[str, tuple[int, int]]] = dataclasses.field(default_factory=dict)
    code: int = 0
    cpu_ratio: float = 0.0
    recorded_seconds: float = 0.0


class Recorder:
    """The heapreel under test, and where it may write."""

    def __init__(self, heapreel, folder, options=()):
        self.heapreel = heapreel
        self.folder = os.path.abspath(folder)
        self.options = list(options)

    def look_at(self, program):
        """Runs a program plainly, recorded, and recorded with every backtrace checked."""
        if program.as_nobody:
            self._open_to_everybody()
        with ThreadPoolExecutor(3) as pool:
            plain = pool.submit(self._run, program, "plain")
            recorded = pool.submit(self._run, program, "recorded")
            checked = pool.submit(self._run, program, "checked")
            plain, recorded, checked = plain.result(), recorded.result(), checked.result()
        seen = Seen(program, what_is_wrong(program, plain), code=plain.code)
        if seen.faults:
            return seen
        for how, ran in [("recorded", recorded), ("checked", checked)]:
            seen.faults += [f"{how}: {fault}" for fault in differences(program, plain, ran)]
        self._ask_traces(seen, "recorded", recorded)
        self._ask_traces(seen, "checked", checked)
        seen.faults += unlike(seen.shares["recorded"], seen.shares["checked"])
        seen.cpu_ratio = recorded.cpu / max(plain.cpu, 0.001)
        seen.recorded_seconds = recorded.wall
        if not seen.faults:
            for ran in [plain, recorded, checked]:
                shutil.rmtree(ran.folder)
        return seen

    def _run(self, program, how):
        # As long as each other: a path in an output or on a stack differs in nothing else.
        folder = os.path.join(self.folder, program.name.replace(" ", "_"), f"{how:_<8}")
        work = os.path.join(folder, "work")
        os.makedirs(os.path.join(folder, "traces"))
        os.makedirs(work)
        program.prepare(work)
        command = program.command
        variables = environment(work, program.environment)
        if how != "plain":
            traces = os.path.join(folder, "traces", "%e-%p.hreel")
            ours = [self.heapreel, "record", "--keep-all", "--no-symbols", *self.options]
            command = [*ours, "-o", traces, "--", *command]
        if how == "checked":
            variables["HEAPREEL_CHECK_UNWINDING"] = "1"
        if program.as_nobody:
            variables["XDG_CACHE_HOME"] = work
            command = self._by_nobody(command, folder)
        return run(command, folder, work, variables, program.seconds)

    def _open_to_everybody(self):
        """Where heapreel lies is perhaps not. Copied while no other thread forks: a child
        with the copy still open for writing would keep it from being run."""
        copy = os.path.join(self.folder, "heapreel")
        if self.heapreel != copy:
            os.chmod(self.folder, 0o755)
            self.heapreel = shutil.copy(self.heapreel, copy)

    def _by_nobody(self, command, folder):
        """The command as nobody runs it, to whom the folder then belongs."""
        for place, _, files in os.walk(folder):
            for path in [place, *(os.path.join(place, name) for name in files)]:
                os.chown(path, NOBODY, NOBODY)
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]

    def _ask_traces(self, seen, how, ran):
        folder = os.path.join(ran.folder, "traces")
        traces = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        with ThreadPoolExecutor(2) as pool:
            infos = list(pool.map(self._info, traces))
        shares = seen.shares[how] = {}
        for trace, info in zip(traces, infos):
            name = os.path.basename(trace)
            if info is None:
                seen.faults.append(f"{how}: {name} cannot be read")
                continue
            executable = os.path.basename(info["executable"])
            processes, events = shares.get(executable, (0, 0))
            shares[executable] = (processes + 1, events + info["events"])
            if not info["complete"] or info["ended"] in EARLY_ENDS:
                seen.faults.append(f"{how}: {name} is not whole: {info['ended']}, {info['remarks']}")
            seen.faults += [f"{how}: {name}: {key} is {info[key]}" for key in FAULTS if info[key]]
            if how == "recorded":
                seen.processes += 1
                seen.events += info["events"]
                seen.cut += info["stacks_cut"]
                seen.unknown += info["unknown_releases"]
            else:
                seen.checked += info["unwinds_checked"]
            for key in FAULTS:
                seen.sums[key] = seen.sums.get(key, 0) + info[key]
        if how == "checked" and not seen.checked:
            seen.faults.append("checked: no backtrace was")
        seen.faults += [f"{how}: {fault}" for fault in too_few(seen.program, shares, infos)]

    def _info(self, trace):
        asked = subprocess.run([self.heapreel, "info", "--json", trace], capture_output=True, text=True)
        try:
            return json.loads(asked.stdout)
        except ValueError:
            return None


def too_few(program, shares, infos):
    """Programs of which fewer events were recorded than there must have been."""
    least = {name: 1 for name in shares if name not in program.may_be_silent} | program.expected
    found = {name: shares.get(name, (0, 0))[1] for name in least}
    few = [f"{found[name]:,} events of {name}, at least {least[name]:,} expected" for name in sorted(least) if found[name] < least[name]]
    readable = [info for info in infos if info]
    if readable:
        own = min(readable, key=lambda info: info["start_unix_nanos"])["pid"]
        events = sum(info["events"] for info in readable if info["pid"] == own)
        if events < program.own_events:
            few.append(f"{events:,} events of the command's own process, at least {program.own_events:,} expected")
    return few


def unlike(recorded, checked):
    """Programs of which one run has less than half the events of the other."""
    found = []
    for name in sorted(recorded | checked):
        counts = [run.get(name, (0, 0))[1] for run in (recorded, checked)]
        if max(counts) >= FEW and min(counts) * 2 < max(counts):
            found.append(f"{name}: {counts[0]:,} events recorded, {counts[1]:,} with backtraces checked")
    return found


def environment(work, more):
    """The same for everybody, wherever this runs: the distribution's own programs."""
    own = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/games",
        "HOME": work,
        "TMPDIR": work,
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }
    kept = {name: os.environ[name] for name in ["HEAPREEL_PRELOAD_LIB"] if name in os.environ}
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return {**own, "XDG_CACHE_HOME": cache, **kept, **more}


def run(command, folder, work, variables, seconds):
    """Runs a command to its end, or ends all of it after so many seconds."""
    with open(os.path.join(folder, "stdout"), "wb") as out, open(os.path.join(folder, "stderr"), "wb") as err:
        begin = time.monotonic()
        child = subprocess.Popen(
            command,
            cwd=work,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        hung, usage = wait(child, seconds)
        wall = time.monotonic() - begin

    def said(name):
        with open(os.path.join(folder, name), encoding="utf-8", errors="backslashreplace") as file:
            return file.read().replace(work, "WORK")

    cpu = usage.ru_utime + usage.ru_stime
    return Ran(folder, child.returncode, said("stdout"), said("stderr"), cpu, wall, hung)


def wait(child, seconds):
    """Waits for a child; says whether it had to be ended, and what it used."""
    end = time.monotonic() + seconds
    hung = False
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return hung, usage
        if time.monotonic() > end and not hung:
            hung = True
            os.killpg(child.pid, signal.SIGKILL)
        time.sleep(0.01)


def what_is_wrong(program, plain):
    """Why a plain run is nothing to compare with: a program that fails at once is no test."""
    if plain.hung:
        return [f"plain: hangs after {program.seconds} s"]
    if program.code not in (None, plain.code):
        return [f"plain: exit code {plain.code} instead of {program.code}: {plain.stderr[-300:]}"]
    try:
        program.normal(plain)
    except ValueError as error:
        return [f"plain: {error}: {plain.stderr[-300:]}"]
    return []


def differences(program, plain, ran):
    """What a recorded run did otherwise than the plain one, a line each."""
    if ran.hung:
        return [f"hangs after {program.seconds} s; plain it took {plain.wall:.1f} s"]
    ran = dataclasses.replace(ran, stderr=USUAL_LINES.sub("", ran.stderr))
    found = []
    # Whatever else is compared.
    for line in ran.stderr.splitlines():
        usual = program.may_be_told and re.search(program.may_be_told, line)
        if line.startswith("heapreel: ") and not usual:
            found.append(f"says {line!r}")
    # A shell tells a signal so, and heapreel like it.
    plain_code = plain.code if plain.code >= 0 else 128 - plain.code
    if ran.code != plain_code:
        found.append(f"exit code {ran.code}, plain {plain_code}")
    try:
        expected, got = program.normal(plain), program.normal(ran)
        if expected != got:
            found.append(f"says otherwise: {first_difference(expected, got)}")
    except ValueError as error:
        found.append(str(error))
    for name in program.files:
        if read(plain.folder, name) != read(ran.folder, name):
            found.append(f"{name} differs")
    return found


def read(folder, name):
    try:
        with open(os.path.join(folder, "work", name), "rb") as file:
            return file.read()
    except OSError as error:
        return error.errno


def first_difference(expected, got):
    """A short text of where two outputs part."""
    for one, other in zip(lines(expected), lines(got)):
        if one != other:
            return f"{one!r} became {other!r}"
    rest = lines(got)[len(lines(expected)) :] or lines(expected)[len(lines(got)) :]
    more = "more" if len(lines(got)) > len(lines(expected)) else "less"
    return f"{more}: {rest[0] if rest else ''!r}"


def lines(value):
    if isinstance(value, str):
        return value.splitlines()
    if isinstance(value, dict):
        return sorted(f"{key}: {result}" for key, result in value.items())
    if isinstance(value, (tuple, list)):
        return [line for part in value for line in lines(part)]
    return [repr(value)]


def without_addresses(ran):
    """The output where addresses, which differ from run to run, are all alike."""
    return ADDRESS.sub("0x", ran.stdout), ADDRESS.sub("0x", ran.stderr)


def shares(all_seen):
    """Whose events they were: one line a program, the greatest share first."""
    found = []
    for seen in all_seen:
        by_name = sorted(seen.shares.get("recorded", {}).items(), key=lambda share: -share[1][1])
        parts = [f"{name} {events:,} ({processes})" for name, (processes, events) in by_name]
        found.append(f"{seen.program.name}: {', '.join(parts)}")
    return "\n".join(found)


def table(all_seen):
    """One line a program."""
    head = ["program", "processes", "events", "events/s", "lost", "anomalies", "unwinds checked", "differing", "exit", "CPU ratio", ""]
    rows = [
        [
            seen.program.name,
            f"{seen.processes:,}",
            f"{seen.events:,}",
            f"{seen.events / max(seen.recorded_seconds, 0.001):,.0f}",
            str(seen.sums.get("lost_events", 0) + seen.sums.get("missing_records", 0)),
            str(seen.sums.get("order_anomalies", 0)),
            f"{seen.checked:,}",
            str(seen.sums.get("unwinds_differing", 0)),
            str(seen.code),
            f"{seen.cpu_ratio:.2f}",
            "FAILED" if seen.faults else "as without",
        ]
        for seen in all_seen
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    # Names to the left, numbers to the right.
    sides = ["<"] + [">"] * (len(head) - 2) + ["<"]
    form = lambda row: "| " + " | ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths)) + " |"
    rule = "|" + "|".join("-" * (width + 1) + ("-" if side == "<" else ":") for side, width in zip(sides, widths)) + "|"
    return "\n".join([form(head), rule, *map(form, rows)])
