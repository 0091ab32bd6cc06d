//! Programs that replace themselves or start others.
//!
//! `execl`, `execlp` and `execle` take any number of arguments and cannot be passed
//! on; `system` and `popen` start a shell from inside the C library. Their children
//! have what the program's environment says, which is ours unless it was cleared.
#![expect(unsafe_code, reason = "passes arguments on to the C library")]

use crate::environment::{self, Strings};
use crate::next::Next;
use heapreel::raw::{self, Ended};
use std::ffi::{c_char, c_int, c_void};

macro_rules! passed_on {
    ($($next:ident = fn $name:ident($($argument:ident: $type:ty),*) -> c_int;)*) => {
        $(
            static $next: Next<unsafe extern "C" fn($($type),*) -> c_int> = {
                unsafe extern "C" fn first($($argument: $type),*) -> c_int {
                    unsafe extern "C" fn missing($(_: $type),*) -> c_int {
                        // SAFETY: this thread's errno.
                        unsafe { *libc::__errno_location() = libc::ENOSYS };
                        -1
                    }
                    const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
                        concat!(stringify!($name), "\0").as_bytes(),
                    ) {
                        Ok(name) => name,
                        Err(_) => c"",
                    };
                    $next.find(NAME, Some(missing as *mut c_void));
                    // SAFETY: the same function's next definition.
                    unsafe { $next.get()($($argument),*) }
                }
                Next::new(first as *mut c_void)
            };
        )*
    };
}

type Text = *const c_char;
type Opaque = *const c_void;

passed_on! {
    EXECVE = fn execve(path: Text, arguments: Strings, variables: Strings) -> c_int;
    EXECVPE = fn execvpe(file: Text, arguments: Strings, variables: Strings) -> c_int;
    FEXECVE = fn fexecve(descriptor: c_int, arguments: Strings, variables: Strings) -> c_int;
    EXECVEAT = fn execveat(folder: c_int, path: Text, arguments: Strings, variables: Strings, flags: c_int) -> c_int;
    POSIX_SPAWN = fn posix_spawn(pid: *mut c_int, path: Text, actions: Opaque, attributes: Opaque,
        arguments: Strings, variables: Strings) -> c_int;
    POSIX_SPAWNP = fn posix_spawnp(pid: *mut c_int, file: Text, actions: Opaque, attributes: Opaque,
        arguments: Strings, variables: Strings) -> c_int;
}

/// Notes that the program is about to replace itself, and takes it back if it cannot.
unsafe fn replace(variables: Strings, exec: impl FnOnce(Strings) -> c_int) -> c_int {
    raw::ending(Ended::Exec);
    // SAFETY: `variables` is what the program passes to execve.
    let result = unsafe { environment::with_ours(variables, exec) };
    // SAFETY: this thread's errno, which tells the program why.
    let errno = unsafe { *libc::__errno_location() };
    raw::ending(Ended::Unknown);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: Text, arguments: Strings, variables: Strings) -> c_int {
    // SAFETY: passed on as it came, but for the variables added.
    unsafe {
        replace(variables, |variables| {
            EXECVE.get()(path, arguments, variables)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: Text, arguments: Strings) -> c_int {
    // SAFETY: exec(3) defines it so.
    unsafe { execve(path, arguments, environment::current()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: Text, arguments: Strings, variables: Strings) -> c_int {
    // SAFETY: passed on as it came, but for the variables added.
    unsafe {
        replace(variables, |variables| {
            EXECVPE.get()(file, arguments, variables)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: Text, arguments: Strings) -> c_int {
    // SAFETY: exec(3) defines it so.
    unsafe { execvpe(file, arguments, environment::current()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(descriptor: c_int, arguments: Strings, variables: Strings) -> c_int {
    // SAFETY: passed on as it came, but for the variables added.
    unsafe {
        replace(variables, |variables| {
            FEXECVE.get()(descriptor, arguments, variables)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn execveat(
    folder: c_int,
    path: Text,
    arguments: Strings,
    variables: Strings,
    flags: c_int,
) -> c_int {
    // SAFETY: passed on as it came, but for the variables added.
    unsafe {
        replace(variables, |variables| {
            EXECVEAT.get()(folder, path, arguments, variables, flags)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    pid: *mut c_int,
    path: Text,
    actions: Opaque,
    attributes: Opaque,
    arguments: Strings,
    variables: Strings,
) -> c_int {
    // SAFETY: passed on as it came, but for the variables added.
    unsafe {
        environment::with_ours(variables, |variables| {
            POSIX_SPAWN.get()(pid, path, actions, attributes, arguments, variables)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    pid: *mut c_int,
    file: Text,
    actions: Opaque,
    attributes: Opaque,
    arguments: Strings,
    variables: Strings,
) -> c_int {
    // SAFETY: passed on as it came, but for the variables added.
    unsafe {
        environment::with_ours(variables, |variables| {
            POSIX_SPAWNP.get()(pid, file, actions, attributes, arguments, variables)
        })
    }
}
