//! Mangled names of Rust and C++, from strangers' files.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};
use std::fmt::{self, Write};

/// Longer names are cut. The longest in real games (expression templates) have a few KiB.
const MAX_LENGTH: usize = 16 << 10;

/// Nesting that real names reach; the demangler's own default of 96 is too low for some.
const MAX_NESTING: u32 = 256;

/// How many ends of a name are tried; the right one is among the last.
const MAX_ATTEMPTS: usize = 64;

/// The name as its programmer wrote it; a name that is not mangled stays as it is.
///
/// Rust's legacy names lose their hash, copies that a compiler made of a function
/// (`.part.0`, `.constprop.1`, `.cold`) have that function's name.
/// The result has at most 16 KiB, longer ones end in "…"; it has no control
/// characters, so that it can be printed on a terminal.
pub fn demangle(name: &str) -> String {
    let name = printable(name);
    let name = without_copy_suffix(&name);
    // How glibc calls its own functions from within.
    let name = name
        .strip_prefix("__GI_")
        .filter(|name| !name.is_empty())
        .unwrap_or(name);
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
    thunk(name)
        .or_else(|| itanium(name, DemangleOptions::new()))
        .or_else(|| without_types(name))
}

/// Small pieces of code before a virtual function that adjust `this`, named as all other
/// tools name them.
fn thunk(name: &str) -> Option<String> {
    let offset = |text: &str| text.find('_').map(|end| end + 1);
    let (kind, target) = if let Some(rest) = name.strip_prefix("_ZTh") {
        ("non-virtual thunk to", rest.get(offset(rest)?..)?)
    } else {
        let rest = name.strip_prefix("_ZTv")?;
        let rest = rest.get(offset(rest)?..)?;
        ("virtual thunk to", rest.get(offset(rest)?..)?)
    };
    let target = itanium(&format!("_Z{target}"), DemangleOptions::new())?;
    Some(format!("{kind} {target}"))
}

fn itanium(name: &str, print: DemangleOptions) -> Option<String> {
    let parse = ParseOptions::default().recursion_limit(MAX_NESTING);
    let print = print.recursion_limit(MAX_NESTING);
    let symbol = Symbol::new_with_options(name.as_bytes(), &parse).ok()?;
    let mut out = Bounded::default();
    let result = symbol.structured_demangle(&mut out, &print);
    // Back references let a short name describe an endless one.
    if result.is_err() && !out.is_full {
        return None;
    }
    out.finish()
}

/// The name alone, of a function whose types the demangler does not understand: it
/// fails at some expressions that `std::enable_if` brings into types (`std::swap`).
///
/// The types follow the name, and what precedes them ends in `E`; so the longest such
/// beginning that is a name is followed by two types that it does understand.
fn without_types(name: &str) -> Option<String> {
    let print = DemangleOptions::new().no_params().no_return_type();
    let ends = name.match_indices('E').rev().take(MAX_ATTEMPTS);
    ends.map(|(at, _)| format!("{}vv", &name[..=at]))
        .find_map(|name| itanium(&name, print))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_names(cases: &[(&str, &str)]) {
        for (mangled, name) in cases {
            assert_eq!(demangle(mangled), *name, "of {mangled}");
        }
    }

    #[test]
    fn rust_legacy() {
        assert_names(&[
            (
                "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE",
                "core::ptr::drop_in_place<alloc::string::String>",
            ),
            (
                "_ZN5alloc3vec16Vec$LT$T$C$A$GT$4push17h0123456789abcdefE",
                "alloc::vec::Vec<T,A>::push",
            ),
            (
                "_ZN4game4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
                "game::main::{{closure}}",
            ),
            (
                "_ZN49_$LT$game..Foo$u20$as$u20$game..Bar$LT$u8$GT$$GT$3baz17h0123456789abcdefE",
                "<game::Foo as game::Bar<u8>>::baz",
            ),
            (
                "_ZN4game4load17h0123456789abcdefE.llvm.123456",
                "game::load",
            ),
        ]);
    }

    #[test]
    fn rust_v0() {
        assert_names(&[
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar"),
            (
                "_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_",
                "mycrate::main::{closure#0}",
            ),
            ("_RINvNtC3std3mem8align_ofhE", "std::mem::align_of::<u8>"),
            (
                "_RNvYINtC7mycrate3FoomENtB5_3Bar3baz",
                "<mycrate::Foo<u32> as mycrate::Bar>::baz",
            ),
            ("_RNvCs1234_7mycrate3foo.llvm.99", "mycrate::foo"),
        ]);
    }

    #[test]
    fn cpp_names() {
        assert_names(&[
            (
                "_ZN11TerrainTile4loadERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
                "TerrainTile::load(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)",
            ),
            ("_Znwm", "operator new(unsigned long)"),
            (
                "_ZdaPvSt11align_val_t",
                "operator delete[](void*, std::align_val_t)",
            ),
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi",
                "std::vector<int, std::allocator<int> >::push_back(int&&)",
            ),
            ("_ZN12_GLOBAL__N_14loadEv", "(anonymous namespace)::load()"),
            (
                "_ZZ4mainENKUliE_clEi",
                "main::{lambda(int)#1}::operator()(int) const",
            ),
            (
                "_ZThn16_N6Window7OnPaintEv",
                "non-virtual thunk to Window::OnPaint()",
            ),
            (
                "_ZTv0_n24_N6Window7OnPaintEv",
                "virtual thunk to Window::OnPaint()",
            ),
            ("_ZN3foo3barEv.part.0", "foo::bar()"),
            ("_ZN3foo3barEv.constprop.1.cold", "foo::bar()"),
            (
                "_ZNKSt8functionIFvvEEclEv",
                "std::function<void ()>::operator()() const",
            ),
            ("_ZlsRSoRK4Vec3", "operator<<(std::ostream&, Vec3 const&)"),
        ]);
    }

    #[test]
    fn a_name_remains_where_its_types_are_not_understood() {
        let swap = "_ZSt4swapI6T11_22ENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS5_ESt18is_move_assignableIS5_EEE5valueEvE4typeERS5_SF_";
        assert_names(&[(swap, "std::swap<T11_22>")]);
    }

    #[test]
    fn c_and_what_only_looks_mangled() {
        assert_names(&[
            ("malloc", "malloc"),
            ("__GI___libc_malloc", "__libc_malloc"),
            ("R_Init", "R_Init"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
            ("_R", "_R"),
            ("_Zebra", "_Zebra"),
            ("P_SpawnMobj.part.0", "P_SpawnMobj"),
            ("Z_Malloc.cold", "Z_Malloc"),
            (".cold", ".cold"),
            ("sub_1a2b30", "sub_1a2b30"),
            ("", ""),
            ("日本", "日本"),
            ("red\u{1b}[31m\nalert", "red\u{fffd}[31m\u{fffd}alert"),
        ]);
    }

    #[test]
    fn hostile_names_stay_small_and_end() {
        let text = |name: &str| {
            let name = demangle(name);
            assert!(name.len() <= MAX_LENGTH + '…'.len_utf8());
            name
        };
        assert!(text(&"a".repeat(1 << 20)).ends_with('…'));
        assert!(text(&"é".repeat(1 << 20)).ends_with('…'));
        text(&format!("_Z1f{}i", "P".repeat(10_000)));
        text(&format!("_RNvC1a{}", "N".repeat(10_000)));
        text(&format!("_ZN{}", "1aE".repeat(5_000)));
        // Each substitution names the one before it twice: 2^40 characters.
        let doubling: String = (0..40).map(|n| format!("1aIS{n}_S{n}_E")).collect();
        text(&format!("_Z1fI1bE{doubling}"));
        let pairs = "_Z1fP1bM1bS_MS0_S1_MS1_S2_MS2_S3_MS3_S4_MS4_S5_MS5_S6_MS6_S7_MS7_S8_MS8_S9_MS9_SA_MSA_SB_MSB_SC_MSC_SD_MSD_SE_MSE_SF_";
        text(pairs);
    }
}
