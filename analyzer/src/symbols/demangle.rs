//! Mangled names of Rust and C++, from strangers' files.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};
use std::fmt::{self, Write};

/// Longer names are cut. The longest in real games (expression templates) have a few KiB.
const MAX_LENGTH: usize = 16 << 10;

/// Nesting that real names reach; the demangler's own default of 96 is too low for some.
const MAX_NESTING: u32 = 256;

/// The name as its programmer wrote it; a name that is not mangled stays as it is.
///
/// Rust's legacy names lose their hash, copies that a compiler made of a function
/// (`.part.0`, `.constprop.1`, `.cold`) have that function's name.
/// The result has at most 16 KiB, longer ones end in "…"; it has no control
/// characters, so that it can be printed on a terminal.
pub fn demangle(name: &str) -> String {
    let name = printable(name);
    let name = without_copy_suffix(&name);
    if name.len() > MAX_LENGTH {
        return cut(name);
    }
    rust(name)
        .or_else(|| cpp(name))
        .unwrap_or_else(|| name.to_owned())
}

fn rust(name: &str) -> Option<String> {
    let symbol = rustc_demangle::try_demangle(name).ok()?;
    let mut out = Bounded::default();
    // `{:#}` leaves out the hash. An error means the bound was reached, or the name is
    // a bomb of back references; what was written until then is a good name.
    let _ = write!(out, "{symbol:#}");
    out.finish()
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") && !name.starts_with("__Z") && !name.starts_with("_GLOBAL_") {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(MAX_NESTING);
    let print = DemangleOptions::new().recursion_limit(MAX_NESTING);
    let symbol = Symbol::new_with_options(name.as_bytes(), &parse).ok()?;
    let mut out = Bounded::default();
    let result = symbol.structured_demangle(&mut out, &print);
    // Back references let a short name describe an endless one.
    if result.is_err() && !out.is_full {
        return None;
    }
    out.finish()
}

/// Text that stops growing.
#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl Bounded {
    fn finish(self) -> Option<String> {
        let text = if self.is_full {
            cut(&self.text)
        } else {
            self.text
        };
        (!text.is_empty()).then_some(text)
    }
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text);
        self.is_full |= self.text.len() > MAX_LENGTH;
        if self.is_full {
            Err(fmt::Error)
        } else {
            Ok(())
        }
    }
}

fn cut(text: &str) -> String {
    format!("{}…", &text[..text.floor_char_boundary(MAX_LENGTH)])
}

fn printable(name: &str) -> std::borrow::Cow<'_, str> {
    if name.chars().any(char::is_control) {
        name.replace(char::is_control, "\u{fffd}").into()
    } else {
        name.into()
    }
}

/// Cuts what compilers append to the names of copies and parts of a function.
fn without_copy_suffix(name: &str) -> &str {
    const SUFFIXES: [&str; 8] = [
        ".part.",
        ".constprop.",
        ".isra.",
        ".cold",
        ".lto_priv.",
        ".llvm.",
        ".localalias",
        ".warm",
    ];
    let at = SUFFIXES
        .iter()
        .filter_map(|suffix| name.find(suffix))
        .filter(|at| *at > 0)
        .min();
    at.map_or(name, |at| &name[..at])
}
