//! The variables that load and direct us: read, passed on to children, or removed.
//!
//! All without the program's memory and without `setenv`, whose lock another thread
//! may hold. Variables are only removed before the program's first instruction.
#![expect(
    unsafe_code,
    reason = "the C library's environment is an array of C strings"
)]

use crate::callers::object_of;
use heapreel::raw;
use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

/// An array of C strings, null at its end; may be null itself.
pub(crate) type Strings = *const *const c_char;

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

const PRELOAD: &[u8] = b"LD_PRELOAD=";
const OURS: &[u8] = b"HEAPREEL_";
/// With this the loader names a program's libraries and does not run it (ld.so(8)): so
/// works ldd, whose list must be the program's own.
const LISTS: &[u8] = b"LD_TRACE_LOADED_OBJECTS=";

/// What children are to be given where the program withholds it: `LD_PRELOAD=` with
/// our path alone, and every `HEAPREEL_…` as it was. Empty where they are to be plain.
static KEPT: OnceLock<Vec<CString>> = OnceLock::new();

/// The same once the program has given system calls up: whatever replaces it has, too.
static KEPT_CONFINED: AtomicPtr<Vec<CString>> = AtomicPtr::new(null_mut());

/// What may not be asked of the kernel, as a number.
const CONFINED: &str = "HEAPREEL_CONFINED";

/// Takes over what the program that this one replaced, or its parent, had given up.
pub(crate) fn inherit_confinement() {
    let number = std::str::from_utf8(value(CONFINED)).unwrap_or_default();
    raw::forbear(number.parse().unwrap_or_default());
}

/// Has children that are given an environment know what this program has given up.
pub(crate) fn pass_on_confinement() {
    let Some(kept) = KEPT.get() else { return };
    let is_other = |text: &&CString| !text.to_bytes().starts_with(CONFINED.as_bytes());
    let number = CString::new(format!("{CONFINED}={}", raw::forborne())).ok();
    let kept: Vec<CString> = kept
        .iter()
        .filter(is_other)
        .cloned()
        .chain(number)
        .collect();
    // Never freed: another thread may be about to exec. A program gives calls up rarely.
    KEPT_CONFINED.store(Box::into_raw(Box::new(kept)), Release);
}

fn kept() -> Option<&'static [CString]> {
    // SAFETY: null, or what `pass_on_confinement` has left for good.
    let confined = unsafe { KEPT_CONFINED.load(Acquire).as_ref() };
    confined.or_else(|| KEPT.get()).map(Vec::as_slice)
}

/// Gives the C library the environment if its own constructor has not run yet: the
/// loader calls us first of all.
pub(crate) fn begin(from_loader: Strings) {
    // SAFETY: before the program's first instruction there is one thread.
    unsafe {
        if environ.is_null() {
            environ = from_loader.cast_mut().cast();
        }
    }
}

/// The program's environment now.
pub(crate) fn current() -> Strings {
    // SAFETY: reads a pointer.
    unsafe { environ.cast_const().cast() }
}

/// The value of a variable, empty where it is not set.
pub(crate) fn value(name: &str) -> &'static [u8] {
    let text =
        each(current()).find_map(|text| text.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    text.unwrap_or_default()
}

/// Whether a switch that is off by default was turned on.
pub(crate) fn is_set(name: &str) -> bool {
    let word = value(name);
    !word.is_empty() && !raw::is_off(word)
}

/// The entries of an environment.
fn each(strings: Strings) -> impl Iterator<Item = &'static [u8]> {
    let mut next = strings;
    std::iter::from_fn(move || {
        // SAFETY: environments end in a null pointer and hold C strings; what is taken
        // from them here does not outlast the call that it was passed to.
        unsafe {
            if next.is_null() || (*next).is_null() {
                return None;
            }
            let text = CStr::from_ptr(*next).to_bytes();
            next = next.add(1);
            Some(text)
        }
    })
}

/// Whether children are to be recorded too. Those of a program that writes one named
/// file are not: there is but one of it.
fn children_follow() -> bool {
    let wanted = !matches!(value("HEAPREEL_CHILDREN"), b"0" | b"no" | b"off" | b"false");
    let has_session = !value("HEAPREEL_SESSION").is_empty();
    wanted && (has_session || value("HEAPREEL_OUT").windows(2).any(|pair| pair == b"%p"))
}

/// Decides what children get. Before the program's first instruction only.
pub(crate) fn settle() {
    if children_follow() {
        let kept = each(current())
            .filter(|text| text.starts_with(OURS))
            .map(<[u8]>::to_vec);
        let preload = [PRELOAD, own_path()].concat();
        let kept = std::iter::once(preload)
            .chain(kept)
            .filter_map(|text| CString::new(text).ok());
        _ = KEPT.set(kept.collect());
    } else {
        remove_ours();
    }
}

/// The path we were loaded from, as `LD_PRELOAD` names it.
fn own_path() -> &'static [u8] {
    object_of(own_path as *const () as usize).map_or(&[], |object| object.path.to_bytes())
}

/// Takes our variables and our part of `LD_PRELOAD` out of the array and the string
/// that the program was given.
fn remove_ours() {
    // SAFETY: one thread, before the program's first instruction: nobody else reads or
    // changes the array or its strings, which lie in writable memory of the stack.
    unsafe {
        if environ.is_null() {
            return;
        }
        let (mut from, mut to) = (environ, environ);
        while !(*from).is_null() {
            let text = CStr::from_ptr(*from).to_bytes();
            let goes = text.starts_with(OURS) || (text.starts_with(PRELOAD) && !shorten(*from));
            if !goes {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        *to = null_mut();
    }
}

/// Takes our path out of the entry `LD_PRELOAD=…`, in place; false if nothing is left.
///
/// # Safety
/// The entry is writable and nobody else looks at it.
unsafe fn shorten(entry: *mut c_char) -> bool {
    let own = own_path();
    // SAFETY: the caller's promise; what is written is never longer than what was read.
    unsafe {
        let bytes = entry.cast::<u8>().add(PRELOAD.len());
        let length = CStr::from_ptr(bytes.cast()).to_bytes().len();
        let (mut written, mut start) = (0, 0);
        while start < length {
            let rest = std::slice::from_raw_parts(bytes.add(start), length - start);
            let end = rest
                .iter()
                .position(|byte| is_separator(*byte))
                .unwrap_or(rest.len());
            if end > 0 && rest.get(..end) != Some(own) {
                if written > 0 {
                    *bytes.add(written) = b':';
                    written += 1;
                }
                std::ptr::copy(bytes.add(start), bytes.add(written), end);
                written += end;
            }
            start += end + 1;
        }
        *bytes.add(written) = 0;
        written > 0
    }
}

/// ld.so(8): the entries of `LD_PRELOAD` are separated by spaces or colons.
fn is_separator(byte: u8) -> bool {
    byte == b':' || byte == b' '
}

fn names_us(preload: &[u8]) -> bool {
    preload
        .split(|byte| is_separator(*byte))
        .any(|path| path == own_path())
}

/// Whether an environment brings everything along that a child needs.
fn is_complete(strings: Strings, kept: &[CString]) -> bool {
    kept.iter().all(|wanted| {
        let wanted = wanted.to_bytes();
        each(strings).any(|text| {
            text == wanted
                || (wanted.starts_with(PRELOAD) && text.strip_prefix(PRELOAD).is_some_and(names_us))
        })
    })
}

/// On the stack there is room for as many bytes; a larger environment gets a mapping.
/// A child of vfork shares its parent's memory: there neither heap nor lock will do.
const ROOM: usize = 6 * 1024;

/// Calls `exec` with the environment that a child is to have.
///
/// # Safety
/// `strings` is an environment as execve(2) takes it.
pub(crate) unsafe fn with_ours<T>(strings: Strings, exec: impl FnOnce(Strings) -> T) -> T {
    let Some(kept) = kept() else {
        return exec(strings);
    };
    let former = each(strings)
        .find(|text| text.starts_with(PRELOAD))
        .unwrap_or_default();
    let lists = each(strings).any(|text| text.starts_with(LISTS));
    let is_right = if lists {
        former.is_empty()
    } else {
        is_complete(strings, kept)
    };
    if is_right {
        return exec(strings);
    }
    let pointers = each(strings).count() + kept.len() + 1;
    let bytes =
        pointers * size_of::<*const c_char>() + former.len() + own_path().len() + PRELOAD.len() + 2;
    with_room(bytes, |room| {
        // SAFETY: room enough, zeroed and aligned for pointers; the caller's promise.
        exec(unsafe {
            match room {
                None => strings,
                Some(room) if lists => without_ours(strings, former, pointers, room),
                Some(room) => completed(strings, kept, former, pointers, room),
            }
        })
    })
}

/// Calls `work` with so many zeroed bytes; with none where the kernel gives none.
fn with_room<T>(bytes: usize, work: impl FnOnce(Option<*mut *const c_char>) -> T) -> T {
    if bytes <= ROOM {
        let mut room = [0usize; ROOM / size_of::<usize>()];
        return work(Some(room.as_mut_ptr().cast()));
    }
    // SAFETY: a new mapping, live until after the call, unmapped if that returns.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let room = libc::mmap(null_mut(), bytes, access, flags, -1, 0);
        if room == libc::MAP_FAILED {
            return work(None);
        }
        let result = work(Some(room.cast()));
        libc::munmap(room, bytes);
        result
    }
}

/// Writes the program's own environment into `room`, our library left out of its
/// `LD_PRELOAD`.
///
/// # Safety
/// `room` holds `pointers` pointers and that text, and is zeroed.
unsafe fn without_ours(
    strings: Strings,
    former: &[u8],
    pointers: usize,
    room: *mut *const c_char,
) -> Strings {
    // SAFETY: the caller's promise; every entry written lives as long as `strings` or `room`.
    unsafe {
        let text = room.add(pointers).cast::<u8>();
        text.copy_from_nonoverlapping(former.as_ptr(), former.len());
        let mut end = room;
        for entry in each(strings).filter(|entry| !entry.starts_with(PRELOAD)) {
            *end = entry.as_ptr().cast();
            end = end.add(1);
        }
        if shorten(text.cast()) {
            *end = text.cast();
        }
        room.cast_const()
    }
}

/// Writes the completed environment into `room`: the program's own entries but for
/// those that are ours to give, then ours, then the text of `LD_PRELOAD`.
///
/// # Safety
/// `room` holds `pointers` pointers and that text.
unsafe fn completed(
    strings: Strings,
    kept: &[CString],
    former: &[u8],
    pointers: usize,
    room: *mut *const c_char,
) -> Strings {
    // SAFETY: the caller's promise; every entry written lives as long as `strings`,
    // `kept` or `room`.
    unsafe {
        let text = room.add(pointers).cast::<u8>();
        let mut end = room;
        let mut add = |entry: *const c_char| {
            *end = entry;
            end = end.add(1);
        };
        for entry in
            each(strings).filter(|entry| !entry.starts_with(PRELOAD) && !entry.starts_with(OURS))
        {
            add(entry.as_ptr().cast());
        }
        for entry in kept
            .iter()
            .filter(|entry| !entry.to_bytes().starts_with(PRELOAD))
        {
            add(entry.as_ptr());
        }
        add(text.cast());
        add(null());
        let others = former.strip_prefix(PRELOAD).unwrap_or_default();
        let us = if names_us(others) {
            &[][..]
        } else {
            own_path()
        };
        let colon = if us.is_empty() || others.is_empty() {
            &[][..]
        } else {
            b":"
        };
        let mut place = text;
        for part in [PRELOAD, us, colon, others, b"\0"] {
            place.copy_from_nonoverlapping(part.as_ptr(), part.len());
            place = place.add(part.len());
        }
        room.cast_const()
    }
}
