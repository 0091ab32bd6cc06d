//! What memory is for: contexts as a game enters, leaves and carries them.

use crate::context_table::MAX_TEXT_BYTES;
use crate::text::Text;
use crate::told::{self, NOT_ENTERED, tell};
use std::fmt;
use std::marker::PhantomData;

/// Enters a context until the value is dropped: what this thread allocates meanwhile is
/// *for* that, whatever function asks for it.
///
/// The kind is `"asset"`, `"level"`, `"entity"`, `"system"`, `"user"`, or a word of the
/// game's own. The name is a string, or a format with its arguments as `format!` takes
/// them. Contexts nest. Kind and name together, within the context around, are what is
/// counted as one; each time it is entered is an *instance* of it.
///
/// ```
/// # let (path, number) = (String::from("rock_07.mesh"), 7);
/// let _level = heapreel::context!("level", "forest");
/// {
///     let _asset = heapreel::context!("asset", path);
///     // load it: its memory is for "level:forest / asset:rock_07.mesh"
/// }
/// let _wave = heapreel::context!("system", "wave {number}");
/// ```
///
/// Recording, about 20 ns to enter and leave, without a lock, where this thread has met the
/// context lately. Not recording, a load and a branch: kind, name and arguments are not
/// evaluated, so nothing is formatted.
///
/// A name is cut after 512 bytes. A recording holds 65,536 contexts; what is done in those
/// that come after counts for the context around, and `heapreel info` tells how often.
#[macro_export]
macro_rules! context {
    ($kind:expr, $format:literal $($argument:tt)*) => {
        if $crate::is_recording() {
            $crate::ContextScope::formatted(
                ::core::convert::AsRef::<str>::as_ref(&$kind),
                ::core::format_args!($format $($argument)*),
            )
        } else {
            $crate::ContextScope::none()
        }
    };
    ($kind:expr, $name:expr $(,)?) => {
        if $crate::is_recording() {
            $crate::ContextScope::named(
                ::core::convert::AsRef::<str>::as_ref(&$kind),
                ::core::convert::AsRef::<str>::as_ref(&$name),
            )
        } else {
            $crate::ContextScope::none()
        }
    };
}

/// A context that was entered, to be carried to another thread or a later job.
///
/// It stays valid when its scope has ended, until the program does. In a forked child,
/// which has a recording of its own, it is outside of any context.
///
/// ```
/// let _level = heapreel::context!("level", "forest");
/// let context = heapreel::Context::current();
/// let job = std::thread::spawn(move || {
///     let _here = context.enter(); // this thread works for the forest, too
/// });
/// # job.join().unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Context(u64);

impl Context {
    /// Outside of any context.
    pub const NONE: Context = Context(0);

    /// The context of this thread; [`Context::NONE`] while nothing is recorded.
    #[inline]
    pub fn current() -> Context {
        if told::recording() {
            Context(tell(told::CONTEXT_CURRENT, "", 0))
        } else {
            Context::NONE
        }
    }

    /// Makes it this thread's context until the value is dropped, in place of the one that
    /// is. That is no instance more: its work goes on elsewhere.
    #[inline]
    #[must_use = "the context is left when this value is dropped"]
    pub fn enter(self) -> ContextScope {
        if !told::recording() {
            return ContextScope::none();
        }
        ContextScope::of(told::resume_context(self.0))
    }
}

/// See [`context!`](crate::context!) and [`Context::enter`].
#[derive(Debug)]
#[must_use = "the context is left when this value is dropped"]
pub struct ContextScope {
    /// What to go back to, as the recorder told it.
    before: u64,
    on_this_thread: PhantomData<*const ()>,
}

impl ContextScope {
    #[inline(always)]
    fn of(before: u64) -> ContextScope {
        ContextScope {
            before,
            on_this_thread: PhantomData,
        }
    }

    /// For [`context!`](crate::context!): nothing is recorded.
    #[doc(hidden)]
    #[inline(always)]
    pub fn none() -> ContextScope {
        ContextScope::of(NOT_ENTERED)
    }

    /// For [`context!`](crate::context!).
    #[doc(hidden)]
    #[inline]
    pub fn named(kind: &str, name: &str) -> ContextScope {
        ContextScope::of(told::enter_context(kind, name))
    }

    /// For [`context!`](crate::context!).
    #[doc(hidden)]
    #[inline]
    pub fn formatted(kind: &str, name: fmt::Arguments<'_>) -> ContextScope {
        match name.as_str() {
            Some(name) => ContextScope::named(kind, name),
            None => put_together(kind, name),
        }
    }
}

#[inline(never)]
fn put_together(kind: &str, name: fmt::Arguments<'_>) -> ContextScope {
    let mut text = Text::<MAX_TEXT_BYTES>::new();
    // Fails where the name is cut, or where what it is made of fails: then up to there.
    _ = fmt::write(&mut text, name);
    ContextScope::named(kind, text.as_str())
}

impl Drop for ContextScope {
    #[inline]
    fn drop(&mut self) {
        if self.before != NOT_ENTERED {
            told::resume_context(self.before);
        }
    }
}
