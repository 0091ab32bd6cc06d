//! Functions that end a game frame: those that show a picture, or that the user names.
//!
//! ```text
//! game ──▶ stub ──▶ SDL_RenderPresent ──▶ glXSwapBuffers' stub ──▶ glXSwapBuffers
//!            └─ after it: a frame mark        └─ within another one: none
//! ```
//!
//! Nothing is exported under these names: a game that looks whether SDL is there must not
//! find it in us. Instead the libraries that define them are changed in memory, so that
//! the loader and `dlsym` give the stub's address ([`image`]). What a library's own
//! look-up function gives (`glXGetProcAddress` …) is led through a stub as well.
//!
//! Libraries are looked at before the program's first instruction, and at a call of
//! `dlsym` where some have been loaded since: that is how a program comes to functions
//! that it was not linked with.
#![expect(unsafe_code, reason = "names of functions from the program")]

mod image;
mod stubs;

use crate::aside::{NextAddress, find_dlsym, looked_at, unknown};
use crate::environment;
use heapreel::raw::{self, FrameSource};
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// What a function that is led through a stub does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Shows a picture: after it a frame has ended.
    Shows,
    /// Gives the function whose name is this argument.
    Gives(usize),
}

/// A function that may be led through a stub.
struct Function {
    name: &'static CStr,
    does: Does,
}

const fn shows(name: &'static CStr) -> Function {
    let does = Does::Shows;
    Function { name, does }
}

const fn gives(name: &'static CStr, argument: usize) -> Function {
    let does = Does::Gives(argument);
    Function { name, does }
}

/// By the headers of SDL 1.2, 2 and 3, GLFW, GLX, EGL and Vulkan. `SDL_UpdateRects` is not
/// among them: games of SDL 1.2 show one picture by many calls of it.
const FUNCTIONS: &[Function] = &[
    shows(c"SDL_Flip"),
    shows(c"SDL_GL_SwapBuffers"),
    shows(c"SDL_RenderPresent"),
    shows(c"SDL_GL_SwapWindow"),
    shows(c"SDL_UpdateWindowSurface"),
    shows(c"SDL_UpdateWindowSurfaceRects"),
    shows(c"glfwSwapBuffers"),
    shows(c"glXSwapBuffers"),
    shows(c"glXSwapBuffersMscOML"),
    shows(c"eglSwapBuffers"),
    shows(c"eglSwapBuffersWithDamageEXT"),
    shows(c"eglSwapBuffersWithDamageKHR"),
    shows(c"vkQueuePresentKHR"),
    gives(c"SDL_GL_GetProcAddress", 0),
    gives(c"glXGetProcAddress", 0),
    gives(c"glXGetProcAddressARB", 0),
    gives(c"eglGetProcAddress", 0),
    gives(c"vkGetInstanceProcAddr", 1),
    gives(c"vkGetDeviceProcAddr", 1),
];

/// What the user asked for.
struct Wanted {
    /// Functions by name; with one of them, showing a picture ends no frame.
    asked: Vec<Box<[u8]>>,
    shows: bool,
}

impl Wanted {
    fn from_environment() -> Wanted {
        let names = environment::value("HEAPREEL_FRAME_SYMBOL");
        let names = names.split(|byte| *byte == b',');
        // Copies: a program may write over the strings that it was given.
        let asked: Vec<_> = names
            .filter(|name| !name.is_empty())
            .map(Box::from)
            .collect();
        let off = raw::is_off(environment::value("HEAPREEL_PRESENT_MARKS"));
        Wanted {
            shows: asked.is_empty() && !off,
            asked,
        }
    }
}

static WANTED: OnceLock<Wanted> = OnceLock::new();
/// How often the loader had loaded something when it was last looked at.
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Looks at the libraries of a program that is recorded from now on.
pub(crate) fn begin() {
    WANTED.get_or_init(Wanted::from_environment);
    look();
}

/// Leads the functions of libraries that have come since through stubs.
fn look() {
    if let Some(wanted) = WANTED.get()
        && (wanted.shows || !wanted.asked.is_empty())
        && raw::recording()
        && raw::can_protect()
    {
        image::for_new(&SEEN, |image| lead(image, wanted));
    }
}

fn lead(image: &image::Image, wanted: &Wanted) {
    if wanted.shows {
        for (number, function) in FUNCTIONS.iter().enumerate() {
            let stub = |real| stubs::around(number, real);
            image.replace(function.name.to_bytes(), stub);
        }
    }
    for (number, name) in wanted.asked.iter().enumerate() {
        let stub = |real| {
            let stub = stubs::before(number, real);
            // That it was found is told even where it is never called.
            loop_of(name, FrameSource::Symbol);
            stub
        };
        image.replace(name, stub);
    }
}

fn loop_of(name: &[u8], source: FrameSource) -> raw::LoopId {
    let name = std::str::from_utf8(name).unwrap_or("?");
    raw::loop_id(name, source, name)
}

/// A function was called that ends a frame by itself.
fn asked_was_called(number: usize) {
    if raw::recording()
        && let Some(name) = WANTED.get().and_then(|wanted| wanted.asked.get(number))
    {
        raw::frame_mark(loop_of(name, FrameSource::Symbol));
    }
}

/// A picture was shown, and no other call that shows one is still under way.
fn picture_was_shown(function: &Function) {
    if raw::recording() {
        raw::frame_mark(loop_of(function.name.to_bytes(), FrameSource::Present));
    }
}

/// What to give in place of `found`, which some look-up function found under this name.
fn in_place_of(found: *mut c_void, name: *const c_char) -> *mut c_void {
    if found.is_null() || name.is_null() {
        return found;
    }
    // SAFETY: the program has just passed it as the name of a function.
    let name = unsafe { CStr::from_ptr(name) };
    match FUNCTIONS.iter().position(|function| function.name == name) {
        Some(number) => stubs::around(number, found.addr()).map_or(found, |stub| stub as _),
        None => found,
    }
}

/// The next `dlsym`: whoever calls that must not be us, since it looks at its caller.
static DLSYM: NextAddress = unknown();

looked_at!(dlsym, DLSYM, before_dlsym, "jmp 3f");

extern "C" fn before_dlsym() {
    find_dlsym(&DLSYM);
    look();
}
