#!/usr/bin/env python3
"""Larger programs under the recorder, by hand: JIT compilers, a browser, a database, games.

    scripts/storms/run.py [--heapreel PATH] [--only REGEX] [--keep FOLDER] [--option OPTION]

As scripts/real-programs, which runs in CI, with programs that take longer and bring more of
their own. Those that are not installed are named and left out: Debian has them as nodejs,
openjdk-17-jdk-headless, chromium, man-db with groff-base, sqlite3, chocolate-doom with freedoom, supertuxkart, xvfb.
Prints the table that docs/storms.md holds.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "scripts", "real-programs"))

from recorded import Program, Recorder, shares, table, without_addresses  # noqa: E402

# Of a database that a hundred thousand rows pass through.
SQL = """
CREATE TABLE units(id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, weight REAL, note BLOB);
CREATE TABLE links(one INTEGER, other INTEGER, PRIMARY KEY(one, other)) WITHOUT ROWID;
BEGIN;
{inserts}
COMMIT;
CREATE INDEX by_kind ON units(kind, weight);
CREATE VIRTUAL TABLE words USING fts5(text);
INSERT INTO words SELECT name || ' of kind ' || kind FROM units;
INSERT OR IGNORE INTO links SELECT a.id, (a.id * 7919) % 20000 FROM units a;
SELECT kind, count(*), round(sum(weight), 3), group_concat(id, ' ') FROM units WHERE id % 97 = 0 GROUP BY kind ORDER BY kind;
SELECT count(*) FROM links JOIN units ON units.id = links.other WHERE units.kind = 3;
SELECT id, rank() OVER (PARTITION BY kind ORDER BY weight DESC, id) AS place FROM units ORDER BY place, id LIMIT 20;
WITH RECURSIVE chain(at, steps) AS (SELECT 1, 0 UNION ALL SELECT (at * 7919) % 20000, steps + 1 FROM chain WHERE steps < 5000) SELECT sum(at) FROM chain;
SELECT count(*) FROM words WHERE words MATCH 'kind AND 3';
SELECT json_group_array(json_object('id', id, 'name', name)) FROM units WHERE id < 50;
UPDATE units SET note = zeroblob(id % 300) WHERE kind = 2;
DELETE FROM units WHERE kind = 4;
VACUUM;
PRAGMA integrity_check;
SELECT total(length(note)) FROM units;
.dump links
"""


def sql(folder):
    rows = range(20000)
    inserts = [f"INSERT INTO units VALUES({n}, 'unit {n * 31 % 1000}', {n % 7}, {n * 37 % 1001}.25, NULL);" for n in rows]
    with open(os.path.join(folder, "storm.sql"), "w", encoding="utf-8") as file:
        file.write(SQL.format(inserts="\n".join(inserts)))


def here(*names):
    def copy(folder):
        for name in names:
            shutil.copy(os.path.join(HERE, name), folder)

    return copy


def only_stdout(ran):
    return ran.stdout


def doom_says(ran):
    """Without how long it took, and where its zone lies."""
    stdout, stderr = without_addresses(ran)
    return stdout, re.sub(r"in \d+ realtics.*", "", stderr)


OWN_MALLOC = "has its own |not recorded"

PROGRAMS = [
    Program("node", ["node", "heap.js"], {"node": 150_000}, own_events=100_000, code=3, prepare=here("heap.js")),
    Program("java", ["java", "Heap.java"], {"java": 50_000}, own_events=50_000, code=4, prepare=here("Heap.java")),
    Program(
        "chromium",
        ["chromium", "--headless", "--no-sandbox", "--dump-dom", "page.html"],
        {"dash": 100},
        prepare=here("page.html"),
        normal=only_stdout,
        may_be_silent={"chromium"},
        may_be_told=OWN_MALLOC,
    ),
    # With its sandbox, which needs a user who is not root: namespaces and seccomp.
    Program(
        "chromium, sandboxed",
        ["chromium", "--headless", "--dump-dom", "page.html"],
        {"dash": 100},
        prepare=here("page.html"),
        normal=only_stdout,
        may_be_silent={"chromium"},
        may_be_told=OWN_MALLOC,
        as_nobody=os.geteuid() == 0,
    ),
    # Reads the page under a seccomp filter that allows little.
    Program(
        "man",
        ["man", "-l", "-P", "cat", "page.1"],
        {"man": 20_000, "troff": 15_000},
        own_events=5_000,
        prepare=here("page.1"),
        normal=only_stdout,
        may_be_told="not recording: .*filter of system calls",
    ),
    Program("sqlite3", ["sqlite3", "storm.db", ".read storm.sql"], {"sqlite3": 600_000}, own_events=600_000, prepare=sql, files=["storm.db"]),
    Program(
        "chocolate-doom",
        "chocolate-doom -iwad /usr/share/games/doom/freedoom1.wad -nosound -nogui -window -timedemo demo1".split(),
        {"chocolate-doom": 100_000},
        code=255,
        normal=doom_says,
    ),
    Program(
        "supertuxkart",
        "supertuxkart --no-graphics --seed=7 --track=lighthouse --numkarts=4 --profile-laps=1 --no-console-log".split(),
        {"supertuxkart": 1_500_000},
        normal=only_stdout,
        seconds=400,
    ),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--heapreel", default=os.path.join(os.environ.get("CARGO_TARGET_DIR") or f"{ROOT}/target", "release", "heapreel"))
    parser.add_argument("--only", default="", help="programs whose names match")
    parser.add_argument("--keep", help="an empty folder for what the programs wrote; kept where one fails anyway")
    parser.add_argument("--option", action="append", default=[], help="of heapreel record, as --option=--free-backtraces")
    arguments = parser.parse_args()
    folder = arguments.keep or tempfile.mkdtemp(prefix="storms-")
    recorder = Recorder(os.path.abspath(arguments.heapreel), folder, arguments.option)
    chosen = [program for program in PROGRAMS if re.search(arguments.only, program.name)]
    with Screen() as display:
        all_seen = []
        for program in chosen:
            if not shutil.which(program.command[0], path=os.environ["PATH"] + ":/usr/games"):
                print(f"{program.name}: not installed, left out", file=sys.stderr)
                continue
            program.environment["DISPLAY"] = display
            all_seen.append(recorder.look_at(program))
            print(f"{program.name}: {all_seen[-1].recorded_seconds:.1f} s recorded", file=sys.stderr)
    print(table(all_seen))
    print("\nevents of each program, and in how many processes:")
    print(shares(all_seen))
    for seen in all_seen:
        for fault in seen.faults[:20]:
            print(f"{seen.program.name}: {fault}", file=sys.stderr)
    if any(seen.faults for seen in all_seen):
        print(f"kept for inspection: {folder}", file=sys.stderr)
        sys.exit(1)
    if not arguments.keep:
        shutil.rmtree(folder)


class Screen:
    """An X server without a screen, for games that want a window."""

    def __enter__(self):
        if not shutil.which("Xvfb"):
            self.server = None
            return ""
        read, write = os.pipe()
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", "800x600x24", "-nolisten", "tcp"],
            pass_fds=[write],
            stderr=subprocess.DEVNULL,
        )
        os.close(write)
        with os.fdopen(read) as answer:
            return ":" + answer.readline().strip()

    def __exit__(self, *_):
        if self.server:
            self.server.terminate()
            self.server.wait()


if __name__ == "__main__":
    main()
