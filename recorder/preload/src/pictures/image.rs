//! Loaded programs and libraries, as the loader keeps them in memory (System V ABI,
//! chapter 5): what they define, and what is bound already.
//!
//! A definition is replaced by changing the symbol's value in the library's table of
//! symbols: whoever looks it up from then on gets the other address, be it the loader or
//! `dlsym`. Words that were bound before are found by their value and changed, too.
//!
//! All of it happens within `dl_iterate_phdr`: the loader's lock keeps libraries from coming and
//! going meanwhile, and lets the same thread in again.
#![expect(unsafe_code, reason = "reads and changes what the loader has mapped")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Relaxed, Release},
};

const PAGE: usize = 4096;

/// Calls `lead` for each loaded object if any was loaded since `seen` was last stored.
pub(super) fn for_new(seen: &AtomicU64, lead: impl Fn(&Image)) {
    let mut walk = Walk { seen, lead: &lead };
    // SAFETY: the walk lives until the call returns, which calls `visit` with it alone.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut walk).cast()) };
}

struct Walk<'a> {
    seen: &'a AtomicU64,
    lead: &'a dyn Fn(&Image),
}

unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    walk: *mut c_void,
) -> c_int {
    // SAFETY: the loader's description of an object, and the walk that `for_new` passed.
    let (first, walk) = unsafe { (&*info, &*walk.cast::<Walk<'_>>()) };
    if walk.seen.swap(first.dlpi_adds, Relaxed) == first.dlpi_adds {
        return 1;
    }
    // SAFETY: as `for_new`'s; the lock is held, and each object is looked at by `each`.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw const walk.lead).cast_mut().cast()) };
    1
}

unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _size: usize, lead: *mut c_void) -> c_int {
    // SAFETY: the loader's description, and what `visit` passed.
    let (info, lead) = unsafe { (&*info, &*lead.cast::<&dyn Fn(&Image)>()) };
    if let Some(image) = Image::of(info) {
        lead(&image);
    }
    0
}

/// One loaded object.
pub(super) struct Image {
    base: usize,
    headers: &'static [libc::Elf64_Phdr],
    symbols: *const Symbol,
    names: *const u8,
    /// The table by which names are found, DT_GNU_HASH.
    buckets: *const u32,
}

/// `Elf64_Sym`, of which the value may change.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: AtomicUsize,
    size: u64,
}

const FUNCTION: u8 = 2;

/// `Elf64_Rela`.
#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

const R_X86_64_64: u64 = 1;
const R_X86_64_GLOB_DAT: u64 = 6;
const R_X86_64_JUMP_SLOT: u64 = 7;

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

impl Image {
    /// `None` where it has no table of symbols by GNU's hash: the kernel's vdso, or a file
    /// that was linked in another way.
    fn of(info: &libc::dl_phdr_info) -> Option<Image> {
        let image = Image {
            base: info.dlpi_addr as usize,
            // SAFETY: the loader's; an object stays loaded as long as it is looked at.
            headers: unsafe {
                std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum))
            },
            symbols: std::ptr::null(),
            names: std::ptr::null(),
            buckets: std::ptr::null(),
        };
        let [symbols, names, buckets] =
            [DT_SYMTAB, DT_STRTAB, DT_GNU_HASH].map(|tag| image.table(tag));
        Some(Image {
            symbols: symbols? as *const Symbol,
            names: names? as *const u8,
            buckets: buckets? as *const u32,
            ..image
        })
    }

    fn dynamic(&self, tag: i64) -> Option<usize> {
        let header = self
            .headers
            .iter()
            .find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let mut entry = (self.base + header.p_vaddr as usize) as *const [i64; 2];
        // SAFETY: the dynamic section ends in an entry of tag 0.
        unsafe {
            while (*entry)[0] != 0 {
                if (*entry)[0] == tag {
                    return Some((*entry)[1] as usize);
                }
                entry = entry.add(1);
            }
        }
        None
    }

    /// The address in an entry. glibc stores it in place of the distance that the file has,
    /// except where the section cannot be written.
    fn table(&self, tag: i64) -> Option<usize> {
        let value = self.dynamic(tag)?;
        Some(if value < self.base {
            value + self.base
        } else {
            value
        })
    }

    /// Replaces the function of this name, if this object defines it, by what `other` gives
    /// for its address.
    pub(super) fn replace(&self, name: &[u8], other: impl FnOnce(usize) -> Option<usize>) {
        let Some(symbol) = self.find(name) else {
            return;
        };
        let real = self.base.wrapping_add(symbol.value.load(Relaxed));
        let Some(stub) = other(real) else { return };
        let place = (&raw const symbol.value).addr();
        if self.write(place, stub.wrapping_sub(self.base)) {
            rebind(real, stub);
        }
    }

    /// The definition of a function, by GNU's hash of its name.
    fn find(&self, name: &[u8]) -> Option<&Symbol> {
        let hash = name.iter().fold(5381u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
        });
        // SAFETY: the table as the linker has made it: four counts, a filter of words of 64
        // bits, the buckets, then a chain of hashes for each, whose last one is odd.
        unsafe {
            let [count, first, words, shift] = *self.buckets.cast::<[u32; 4]>();
            let filter = self.buckets.add(4).cast::<u64>();
            let word = filter.add((hash / 64 % words.max(1)) as usize).read();
            let bits = 1u64 << (hash % 64) | 1u64 << ((hash >> shift) % 64);
            if count == 0 || word & bits != bits {
                return None;
            }
            let buckets = filter.add(words as usize).cast::<u32>();
            let chains = buckets.add(count as usize);
            let mut at = buckets.add((hash % count) as usize).read();
            while at >= first {
                let link = chains.add((at - first) as usize).read();
                if link | 1 == hash | 1 && self.is_function(at, name) {
                    return Some(&*self.symbols.add(at as usize));
                }
                if link & 1 == 1 {
                    break;
                }
                at += 1;
            }
        }
        None
    }

    /// # Safety
    ///
    /// The table of symbols has so many.
    unsafe fn is_function(&self, at: u32, name: &[u8]) -> bool {
        // SAFETY: the caller's promise; names end in a zero.
        unsafe {
            let symbol = &*self.symbols.add(at as usize);
            symbol.section != 0
                && symbol.info & 15 == FUNCTION
                && CStr::from_ptr(self.names.add(symbol.name as usize).cast()).to_bytes() == name
        }
    }

    /// Stores a word in this object, which may have to be made writable for that.
    fn write(&self, place: usize, value: usize) -> bool {
        let Some(protection) = self.protection(place) else {
            return false;
        };
        let page = place / PAGE * PAGE;
        let change = |protection| {
            // SAFETY: a page of the object. It was private to this process before, and is
            // at least as usable while it is writable.
            unsafe { libc::mprotect(page as *mut c_void, PAGE, protection) == 0 }
        };
        let is_locked = protection & libc::PROT_WRITE == 0;
        if is_locked && !change(protection | libc::PROT_WRITE) {
            return false;
        }
        // SAFETY: an aligned word of the object, which others only read as one word.
        unsafe { (*(place as *const AtomicUsize)).store(value, Release) };
        if is_locked {
            change(protection);
        }
        true
    }

    /// How the page that holds a word was mapped; `None` where it lies in no segment, or not
    /// evenly.
    fn protection(&self, place: usize) -> Option<c_int> {
        let holds = |kind: u32| {
            move |header: &&libc::Elf64_Phdr| {
                let start = self.base + header.p_vaddr as usize;
                header.p_type == kind && (start..start + header.p_memsz as usize).contains(&place)
            }
        };
        let segment = self.headers.iter().find(holds(libc::PT_LOAD))?;
        let flag = |flag: u32, protection: c_int| {
            if segment.p_flags & flag != 0 {
                protection
            } else {
                0
            }
        };
        let mut protection = flag(libc::PF_R, libc::PROT_READ) | flag(libc::PF_X, libc::PROT_EXEC);
        if self
            .headers
            .iter()
            .find(holds(libc::PT_GNU_RELRO))
            .is_none()
        {
            protection |= flag(libc::PF_W, libc::PROT_WRITE);
        }
        place.is_multiple_of(8).then_some(protection)
    }

    fn relocations(&self, table: i64, bytes: i64) -> &[Relocation] {
        let (Some(table), Some(bytes)) = (self.table(table), self.dynamic(bytes)) else {
            return &[];
        };
        // SAFETY: the object's table, of that many bytes.
        unsafe {
            std::slice::from_raw_parts(table as *const Relocation, bytes / size_of::<Relocation>())
        }
    }

    /// Changes each word that was bound to `real`.
    fn rebind(&self, real: usize, stub: usize) {
        let tables = [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)];
        let all = tables
            .iter()
            .flat_map(|&(table, bytes)| self.relocations(table, bytes));
        let binds = |relocation: &&Relocation| {
            matches!(
                relocation.info & 0xffff_ffff,
                R_X86_64_64 | R_X86_64_GLOB_DAT | R_X86_64_JUMP_SLOT
            )
        };
        for relocation in all.filter(binds) {
            let place = self.base.wrapping_add(relocation.offset as usize);
            if self.protection(place).is_none() {
                continue;
            }
            // SAFETY: an aligned word that the loader has filled.
            let bound = unsafe { (*(place as *const AtomicUsize)).load(Relaxed) };
            if bound == real {
                self.write(place, stub);
            }
        }
    }
}

/// Changes each word of any object that was bound to `real`.
fn rebind(real: usize, stub: usize) {
    let change: &dyn Fn(&Image) = &|image| image.rebind(real, stub);
    // SAFETY: as in `for_new`, whose lock is held.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw const change).cast_mut().cast()) };
}
