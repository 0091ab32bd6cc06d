//! Which backtrace a call has: the known stack is brought up to date, its hash is looked
//! up, and what is met for the first time is defined.
#![expect(
    unsafe_code,
    reason = "reads a call's return address; the loader's strings"
)]

use crate::os::{clock, memory};
use crate::session;
use crate::spill::Kept;
use crate::stacks::{self, Found};
use crate::thread::{Half, Level, Thread};
use crate::unwind::{self, Frame};
use heapreel_format::{Definition, Entry, StackId};
use std::borrow::Cow;
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

/// Longest path that is kept.
const MAX_PATH_BYTES: usize = 3900;

/// The last backtrace that was looked up, by its hash; zeroed memory is none.
#[derive(Clone, Copy)]
pub(crate) struct LastStack {
    hash: u64,
    id: u32,
}

/// What tells backtraces with the same stack frames apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    entry: Entry,
    align_log2: u8,
}

/// Where the program called an allocation function.
///
/// PERF: two words, which travel in registers.
#[derive(Clone, Copy)]
pub struct CallSite {
    /// Stack pointer at the function's first instruction; 0 where it is not known.
    sp: usize,
    /// Frame pointer there.
    fp: usize,
}

impl CallSite {
    /// The function that called the hook's caller, found by unwinding.
    pub const UNKNOWN: CallSite = CallSite { sp: 0, fp: 0 };

    /// From the stack pointer and the frame pointer at the first instruction of an
    /// allocation function.
    ///
    /// # Safety
    ///
    /// The call does not return as long as this value is used.
    #[inline(always)]
    pub unsafe fn at_entry(sp: usize, fp: usize) -> CallSite {
        CallSite { sp, fp }
    }

    /// The address that the call returns to, for one that is known.
    #[inline(always)]
    pub fn return_address(self) -> usize {
        // SAFETY: the return address lies on top of the stack until the call returns
        // (System V ABI for x86-64, 3.2.2).
        unsafe { *(self.sp as *const usize) }
    }

    /// The stack frame that the call returns to; none where it is not known.
    #[inline(always)]
    fn frame(self) -> Option<Frame> {
        if self.sp == 0 {
            return None;
        }
        Some(Frame {
            ra: self.return_address() as u64,
            sp: self.sp as u64 + 8,
            fp: self.fp as u64,
        })
    }
}

/// A backtrace whose number is still to be looked up.
#[derive(Clone, Copy)]
pub(crate) struct Sought {
    /// See [`stacks::hash`]; 0 where none is wanted.
    hash: u64,
    request: Request,
    site: CallSite,
}

impl Sought {
    /// No backtrace.
    pub(crate) const NONE: Sought = Sought {
        hash: 0,
        request: Request {
            entry: Entry::Unknown,
            align_log2: 0,
        },
        site: CallSite::UNKNOWN,
    };
}

impl Request {
    /// What a call of `entry` asks for; `align` is 0 or a power of two.
    #[inline(always)]
    pub(crate) fn new(entry: Entry, align: usize) -> Request {
        Request {
            entry,
            align_log2: if align == 0 {
                0
            } else {
                align.trailing_zeros() as u8
            },
        }
    }

    /// A hash of a whole backtrace, whose return addresses have this hash.
    #[inline(always)]
    fn hash(self, frames: u64) -> u64 {
        stacks::hash(
            frames,
            self.entry as u8,
            self.align_log2,
            unwind::generation(),
        )
    }
}

impl Half {
    /// The stack frame of the call, to be taken in a function that a hook calls.
    #[inline(always)]
    fn innermost(&mut self, site: CallSite) -> Option<Frame> {
        if let Some(frame) = site.frame() {
            return Some(frame);
        }
        unwind::second_caller(unwind::here(), &mut self.bounds)
    }
}

impl Thread {
    /// Takes the backtrace from `site`. Its number is left to [`Thread::stack_id`],
    /// after the allocator's call.
    ///
    /// PERF: a game has more backtraces than the nearest cache holds. Asked for here and
    /// read there, the memory comes while the allocator works.
    #[inline(always)]
    pub(crate) fn seek_backtrace(
        &mut self,
        level: Level,
        request: Request,
        site: CallSite,
    ) -> Sought {
        if self.switches.backtraces {
            self.update_stack(level, site);
        }
        let half = &self.halves[level as usize];
        let hash = request.hash(half.frames_hash);
        self.cache.prefetch(hash);
        Sought {
            hash,
            request,
            site,
        }
    }

    /// The number of the backtrace that was sought before the call.
    #[inline(always)]
    pub(crate) fn stack_id(&mut self, level: Level, sought: &Sought) -> StackId {
        if sought.hash == 0 {
            return StackId::NONE;
        }
        let last = self.halves[level as usize].last;
        if last.hash == sought.hash && last.id != 0 {
            return StackId(last.id);
        }
        let id = match self.cache.get(sought.hash) {
            Some(id) if level == Level::Main => id,
            _ => self.intern(level, sought),
        };
        self.halves[level as usize].last = LastStack {
            hash: sought.hash,
            id,
        };
        StackId(id)
    }

    /// A backtrace that this thread does not know. It is taken again: the allocator may
    /// have called back, and the known stack be another one by now.
    #[cold]
    #[inline(never)]
    fn intern(&mut self, level: Level, sought: &Sought) -> u32 {
        if self.switches.backtraces {
            self.update_stack(level, sought.site);
        }
        let request = sought.request;
        let depth = self.switches.depth as usize;
        let id = memory::keeping_errno(|| match stacks::find(sought.hash) {
            Found::Known(id) => id,
            Found::New(vacancy) => {
                let id = self
                    .define_stack(level, depth, Kept::ForCallSites, request)
                    .unwrap_or_else(|| self.call_site_alone(level, request));
                vacancy.fill(id);
                id
            }
            Found::Full => self.call_site_alone(level, request),
        });
        if level == Level::Main && id != 0 {
            self.cache.put(sought.hash, id);
        }
        id
    }

    /// Past the table's limit a backtrace is its innermost call site, and counted.
    fn call_site_alone(&mut self, level: Level, request: Request) -> u32 {
        self.spill.header().stacks_cut.fetch_add(1, Relaxed);
        let hash = request.hash(self.halves[level as usize].known.hash(1));
        match stacks::find(hash) {
            Found::Known(id) => id,
            Found::New(vacancy) => {
                let id = self
                    .define_stack(level, 1, Kept::Nothing, request)
                    .unwrap_or(0);
                vacancy.fill(id);
                id
            }
            Found::Full => 0,
        }
    }

    /// Defines the innermost `depth` stack frames as a backtrace.
    fn define_stack(
        &mut self,
        level: Level,
        depth: usize,
        kept: Kept,
        request: Request,
    ) -> Option<u32> {
        let half = &mut self.halves[level as usize];
        let mut length = 0;
        if self.switches.backtraces {
            let room = half.frames.get_mut(..depth).unwrap_or(&mut []);
            length = half.known.copy_to(room);
        }
        self.define_modules(level, length);
        let half = &mut self.halves[level as usize];
        let frames = half.frames.get(..length).unwrap_or(&[]);
        let deltas = Definition::stack_deltas(frames, &mut half.deltas);
        let id = self.spill.header().stacks.fetch_add(1, Relaxed) + 1;
        let definition = Definition::Stack {
            id: StackId(id),
            entry: request.entry,
            align_log2: request.align_log2,
            generation: unwind::generation(),
            cut: half.known.len() > length,
            deltas: Cow::Borrowed(deltas),
        };
        half.writer
            .publish_within(&self.spill, kept, &definition)
            .then_some(id)
    }

    /// Defines the modules that a new backtrace leads through and nobody met before.
    fn define_modules(&mut self, level: Level, length: usize) {
        let Half { frames, writer, .. } = &mut self.halves[level as usize];
        for address in frames.get(..length).unwrap_or(&[]) {
            let Some(module) = unwind::module_of(address.wrapping_sub(1)) else {
                continue;
            };
            let path = module_path(&module);
            let build_id = module.build_id();
            let build_id = build_id.as_deref().unwrap_or(&[]);
            let Some(id) = crate::modules::number(module.start, &path, build_id) else {
                continue;
            };
            let definition = Definition::Module {
                id,
                generation: unwind::generation(),
                path,
                bias: module.bias,
                start: module.start,
                end: module.end,
                build_id: Cow::Borrowed(build_id),
                key: clock::end(),
            };
            writer.publish(&self.spill, &definition);
        }
    }

    /// Brings the known stack up to date.
    #[inline(always)]
    fn update_stack(&mut self, level: Level, site: CallSite) {
        let depth = self.switches.depth as usize;
        let half = &mut self.halves[level as usize];
        let Some(frame) = half.innermost(site) else {
            half.known.forget();
            half.frames_hash = 0;
            return;
        };
        if !half.known.update(frame, depth, &mut half.bounds) {
            half.frames_hash = half.known.hash(depth);
        }
        if self.switches.check_unwinding {
            self.check_unwinding(level, depth, frame);
        }
    }

    /// Compares the known stack with a walk that knows nothing, and counts.
    #[cold]
    #[inline(never)]
    fn check_unwinding(&mut self, level: Level, depth: usize, innermost: Frame) {
        let half = &mut self.halves[level as usize];
        let whole = half.frames.get_mut(..depth).unwrap_or(&mut []);
        let length = unwind::walk_from(innermost, &mut half.bounds, whole).len;
        let whole = half.frames.get(..length).unwrap_or(&[]);
        let header = self.spill.header();
        header.unwinds_checked.fetch_add(1, Relaxed);
        if !half.known.is(whole, depth) {
            header.unwinds_differing.fetch_add(1, Relaxed);
        }
    }
}

/// A module's path; the loader has no name for the program itself.
fn module_path(module: &unwind::ModuleInfo) -> Cow<'static, str> {
    if module.name.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: the loader's name is a C string that lives as long as the module, and a
    // stack frame of this thread lies in the module.
    let name = unsafe { CStr::from_ptr::<'static>(module.name) }
        .to_str()
        .unwrap_or("?");
    if name.is_empty() {
        return Cow::Borrowed(session::current().map_or("", |session| session.executable.as_str()));
    }
    // Longer paths than a definition has room for do not exist (PATH_MAX).
    Cow::Borrowed(&name[..name.floor_char_boundary(MAX_PATH_BYTES)])
}
