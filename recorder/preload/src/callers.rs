//! Which calls come from inside another allocation function.
//!
//! libstdc++'s operator new calls malloc, its new[] jumps to new, its delete jumps to
//! free, and each of these is ours again. They count once, as the one that the
//! program called. No mark may be held across the inner call, since a signal handler
//! could run under it; so the return address decides. An entry that was called from
//! our own code (the inner function jumped on) or from the body of one of the inner
//! functions passes the call on and records nothing.
#![expect(unsafe_code, reason = "asks the dynamic loader about code addresses")]

use std::ffi::{CStr, c_void};
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// A range of code, empty at first. Set once: the length after all else.
struct Span {
    start: AtomicUsize,
    bytes: AtomicUsize,
}

impl Span {
    const fn empty() -> Span {
        Span {
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    fn holds(&self, address: usize) -> bool {
        address.wrapping_sub(self.start.load(Relaxed)) < self.bytes.load(Acquire)
    }

    fn set(&self, start: usize, end: usize) {
        self.start.store(start, Relaxed);
        self.bytes.store(end.saturating_sub(start), Release);
    }
}

/// More than any runtime has functions that allocate.
const MAX_BODIES: usize = 32;

/// The bodies of functions that lie near each other.
struct Bodies {
    /// From the first to the last: answers nearly every question.
    around: Span,
    each: [Span; MAX_BODIES],
}

impl Bodies {
    const fn none() -> Bodies {
        Bodies {
            around: Span::empty(),
            each: [const { Span::empty() }; MAX_BODIES],
        }
    }

    #[inline(always)]
    fn hold(&self, address: usize) -> bool {
        self.around.holds(address) && self.one_holds(address)
    }

    #[cold]
    fn one_holds(&self, address: usize) -> bool {
        self.each.iter().any(|body| body.holds(address))
    }

    fn learn(&self, functions: impl Iterator<Item = usize>) {
        let (mut first, mut last) = (usize::MAX, 0);
        for (slot, (start, end)) in self.each.iter().zip(functions.filter_map(body_of)) {
            slot.set(start, end);
            first = first.min(start);
            last = last.max(end);
        }
        self.around.set(first, last);
    }
}

static OWN_CODE: Span = Span::empty();
static OPERATORS: Bodies = Bodies::none();
static ALLOCATOR: Bodies = Bodies::none();

/// Whether a call that will return to `caller` was made by an allocation function.
#[inline(always)]
pub(crate) fn are_inner(caller: usize) -> bool {
    OWN_CODE.holds(caller) || OPERATORS.hold(caller) || ALLOCATOR.hold(caller)
}

/// Whether this code is ours.
pub(crate) fn is_own(address: usize) -> bool {
    OWN_CODE.holds(address)
}

/// Finds out where our own code lies.
pub(crate) fn learn_own_code() {
    let Some(info) = object_of(learn_own_code as *const () as usize) else {
        return;
    };
    // SAFETY: the loader keeps our program headers in memory, behind the file's header.
    unsafe {
        let header = info.base as *const libc::Elf64_Ehdr;
        let headers = (info.base + (*header).e_phoff as usize) as *const libc::Elf64_Phdr;
        for number in 0..usize::from((*header).e_phnum) {
            let segment = &*headers.add(number);
            if segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0 {
                let start = info.base + segment.p_vaddr as usize;
                OWN_CODE.set(start, start + segment.p_memsz as usize);
            }
        }
    }
}

/// Takes the bodies of the C functions beneath us. The C library's own call each
/// other under private names, so there only `reallocarray` would matter, and that
/// jumps; another library's may well go through the public ones.
pub(crate) fn learn_allocator(functions: impl Iterator<Item = usize>) {
    let library = c_library();
    ALLOCATOR.learn(functions.filter(|function| {
        !is_own(*function) && object_of(*function).is_some_and(|object| object.base != library)
    }));
}

/// Takes the bodies of the C++ runtime's operators.
pub(crate) fn learn_operators(functions: impl Iterator<Item = usize>) {
    OPERATORS.learn(functions.filter(|function| !is_own(*function)));
}

/// A program or library in memory.
pub(crate) struct Object {
    /// Where it was loaded.
    pub(crate) base: usize,
    /// Its path; what the loader says lives as long as the object.
    pub(crate) path: &'static CStr,
}

impl Object {
    /// The name behind the last slash.
    pub(crate) fn file_name(&self) -> &'static [u8] {
        self.path
            .to_bytes()
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default()
    }
}

/// The object that an address lies in.
pub(crate) fn object_of(address: usize) -> Option<Object> {
    // SAFETY: dladdr takes any address and fills `info` where it returns other than 0.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(Object {
            base: info.dli_fbase.addr(),
            path: CStr::from_ptr(info.dli_fname),
        })
    }
}

/// Where the C library was loaded.
pub(crate) fn c_library() -> usize {
    object_of(libc::gnu_get_libc_version as *const () as usize).map_or(0, |object| object.base)
}

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut c_void,
        flags: i32,
    ) -> i32;
}
/// `dladdr1` shall give the symbol's entry.
const RTLD_DL_SYMENT: i32 = 1;

/// The symbol at an address, as its object's table has it.
fn symbol_at(function: usize) -> Option<&'static libc::Elf64_Sym> {
    // SAFETY: dladdr1 takes any address; where it returns other than 0, `symbol` is
    // null or points to an entry of the object's symbol table, which stays as long.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let mut symbol: *mut c_void = std::ptr::null_mut();
        let found = dladdr1(
            function as *const c_void,
            &raw mut info,
            &raw mut symbol,
            RTLD_DL_SYMENT,
        );
        if found == 0 {
            None
        } else {
            symbol.cast::<libc::Elf64_Sym>().as_ref()
        }
    }
}

/// Where a function begins and ends.
fn body_of(function: usize) -> Option<(usize, usize)> {
    let bytes = symbol_at(function)?.st_size as usize;
    // A return address may lie right behind a function whose last instruction is a
    // call, never at its start.
    Some((function + 1, function + bytes + 1))
}

/// Whether an address that the program sees as a function is a definition. In a
/// program that is not position-independent it may be a jump to one: such an entry of
/// the symbol table has a value but no section (System V ABI for x86-64, 5.2).
pub(crate) fn is_definition(function: usize) -> bool {
    const SHN_UNDEF: u16 = 0;
    symbol_at(function).is_none_or(|symbol| symbol.st_shndx != SHN_UNDEF)
}

/// What the program binds a name to, where that is neither ours nor undefined.
pub(crate) fn bound_elsewhere(name: &CStr) -> Option<usize> {
    let bound = crate::next::lookup(libc::RTLD_DEFAULT, name).addr();
    (bound != 0 && !is_own(bound) && is_definition(bound)).then_some(bound)
}
