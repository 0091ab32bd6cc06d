//! Each call of `GlobalAlloc` once, as a Rust program without any recorder of its own
//! makes them. Compiled with plain rustc. What each becomes below malloc is std's affair,
//! so only the kinds are stated, not the entry points.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::ffi::{CString, c_char, c_void};
use std::hint::black_box;
use std::ptr::null;

unsafe extern "C" {
    fn dlsym(library: *const c_void, name: *const c_char) -> *mut c_void;
}

struct Expect {
    name: &'static str,
    allocations: u8,
    reallocations: u8,
    deallocations: u8,
    failed: u8,
    bytes: usize,
}

struct Steps {
    mark: Option<extern "C" fn(*const c_char)>,
    done: Vec<Expect>,
}

impl Steps {
    fn step<T>(&mut self, expect: Expect, call: impl FnOnce() -> T) -> T {
        let begin = CString::new(format!("step {}", self.done.len())).unwrap();
        let end = CString::new(format!("step {} end", self.done.len())).unwrap();
        let mark = |name: &CString| self.mark.map(|mark| mark(name.as_ptr()));
        mark(&begin);
        // The optimiser may remove an allocation whose block nobody looks at.
        let value = black_box(call());
        mark(&end);
        self.done.push(expect);
        value
    }

    fn allocates<T>(&mut self, name: &'static str, bytes: usize, call: impl FnOnce() -> T) -> T {
        let expect = Expect {
            name,
            allocations: 1,
            reallocations: 0,
            deallocations: 0,
            failed: 0,
            bytes,
        };
        self.step(expect, call)
    }

    fn reallocates<T>(&mut self, name: &'static str, bytes: usize, call: impl FnOnce() -> T) -> T {
        let expect = Expect {
            name,
            allocations: 0,
            reallocations: 1,
            deallocations: 0,
            failed: 0,
            bytes,
        };
        self.step(expect, call)
    }

    fn deallocates(&mut self, name: &'static str, call: impl FnOnce()) {
        let expect = Expect {
            name,
            allocations: 0,
            reallocations: 0,
            deallocations: 1,
            failed: 0,
            bytes: 0,
        };
        self.step(expect, call);
    }

    fn fails(&mut self, name: &'static str, call: impl FnOnce() -> *mut u8) {
        let expect = Expect {
            name,
            allocations: 0,
            reallocations: 0,
            deallocations: 0,
            failed: 1,
            bytes: 0,
        };
        assert!(black_box(self.step(expect, call)).is_null());
    }

    fn print(&self) {
        for (number, step) in self.done.iter().enumerate() {
            println!(
                "{{\"step\":{number},\"name\":\"{}\",\"entry\":\"\",\"allocations\":{},\
                 \"reallocations\":{},\"deallocations\":{},\"failed_allocations\":{},\
                 \"requested_bytes\":{},\"net_blocks\":{}}}",
                step.name,
                step.allocations,
                step.reallocations,
                step.deallocations,
                step.failed,
                step.bytes,
                i32::from(step.allocations) - i32::from(step.deallocations),
            );
        }
    }
}

fn layout(size: usize, align: usize) -> Layout {
    black_box(Layout::from_size_align(size, align).unwrap())
}

fn main() {
    // SAFETY: heapreel.h declares the function with this signature.
    let mark = unsafe {
        let address = dlsym(null(), c"heapreel_mark".as_ptr());
        (!address.is_null())
            .then(|| std::mem::transmute::<*mut c_void, extern "C" fn(*const c_char)>(address))
    };
    let mut steps = Steps {
        mark,
        done: Vec::with_capacity(100),
    };
    plain(&mut steps);
    for align in [32, 64, 4096] {
        over_aligned(&mut steps, align);
    }
    failing(&mut steps);
    collections(&mut steps);
    steps.print();
}

fn plain(steps: &mut Steps) {
    // SAFETY: layouts are not empty, and each block is released with its last layout.
    unsafe {
        let block = steps.allocates("alloc", 3001, || alloc(layout(3001, 8)));
        let block = steps.reallocates("realloc, growing", 30002, || {
            realloc(block, layout(3001, 8), 30002)
        });
        let block = steps.reallocates("realloc, shrinking", 303, || {
            realloc(block, layout(30002, 8), 303)
        });
        steps.deallocates("dealloc", || dealloc(block, layout(303, 8)));
        let block = steps.allocates("alloc_zeroed", 3004, || alloc_zeroed(layout(3004, 16)));
        assert!((0..3004).all(|at| block.add(at).read() == 0));
        steps.deallocates("dealloc of zeroed", || dealloc(block, layout(3004, 16)));
        let block = steps.allocates("alloc smaller than its alignment", 5, || {
            alloc(layout(5, 16))
        });
        assert_eq!(block as usize % 16, 0);
        steps.deallocates("dealloc of a small one", || dealloc(block, layout(5, 16)));
    }
}

fn over_aligned(steps: &mut Steps, align: usize) {
    // SAFETY: as in `plain`.
    unsafe {
        let block = steps.allocates("alloc aligned", 3010, || alloc(layout(3010, align)));
        assert_eq!(block as usize % align, 0);
        // C's realloc knows no alignment: std allocates, copies and deallocates.
        let copied = Expect {
            name: "realloc aligned",
            allocations: 1,
            reallocations: 0,
            deallocations: 1,
            failed: 0,
            bytes: 6011,
        };
        let block = steps.step(copied, || realloc(block, layout(3010, align), 6011));
        assert_eq!(block as usize % align, 0);
        steps.deallocates("dealloc aligned", || dealloc(block, layout(6011, align)));
        let block = steps.allocates("alloc_zeroed aligned", 3012, || {
            alloc_zeroed(layout(3012, align))
        });
        assert!((0..3012).all(|at| block.add(at).read() == 0));
        steps.deallocates("dealloc aligned zeroed", || {
            dealloc(block, layout(3012, align))
        });
    }
}

fn failing(steps: &mut Steps) {
    let huge = isize::MAX as usize / 2;
    // SAFETY: as in `plain`; a failed realloc leaves the old block and its layout.
    unsafe {
        steps.fails("alloc fails", || alloc(layout(huge, 8)));
        steps.fails("alloc_zeroed fails", || alloc_zeroed(layout(huge, 8)));
        steps.fails("alloc aligned fails", || alloc(layout(huge, 64)));
        let block = alloc(layout(3020, 8));
        block.write(42);
        steps.fails("realloc fails", || realloc(block, layout(3020, 8), huge));
        assert_eq!(block.read(), 42);
        steps.deallocates("dealloc after a failed realloc", || {
            dealloc(block, layout(3020, 8))
        });
    }
}

fn collections(steps: &mut Steps) {
    let boxed = steps.allocates("a box", 24, || Box::new(black_box([1u64, 2, 3])));
    steps.deallocates("a box dropped", || drop(black_box(boxed)));
    let mut bytes: Vec<u8> =
        steps.allocates("a vector", 3030, || Vec::with_capacity(black_box(3030)));
    bytes.push(1);
    steps.reallocates("a vector grows", 3040, || {
        bytes.reserve_exact(black_box(3039))
    });
    steps.reallocates("a vector shrinks", 1, || bytes.shrink_to_fit());
    steps.deallocates("a vector dropped", || drop(black_box(bytes)));
}
