//! What a filter of system calls (seccomp) answers, read off the filter itself.
//!
//! A filter is a program for a small machine (`bpf(4)`'s classic form) with one register
//! that matters. It only jumps forward, so one pass over it meets every instruction behind
//! all that lead there. What is not known of a call, as an address, may be anything: then
//! both ways of a jump are gone.

/// A system call, and what is known of its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    number: i64,
    arguments: [Option<u64>; 6],
}

impl Call {
    /// With any arguments.
    pub(crate) const fn any(number: i64) -> Call {
        Call {
            number,
            arguments: [None; 6],
        }
    }

    /// With this argument at `index`.
    pub(crate) const fn with(mut self, index: usize, argument: i64) -> Call {
        self.arguments[index] = Some(argument as u64);
        self
    }

    /// The word at this offset of `struct seccomp_data`, if it is known.
    fn word(&self, offset: u32) -> Option<u32> {
        match offset {
            0 => Some(self.number as u32),
            4 => Some(AUDIT_ARCH_X86_64),
            // Below 16 lies the address of the call.
            _ => {
                let at = offset.checked_sub(16)?;
                let argument = (*self.arguments.get(at as usize / 8)?)?;
                Some((argument >> (at % 8 * 8)) as u32)
            }
        }
    }
}

/// EM_X86_64, 64 bits, little-endian (linux/audit.h).
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// One instruction: `struct sock_filter`.
pub(crate) use libc::sock_filter as Instruction;

/// Whether the filter answers `call` in a way that nobody notices but the caller: it lets
/// it pass, or refuses it with an error. The others end the thread or the process, send a
/// signal, ask a supervisor, or write to a log.
pub(crate) fn answers_quietly(filter: &[Instruction], call: &Call) -> bool {
    // What is in the register at each instruction that can be reached: a value, or any.
    let mut reached: Vec<Option<Register>> = Vec::new();
    if reached.try_reserve_exact(filter.len()).is_err() {
        return false;
    }
    reached.resize(filter.len(), None);
    let Some(first) = reached.first_mut() else {
        return false;
    };
    *first = Some(Some(0));
    for (at, instruction) in filter.iter().enumerate() {
        let Some(register) = reached.get(at).copied().flatten() else {
            continue;
        };
        let (after, jumps) = match step(instruction, register, call) {
            Step::Answer(answer) if answer.is_some_and(is_quiet) => continue,
            Step::Answer(_) => return false,
            Step::On(after) => (after, [Some(0), None]),
            Step::Jump(jumps) => (register, jumps),
        };
        for jump in jumps.into_iter().flatten() {
            let Some(place) = reached.get_mut(at + 1 + jump as usize) else {
                return false;
            };
            *place = Some(joined(*place, after));
        }
    }
    true
}

/// A value, or any.
type Register = Option<u32>;

fn joined(one: Option<Register>, other: Register) -> Register {
    match one {
        Some(one) if one != other => None,
        _ => other,
    }
}

fn is_quiet(answer: u32) -> bool {
    let action = answer & libc::SECCOMP_RET_ACTION_FULL;
    action == libc::SECCOMP_RET_ALLOW || action == libc::SECCOMP_RET_ERRNO
}

/// What an instruction does.
enum Step {
    /// Ends the filter with this, or with anything.
    Answer(Register),
    /// Leaves this in the register.
    On(Register),
    /// Goes on so many instructions behind the next one, perhaps.
    Jump([Option<u32>; 2]),
}

fn step(instruction: &Instruction, register: Register, call: &Call) -> Step {
    let code = u32::from(instruction.code);
    let k = instruction.k;
    let with_k = code & libc::BPF_X == 0;
    match code & 7 {
        libc::BPF_RET => Step::Answer(match code & 0x18 {
            libc::BPF_K => Some(k),
            libc::BPF_A => register,
            _ => None,
        }),
        libc::BPF_JMP => Step::Jump(match code & 0xf0 {
            libc::BPF_JA => [Some(k), None],
            test => {
                let holds = register
                    .filter(|_| with_k)
                    .and_then(|a| compare(test, a, k));
                let then = Some(u32::from(instruction.jt));
                let otherwise = Some(u32::from(instruction.jf));
                [
                    then.filter(|_| holds != Some(false)),
                    otherwise.filter(|_| holds != Some(true)),
                ]
            }
        }),
        libc::BPF_LD => Step::On(match code & 0xe0 {
            libc::BPF_ABS => call.word(k),
            libc::BPF_IMM => Some(k),
            _ => None,
        }),
        libc::BPF_ALU => Step::On(match (code & 0xf0, register) {
            (libc::BPF_AND, Some(a)) if with_k => Some(a & k),
            (libc::BPF_OR, Some(a)) if with_k => Some(a | k),
            _ => None,
        }),
        // Stores, and loads of the other register: that one may be anything here.
        libc::BPF_LDX | libc::BPF_ST | libc::BPF_STX => Step::On(register),
        _ => Step::On(register.filter(|_| code & 0xf8 == libc::BPF_TAX)),
    }
}

fn compare(test: u32, a: u32, k: u32) -> Option<bool> {
    Some(match test {
        libc::BPF_JEQ => a == k,
        libc::BPF_JGT => a > k,
        libc::BPF_JGE => a >= k,
        libc::BPF_JSET => a & k != 0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GETPID: Call = Call::any(libc::SYS_getpid);
    const ALLOW: Instruction = answer(libc::SECCOMP_RET_ALLOW);
    const KILL: Instruction = answer(libc::SECCOMP_RET_KILL_PROCESS);

    const fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> Instruction {
        let code = code as u16;
        Instruction { code, jt, jf, k }
    }

    const fn answer(k: u32) -> Instruction {
        instruction(libc::BPF_RET, k, 0, 0)
    }

    const fn load(offset: u32) -> Instruction {
        instruction(libc::BPF_LD | libc::BPF_ABS, offset, 0, 0)
    }

    const fn equal(k: u32, jt: u8, jf: u8) -> Instruction {
        instruction(libc::BPF_JMP | libc::BPF_JEQ, k, jt, jf)
    }

    fn number(call: i64) -> u32 {
        call as u32
    }

    #[test]
    fn only_what_passes_or_fails_is_quiet() {
        for (k, quiet) in [
            (libc::SECCOMP_RET_ALLOW, true),
            (libc::SECCOMP_RET_ERRNO | 38, true),
            (libc::SECCOMP_RET_KILL_PROCESS, false),
            (libc::SECCOMP_RET_KILL_THREAD, false),
            (libc::SECCOMP_RET_TRAP, false),
            (libc::SECCOMP_RET_TRACE, false),
            (libc::SECCOMP_RET_LOG, false),
            (libc::SECCOMP_RET_USER_NOTIF, false),
        ] {
            assert_eq!(answers_quietly(&[answer(k)], &GETPID), quiet, "{k:#x}");
        }
        assert!(!answers_quietly(&[], &GETPID));
    }

    #[test]
    fn calls_are_told_apart_by_number_and_architecture() {
        let listed = [
            load(4),
            equal(AUDIT_ARCH_X86_64, 1, 0),
            KILL,
            load(0),
            instruction(libc::BPF_JMP | libc::BPF_JGE, 0x4000_0000, 2, 0),
            equal(number(libc::SYS_getpid), 0, 1),
            ALLOW,
            KILL,
        ];
        assert!(answers_quietly(&listed, &GETPID));
        assert!(!answers_quietly(&listed, &Call::any(libc::SYS_gettid)));
    }

    #[test]
    fn a_known_argument_decides_and_an_unknown_one_may_be_anything() {
        let advice = |k| [load(16 + 2 * 8), equal(k, 0, 1), ALLOW, KILL];
        let call = Call::any(libc::SYS_madvise).with(2, 23);
        assert!(answers_quietly(&advice(23), &call));
        assert!(!answers_quietly(&advice(4), &call));
        assert!(!answers_quietly(&advice(23), &Call::any(libc::SYS_madvise)));
        // The upper half of -100.
        let upper = [load(20), equal(u32::MAX, 0, 1), ALLOW, KILL];
        assert!(answers_quietly(&upper, &GETPID.with(0, -100)));
        assert!(!answers_quietly(&upper, &GETPID.with(0, 100)));
    }

    #[test]
    fn bits_are_masked_before_they_are_compared() {
        let masked = [
            load(16),
            instruction(libc::BPF_ALU | libc::BPF_AND, 3, 0, 0),
            equal(2, 0, 1),
            ALLOW,
            KILL,
        ];
        assert!(answers_quietly(&masked, &GETPID.with(0, 0o302)));
        assert!(!answers_quietly(&masked, &GETPID.with(0, 0o301)));
    }

    /// Two ways lead to one test, with different values.
    #[test]
    fn ways_that_meet_leave_what_they_agree_on() {
        let meeting = |other| {
            [
                load(8),
                equal(1, 0, 2),
                instruction(libc::BPF_LD | libc::BPF_IMM, 7, 0, 0),
                instruction(libc::BPF_JMP | libc::BPF_JA, 1, 0, 0),
                instruction(libc::BPF_LD | libc::BPF_IMM, other, 0, 0),
                equal(7, 0, 1),
                ALLOW,
                KILL,
            ]
        };
        assert!(answers_quietly(&meeting(7), &GETPID));
        assert!(!answers_quietly(&meeting(8), &GETPID));
    }

    #[test]
    fn what_no_kernel_takes_is_not_trusted() {
        assert!(!answers_quietly(&[load(0)], &GETPID));
        assert!(!answers_quietly(&[equal(1, 200, 200), ALLOW], &GETPID));
        let computed = [load(0), instruction(libc::BPF_RET | libc::BPF_A, 0, 0, 0)];
        assert!(!answers_quietly(&computed, &GETPID));
        let by_other = [
            instruction(libc::BPF_MISC | libc::BPF_TXA, 0, 0, 0),
            equal(0, 0, 1),
            ALLOW,
            KILL,
        ];
        assert!(!answers_quietly(&by_other, &GETPID));
    }
}
