//! Finds the module that holds an address.
//!
//! glibc 2.35 and later answer with `_dl_find_object`, without a lock. It is
//! looked up at run time, so that older ones can still load us; there, and for
//! modules whose program headers are not where the file header says,
//! `dl_iterate_phdr` is asked.

#![expect(unsafe_code, reason = "the loader's C interface")]

use core::ffi::{c_char, c_int, c_ulonglong, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::module::{Headers, ModuleInfo};
use super::stack::find_main_top;

/// `struct dl_find_object` of glibc's `dlfcn.h` on x86-64.
#[repr(C)]
struct FoundObject {
    flags: c_ulonglong,
    map_start: *mut c_void,
    map_end: *mut c_void,
    link_map: *const LinkMap,
    eh_frame: *mut c_void,
    reserved: [c_ulonglong; 7],
}

/// The public first fields of glibc's `struct link_map` (`link.h`).
#[repr(C)]
struct LinkMap {
    bias: u64,
    name: *const c_char,
}

type FindObject = unsafe extern "C" fn(*mut c_void, *mut FoundObject) -> c_int;

static FIND_OBJECT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks up what the walk needs from the process. To be called once, early, and
/// not from a signal handler; a walk before that works but may take the
/// loader's lock.
pub(crate) fn init() {
    find_main_top();
    // SAFETY: the name is a C text; `dlsym` only reads it.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    FIND_OBJECT.store(found, Ordering::Release);
}

/// An entry of the vector that the kernel gave to the process, or zero.
pub(super) fn auxiliary(kind: u64) -> u64 {
    // SAFETY: reads a value that was set before any code of ours ran.
    unsafe { libc::getauxval(kind) }
}

/// The module that holds `pc`.
#[cold]
#[inline(never)]
pub(crate) fn module_of(pc: u64) -> Option<ModuleInfo> {
    let function = FIND_OBJECT.load(Ordering::Acquire);
    if function.is_null() {
        return iterate(pc);
    }
    // SAFETY: `init` stores only what `dlsym` gave for this name, and glibc's
    // function of this name has this type.
    let function = unsafe { core::mem::transmute::<*mut c_void, FindObject>(function) };
    let mut found = MaybeUninit::<FoundObject>::uninit();
    // SAFETY: the function accepts any address and fills the structure when it
    // returns 0.
    let found = unsafe {
        if function(ptr::without_provenance_mut(pc as usize), found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    // SAFETY: glibc gives the link map of a loaded module, which begins with
    // these fields and lives as long as the module is loaded.
    let (bias, name) = unsafe { ((*found.link_map).bias, (*found.link_map).name) };
    let (start, end) = (found.map_start as u64, found.map_end as u64);
    match Headers::from_file_header(start, end, bias) {
        Some(headers) => Some(ModuleInfo {
            start,
            end,
            bias,
            eh_frame_hdr: found.eh_frame as u64,
            name,
            headers,
        }),
        None => iterate(pc),
    }
}

struct Search {
    pc: u64,
    found: Option<ModuleInfo>,
}

fn iterate(pc: u64) -> Option<ModuleInfo> {
    let mut search = Search { pc, found: None };
    // SAFETY: `visit` gets back the pointer to `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

/// # Safety
/// To be called by `dl_iterate_phdr` only, with a `Search` as `data`.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    data: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a description valid during this call, and the
    // pointer that `iterate` gave it, to which nobody else has access.
    let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
    // SAFETY: the loader's program headers stay as long as the module is loaded.
    let headers = unsafe { Headers::from_raw(info.dlpi_phdr, info.dlpi_phnum, info.dlpi_addr) };
    if !headers.covers(search.pc) {
        return 0;
    }
    let (start, end) = headers.range();
    search.found = Some(ModuleInfo {
        start,
        end,
        bias: info.dlpi_addr,
        eh_frame_hdr: headers.eh_frame_hdr(),
        name: info.dlpi_name,
        headers,
    });
    1
}
