//! The next definition of each C function: what the program would call without us.
//!
//! Each is a pointer that starts at a function which looks up all of them, so that a
//! hook is one load and one call from the first call on. Relaxed suffices: the code
//! behind a pointer was in memory before the loader told us of it.
#![expect(unsafe_code, reason = "function pointers from the dynamic loader")]

use crate::{bootstrap, callers};
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicPtr, AtomicU8,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The next definition of one function of type `F`.
#[repr(transparent)]
pub(crate) struct Next<F> {
    pointer: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// Begins as `first`, a function of type `F`.
    pub(crate) const fn new(first: *mut c_void) -> Next<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Next {
            pointer: AtomicPtr::new(first),
            function: PhantomData,
        }
    }

    /// The function to call.
    #[inline(always)]
    pub(crate) fn get(&self) -> F {
        let pointer = self.pointer.load(Relaxed);
        // SAFETY: `new` and `set` are only given functions of this type, never null.
        unsafe { std::mem::transmute_copy::<*mut c_void, F>(&pointer) }
    }

    /// Its address.
    pub(crate) fn address(&self) -> usize {
        self.pointer.load(Relaxed).addr()
    }

    /// Looks it up; `otherwise`, a function of type `F`, where there is none.
    pub(crate) fn find(&self, name: &CStr, otherwise: Option<*mut c_void>) -> bool {
        let found = lookup(libc::RTLD_NEXT, name);
        self.set(if found.is_null() {
            otherwise.unwrap_or(null_mut())
        } else {
            found
        });
        !found.is_null()
    }

    /// Sets it, unless `function` is null.
    pub(crate) fn set(&self, function: *mut c_void) {
        if !function.is_null() {
            self.pointer.store(function, Relaxed);
        }
    }
}

/// `dlsym` that leaves no error behind for the program's `dlerror`.
pub(crate) fn lookup(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: a valid handle, a name that ends in 0.
    unsafe {
        let found = libc::dlsym(handle, name.as_ptr());
        if found.is_null() {
            libc::dlerror();
        }
        found
    }
}

macro_rules! next_functions {
    ($($name:ident, $symbol:literal, $otherwise:expr, ($($argument:ident: $type:ty),*) $(-> $return:ty)?, $early:expr;)*) => {
        $(
            #[doc = concat!("The next `", stringify!($symbol), "`.")]
            pub(crate) static $name: Next<unsafe extern "C-unwind" fn($($type),*) $(-> $return)?> = {
                unsafe extern "C-unwind" fn first($($argument: $type),*) $(-> $return)? {
                    if resolve() {
                        // SAFETY: the caller's promises are those of the function itself.
                        return unsafe { $name.get()($($argument),*) };
                    }
                    $early
                }
                Next::new(first as *mut c_void)
            };
        )*

        /// None is known before all were looked up: what the loader allocates to tell of
        /// one that is not there does not come from the program's heap.
        fn find_all() {
            let otherwise: &[Option<*mut c_void>] = &[$( $otherwise ),*];
            let found = [$( lookup(libc::RTLD_NEXT, $symbol) ),*];
            let mut functions = found.iter().zip(otherwise).map(|(found, otherwise)| {
                if found.is_null() { otherwise.unwrap_or(null_mut()) } else { *found }
            });
            $( $name.set(functions.next().unwrap_or(null_mut())); )*
        }

        /// Addresses of the functions found.
        fn addresses() -> impl Iterator<Item = usize> {
            [$( $name.address() ),*].into_iter()
        }
    };
}

type Block = *mut u8;

next_functions! {
    MALLOC, c"malloc", None, (size: usize) -> Block, bootstrap::allocate(size, 0);
    FREE, c"free", None, (block: Block), leave(block);
    CALLOC, c"calloc", None, (count: usize, size: usize) -> Block,
        bootstrap::allocate(count.saturating_mul(size), 0);
    REALLOC, c"realloc", None, (block: Block, size: usize) -> Block, resize_early(block, size);
    REALLOCARRAY, c"reallocarray", Some(missing::reallocarray as *mut c_void),
        (block: Block, count: usize, size: usize) -> Block, resize_early(block, count.saturating_mul(size));
    MEMALIGN, c"memalign", None, (align: usize, size: usize) -> Block, bootstrap::allocate(size, align);
    ALIGNED_ALLOC, c"aligned_alloc", None, (align: usize, size: usize) -> Block, bootstrap::allocate(size, align);
    POSIX_MEMALIGN, c"posix_memalign", None, (_out: *mut Block, _align: usize, _size: usize) -> c_int, libc::ENOMEM;
    VALLOC, c"valloc", None, (size: usize) -> Block, bootstrap::allocate(size, 4096);
    PVALLOC, c"pvalloc", None, (size: usize) -> Block, bootstrap::allocate(size.next_multiple_of(4096), 4096);
    CFREE, c"cfree", Some(missing::free as *mut c_void), (block: Block), leave(block);
    FREE_SIZED, c"free_sized", Some(missing::free_sized as *mut c_void), (block: Block, _size: usize), leave(block);
    FREE_ALIGNED_SIZED, c"free_aligned_sized", Some(missing::free_aligned_sized as *mut c_void),
        (block: Block, _align: usize, _size: usize), leave(block);
    USABLE_SIZE, c"malloc_usable_size", None, (_block: Block) -> usize, 0;
}

/// Runs `work` before the program's first instruction, on its only thread. What the loader
/// allocates meanwhile does not come from the program's heap, which stays as it is.
pub(crate) fn beside_the_heap<T>(work: impl FnOnce() -> T) -> T {
    let stand_ins = [
        (&MALLOC.pointer, early_malloc as *mut c_void),
        (&CALLOC.pointer, early_calloc as *mut c_void),
        (&REALLOC.pointer, resize_early as *mut c_void),
    ];
    let kept = stand_ins.map(|(place, stand_in)| (place, place.swap(stand_in, Relaxed)));
    let result = work();
    for (place, function) in kept {
        place.store(function, Relaxed);
    }
    result
}

unsafe extern "C-unwind" fn early_malloc(size: usize) -> Block {
    bootstrap::allocate(size, 0)
}

unsafe extern "C-unwind" fn early_calloc(count: usize, size: usize) -> Block {
    bootstrap::allocate(count.saturating_mul(size), 0)
}

/// A block whose owner cannot be asked yet stays.
fn leave(_block: Block) {}

/// `realloc` while looking up: only our own blocks can be known.
extern "C-unwind" fn resize_early(block: Block, size: usize) -> Block {
    let new = bootstrap::allocate(size, 0);
    if bootstrap::owns(block) && !new.is_null() {
        // SAFETY: our block, by its address; the copy is as long as both at least.
        unsafe {
            let kept = bootstrap::size_of_block(block).min(size);
            std::ptr::copy_nonoverlapping(block, new, kept);
        }
    }
    new
}

/// What stands in where the C library is too old to have a function.
mod missing {
    use super::{Block, FREE, REALLOC};

    pub(super) unsafe extern "C-unwind" fn free(block: Block) {
        // SAFETY: as promised to us.
        unsafe { FREE.get()(block) }
    }

    pub(super) unsafe extern "C-unwind" fn free_sized(block: Block, _size: usize) {
        // SAFETY: as promised to us.
        unsafe { FREE.get()(block) }
    }

    pub(super) unsafe extern "C-unwind" fn free_aligned_sized(
        block: Block,
        _align: usize,
        _size: usize,
    ) {
        // SAFETY: as promised to us.
        unsafe { FREE.get()(block) }
    }

    pub(super) unsafe extern "C-unwind" fn reallocarray(
        block: Block,
        count: usize,
        size: usize,
    ) -> Block {
        let Some(bytes) = count.checked_mul(size) else {
            // SAFETY: this thread's errno.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            return std::ptr::null_mut();
        };
        // SAFETY: as promised to us.
        unsafe { REALLOC.get()(block, bytes) }
    }
}

const UNKNOWN: u8 = 0;
const LOOKING: u8 = 1;
const KNOWN: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Looks all of them up, once. False while that is under way, be it that the loader
/// asks for memory meanwhile or another thread comes too early.
#[cold]
pub(crate) fn resolve() -> bool {
    match STATE.compare_exchange(UNKNOWN, LOOKING, AcqRel, Acquire) {
        Ok(_) => {
            find_all();
            callers::learn_own_code();
            callers::learn_allocator(addresses());
            STATE.store(KNOWN, Release);
            true
        }
        Err(state) => state == KNOWN,
    }
}

/// Whether `realloc(block, 0)` frees the block, as glibc's does, or returns another.
pub(crate) fn realloc_frees() -> bool {
    const FREES: u8 = 1;
    const RETURNS: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    match ANSWER.load(Relaxed) {
        FREES => true,
        RETURNS => false,
        // SAFETY: a block of our own, tried out and given back.
        _ => unsafe {
            let block = MALLOC.get()(1);
            let left = if block.is_null() {
                null_mut()
            } else {
                REALLOC.get()(block, 0)
            };
            FREE.get()(left);
            ANSWER.store(if left.is_null() { FREES } else { RETURNS }, Relaxed);
            left.is_null()
        },
    }
}
