//! Programs that replace themselves or start others.
//!
//! `execl`, `execlp` and `execle` take any number of arguments and cannot be passed
//! on; `system` and `popen` start a shell from inside the C library. Their children
//! have what the program's environment says, which is ours unless it was cleared.
#![expect(unsafe_code, reason = "passes arguments on to the C library")]

use crate::environment::{self, Strings};
use crate::next::Next;
use heapreel::raw::{self, Ended};
use std::ffi::{CStr, c_char, c_int, c_void};

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
                    const NAME: &CStr = match CStr::from_bytes_with_nul(
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

/// Whether a file may be run. The program's errno stays.
unsafe fn is_program(path: Text) -> bool {
    // SAFETY: `path` is what the program passes to execve; this thread's errno.
    unsafe {
        let errno = *libc::__errno_location();
        let found = libc::access(path, libc::X_OK) == 0;
        *libc::__errno_location() = errno;
        found
    }
}

/// Whether a program of this name is in one of the folders of `PATH` (exec(3)).
unsafe fn is_found(file: Text) -> bool {
    const USUAL_PATH: &[u8] = b"/bin:/usr/bin";
    // SAFETY: `file` is what the program passes to execvp.
    let name = unsafe { CStr::from_ptr(file) }.to_bytes_with_nul();
    if name.contains(&b'/') {
        // SAFETY: as above.
        return unsafe { is_program(file) };
    }
    let folders = match environment::value("PATH") {
        b"" => USUAL_PATH,
        folders => folders,
    };
    folders.split(|byte| *byte == b':').any(|folder| {
        let mut path = [0u8; libc::PATH_MAX as usize];
        let parts = folder.iter().chain(b"/").chain(name);
        for (place, byte) in path.iter_mut().zip(parts) {
            *place = *byte;
        }
        // SAFETY: a C string, unless it was too long and lost its 0.
        path.ends_with(&[0]) && unsafe { is_program(path.as_ptr().cast()) }
    })
}

/// Notes that the program is about to replace itself, and takes it back if it cannot.
/// Where nobody else would finish the trace it is finished now, unless the program to
/// be run is not there: programs try one folder after the other.
unsafe fn replace(
    variables: Strings,
    is_there: impl FnOnce() -> bool,
    exec: impl FnOnce(Strings) -> c_int,
) -> c_int {
    if raw::drains_itself() && raw::recording() && is_there() {
        raw::stop(Ended::Exec);
    } else {
        raw::ending(Ended::Exec);
    }
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
        replace(
            variables,
            || is_program(path),
            |variables| EXECVE.get()(path, arguments, variables),
        )
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
        replace(
            variables,
            || is_found(file),
            |variables| EXECVPE.get()(file, arguments, variables),
        )
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
        replace(
            variables,
            || false,
            |variables| FEXECVE.get()(descriptor, arguments, variables),
        )
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
        replace(
            variables,
            || false,
            |variables| EXECVEAT.get()(folder, path, arguments, variables, flags),
        )
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
