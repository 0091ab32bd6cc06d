//! At each step of handing records over, the process that takes it is killed: every call
//! that had returned is found all the same, none twice, and none out of order.

mod support;

use heapreel_format::kill_point::{KillPoint, Side};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::compile;
use support::killme::{Returned, assert_nothing_lost, kill_at, remove_spill_of};
use support::record::{assert_sound, heapreel, info, record_command};
use support::run::{run, send_signal};
use support::scratch::Scratch;

/// The n-th time that a place is reached: at the program's start, and when all of its
/// threads have worked and some have come and gone.
const TIMES: [u32; 2] = [1, 60];

/// One run of the program with a place armed.
struct Case {
    point: KillPoint,
    times: u32,
    scratch: Scratch,
}

impl Case {
    fn page(&self) -> PathBuf {
        self.scratch.join("page")
    }

    fn trace(&self) -> PathBuf {
        self.scratch.join("t.hreel")
    }

    fn start(&self, command: &mut Command) -> Child {
        command
            .arg(self.page())
            .arg(self.times.to_string())
            .env(
                "HEAPREEL_KILL_POINT",
                format!("{}:{}", self.point.name(), self.times),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("the command starts")
    }

    /// What is said here must be in the trace; whether the program had begun to work.
    fn assert_all_is_found(&self) -> bool {
        let returned = Returned::read(&self.page());
        if returned.process == 0 {
            // Killed before it counted anything: then there may be no trace yet.
            if self.trace().exists() {
                assert_sound(&info(&self.trace(), &[]));
            }
            return false;
        }
        assert_nothing_lost(returned, &self.trace());
        if self.times > 1 {
            self.assert_recovers(returned);
        }
        remove_spill_of(returned.process);
        true
    }

    /// Made whole, the trace says the same.
    fn assert_recovers(&self, returned: Returned) {
        let whole = self.scratch.join("whole.hreel");
        let ran = run(heapreel()
            .arg("recover")
            .arg(self.trace())
            .arg("-o")
            .arg(&whole));
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_nothing_lost(returned, &whole);
    }
}

/// Runs a case for each place of one side, and each time; each place must have been
/// reached while the program worked.
fn at_each(of: impl Fn(KillPoint) -> bool, kill: impl Fn(&Case)) {
    for point in KillPoint::ALL.iter().copied().filter(|point| of(*point)) {
        let mut worked = 0;
        for times in TIMES {
            let case = Case {
                point,
                times,
                scratch: Scratch::new(),
            };
            eprintln!("{} for the {times}. time", point.name());
            kill(&case);
            worked += u32::from(case.assert_all_is_found());
        }
        assert!(worked > 0, "{} was never reached at work", point.name());
    }
}

/// Waits for a process that is to be killed by its kill point.
#[track_caller]
fn assert_is_killed(child: &mut Child, case: &Case) {
    let hangs_at = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().expect("the child's state") {
            let code = status.signal().or(status.code());
            assert!(
                code == Some(9) || code == Some(137),
                "{} ended by {status}",
                case.point.name()
            );
            return;
        }
        if Instant::now() > hangs_at {
            child.kill().expect("the child can be killed");
            panic!("{} is not reached", case.point.name());
        }
        std::thread::yield_now();
    }
}

/// Works on for a while without whoever drained, then is killed too.
fn let_the_program_go_on(page: &Path) {
    let hangs_at = Instant::now() + Duration::from_secs(60);
    let begun = Returned::read(page).calls();
    loop {
        let returned = Returned::read(page);
        if returned.process != 0 && returned.calls() >= begun + 20_000 {
            send_signal("KILL", &returned.process.to_string());
            return wait_until_gone(returned.process);
        }
        assert!(Instant::now() < hangs_at, "no progress: {returned:?}");
        std::thread::yield_now();
    }
}

/// The program is no child of this process; its page is final when it is gone.
fn wait_until_gone(process: u64) {
    let state = format!("/proc/{process}/stat");
    let is_there = || {
        let text = std::fs::read_to_string(&state).unwrap_or_default();
        let state = text
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        state.is_some_and(|state| state != 'Z' && state != 'X')
    };
    while is_there() {
        std::thread::yield_now();
    }
}

fn is_the_end(point: KillPoint) -> bool {
    matches!(point, KillPoint::DrainEnding | KillPoint::DrainEnded)
}

#[test]
fn of_the_program() {
    let Some(program) = compile::c("killme.c") else {
        return;
    };
    let of = |point: KillPoint| point.side() == Side::Program;
    at_each(of, |case| {
        let mut command = record_command(&case.trace(), &["--no-symbols"], &program);
        let mut runner = case.start(&mut command);
        assert_is_killed(&mut runner, case);
    });
}

/// The program runs on, and what it does then is found in the spill.
#[test]
fn of_the_wrapper() {
    let Some(program) = compile::c("killme.c") else {
        return;
    };
    let of = |point: KillPoint| point.side() == Side::Drain && !is_the_end(point);
    at_each(of, |case| {
        let mut command = record_command(&case.trace(), &["--no-symbols"], &program);
        let mut runner = case.start(&mut command);
        assert_is_killed(&mut runner, case);
        let_the_program_go_on(&case.page());
    });
}

#[test]
fn of_the_wrapper_at_the_end() {
    let Some(program) = compile::c("killme.c") else {
        return;
    };
    for point in [KillPoint::DrainEnding, KillPoint::DrainEnded] {
        let case = Case {
            point,
            times: 1,
            scratch: Scratch::new(),
        };
        let mut command = record_command(&case.trace(), &["--no-symbols"], &program);
        let mut runner = case.start(&mut command);
        kill_at(20_000, &case.page(), &mut runner);
        assert_is_killed(&mut runner, &case);
        assert!(case.assert_all_is_found());
    }
}

/// There the drain is a thread of the program, and both sides die at once. The example's
/// threads do not come and go.
#[test]
fn of_a_program_that_drains_itself() {
    let program = compile::example("killme");
    let of = |point: KillPoint| {
        let is_of_a_buffer = point.name().starts_with("buffer");
        (is_of_a_buffer || point.side() == Side::Drain) && !is_the_end(point)
    };
    at_each(of, |case| {
        let mut command = Command::new(&program);
        command.env("HEAPREEL_OUT", case.trace());
        let mut game = case.start(&mut command);
        assert_is_killed(&mut game, case);
    });
}
