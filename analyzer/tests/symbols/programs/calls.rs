// Rust names and inlined levels. A "MARK:" names the line it stands on.
use std::ffi::c_char;
use std::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn probe(name: *const c_char);
}

static KEPT: AtomicUsize = AtomicUsize::new(0);

mod terrain {
    pub struct Tile<T>(pub T);

    pub trait Load {
        fn load(&self);
    }

    #[inline(always)]
    fn decode(count: usize) {
        unsafe { super::probe(c"inlined".as_ptr()) }; // MARK: decode
        super::KEPT.fetch_add(count, super::Ordering::SeqCst);
    }

    #[inline(always)]
    fn unpack(count: usize) {
        decode(count + 1); // MARK: unpack
    }

    impl<T> Load for Tile<T> {
        #[inline(never)]
        fn load(&self) {
            unpack(size_of::<T>()); // MARK: load
        }
    }
}

#[inline(never)]
fn call(f: impl Fn(usize)) {
    f(1);
    KEPT.fetch_add(1, Ordering::SeqCst);
}

fn main() {
    terrain::Load::load(&terrain::Tile(7u64));
    call(|count| {
        unsafe { probe(c"closure".as_ptr()) }; // MARK: closure
        KEPT.fetch_add(count, Ordering::SeqCst);
    });
}
