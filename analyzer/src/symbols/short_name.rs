//! Names for tables: a function without its arguments, templates and house number.

/// Types within types beyond this are no programmer's work.
const MAX_NESTING: usize = 24;

/// Shortens a demangled C++ or Rust name for a table.
///
/// Parameters, template and generic arguments, return types, and the modules of Rust's
/// own libraries go; names of the program's namespaces, modules and types stay:
///
/// ```
/// use heapreel_analyzer::symbols::short_name;
///
/// assert_eq!(short_name("TerrainTile::load(std::string const&)"), "TerrainTile::load");
/// assert_eq!(short_name("alloc::vec::Vec<T,A>::push"), "Vec::push");
/// assert_eq!(short_name("<game::Foo as game::Bar>::baz"), "<Foo as Bar>::baz");
/// assert_eq!(short_name("malloc"), "malloc");
/// ```
///
/// A name that it cannot take apart comes back as it is. Different functions may get
/// the same short name.
pub fn short_name(full: &str) -> String {
    path_of(full, 0)
        .filter(|segments| !segments.is_empty())
        .map_or_else(
            || full.to_owned(),
            |segments| without_library_modules(&segments).join("::"),
        )
}

/// The parts of a path, without what is dropped; `None` if brackets do not match.
fn path_of(text: &str, nesting: usize) -> Option<Vec<String>> {
    if nesting > MAX_NESTING {
        return None;
    }
    let mut path = Path::default();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '<' => path.angle(rest, nesting)?,
            '(' => path.paren(rest)?,
            '[' => &rest[group(rest)?..],
            '{' => path.brace(rest)?,
            ' ' => path.space(rest),
            ':' if rest.starts_with("::") => {
                path.end_segment();
                &rest[2..]
            }
            'o' if path.current.is_empty() && is_operator(rest) => path.operator(rest)?,
            _ => {
                path.current.push(first);
                &rest[first.len_utf8()..]
            }
        };
    }
    path.end_segment();
    Some(path.segments)
}

/// What has been read so far. Each method takes what is left and returns what is left
/// after it.
#[derive(Default)]
struct Path {
    segments: Vec<String>,
    current: String,
}

impl Path {
    fn end_segment(&mut self) {
        let segment = std::mem::take(&mut self.current);
        let follows_lambda = self
            .segments
            .last()
            .is_some_and(|last| last.starts_with("{lambda"));
        let is_noise = match segment.as_str() {
            // Inline namespaces of the C++ libraries, and Rust's unnamed constants.
            "" | "_" | "__cxx11" | "__1" => true,
            "operator()" => follows_lambda,
            _ => false,
        };
        if !is_noise {
            self.segments.push(segment);
        }
    }

    /// Template arguments, or Rust's `<Type as Trait>`.
    fn angle<'t>(&mut self, rest: &'t str, nesting: usize) -> Option<&'t str> {
        let end = group(rest)?;
        let inside = &rest[1..end - 1];
        let starts_path = self.current.is_empty() && self.segments.is_empty();
        if self.current.is_empty() && (starts_path || inside.starts_with("impl ")) {
            // `module::<impl Trait for Type>::function`: the module is where it was
            // written, the type is what a reader looks for.
            self.segments.clear();
            self.segments.push(implementation(inside, nesting)?);
        } else if self.current == "drop_in_place"
            || (self.current.is_empty()
                && self.segments.last().is_some_and(|s| s == "drop_in_place"))
        {
            // Here alone the argument is the point.
            let name = format!("drop_in_place<{}>", type_name(inside, nesting + 1)?);
            if self.current.is_empty() {
                self.segments.pop();
            }
            self.current = name;
        }
        Some(&rest[end..])
    }

    /// Parameters, with what may follow them.
    fn paren<'t>(&mut self, rest: &'t str) -> Option<&'t str> {
        let end = group(rest)?;
        let mut rest = &rest[end..];
        while let Some(after) = [" const", " volatile", " &&", " &", " noexcept"]
            .iter()
            .find_map(|q| rest.strip_prefix(q))
        {
            rest = after;
        }
        Some(rest)
    }

    /// `{lambda(int)#1}`, `{closure#0}`: kept, without parameters.
    fn brace<'t>(&mut self, rest: &'t str) -> Option<&'t str> {
        let end = group(rest)?;
        let mut inside = &rest[..end];
        while let Some(open) = inside[1..].find(['(', '<']).map(|at| at + 1) {
            self.current.push_str(&inside[..open]);
            inside = &inside[open + group(&inside[open..])?..];
        }
        self.current.push_str(inside);
        Some(&rest[end..])
    }

    /// What stands before a space is a return type, or "vtable for" and the like.
    fn space<'t>(&mut self, rest: &'t str) -> &'t str {
        let after = rest.trim_start();
        if !after.is_empty() && !after.starts_with('[') && !after.starts_with("requires ") {
            self.segments.clear();
            self.current.clear();
            return after;
        }
        ""
    }

    /// `operator<<`, `operator new[]`, `operator bool`.
    fn operator<'t>(&mut self, rest: &'t str) -> Option<&'t str> {
        const SYMBOLS: [&str; 46] = [
            "()",
            "[]",
            "<=>",
            "<<=",
            ">>=",
            "->*",
            "->",
            "<<",
            ">>",
            "<=",
            ">=",
            "==",
            "!=",
            "&&",
            "||",
            "++",
            "--",
            "+=",
            "-=",
            "*=",
            "/=",
            "%=",
            "^=",
            "&=",
            "|=",
            "+",
            "-",
            "*",
            "/",
            "%",
            "^",
            "&",
            "|",
            "~",
            "!",
            "=",
            "<",
            ">",
            ",",
            " new[]",
            " new",
            " delete[]",
            " delete",
            "\"\" ",
            "\"\"",
            " co_await",
        ];
        let after = &rest["operator".len()..];
        self.current.push_str("operator");
        let Some(symbol) = SYMBOLS.iter().find(|symbol| after.starts_with(**symbol)) else {
            // A conversion: its type up to the parameters.
            let end = after.find('(').unwrap_or(after.len());
            self.current.push_str(&after[..end]);
            return Some(&after[end..]);
        };
        self.current.push_str(symbol);
        let after = &after[symbol.len()..];
        // Templates of operators are printed as "operator<< <char>".
        Some(if after.starts_with(" <") {
            &after[1..]
        } else {
            after
        })
    }
}

fn is_operator(rest: &str) -> bool {
    let after = rest
        .strip_prefix("operator")
        .and_then(|after| after.chars().next());
    after.is_some_and(|next| !next.is_alphanumeric() && next != '_' && next != ':')
}

/// Length of the bracketed group that `text` begins with.
fn group(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut open = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => open.push(*byte),
            b'>' if at > 0 && bytes[at - 1] == b'-' => {} // "->"
            b'>' if open.last() == Some(&b'<') => drop(open.pop()),
            // "greater" in an expression, which stands in parentheses.
            b'>' => {}
            b')' | b']' | b'}' => {
                // "less" in an expression opened a bracket that nothing closes.
                while open.last() == Some(&b'<') {
                    open.pop();
                }
                open.pop()?;
            }
            _ => {}
        }
        if open.is_empty() {
            return Some(at + 1);
        }
    }
    None
}

/// The inside of Rust's `<…>` at the start of a path.
fn implementation(inside: &str, nesting: usize) -> Option<String> {
    let nesting = nesting + 1;
    if let Some(inside) = inside.strip_prefix("impl ") {
        return match split_top(inside, " for ") {
            Some((name, of)) => Some(qualified(
                &type_name(of, nesting)?,
                &type_name(name, nesting)?,
            )),
            None => type_name(inside, nesting),
        };
    }
    match split_top(inside, " as ") {
        Some((of, name)) => Some(qualified(
            &type_name(of, nesting)?,
            &type_name(name, nesting)?,
        )),
        None => type_name(inside, nesting),
    }
}

fn qualified(of: &str, name: &str) -> String {
    format!("<{of} as {name}>")
}

/// Splits at the first `separator` that is in no bracket.
fn split_top<'t>(text: &'t str, separator: &str) -> Option<(&'t str, &'t str)> {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if let Some(after) = rest.strip_prefix(separator) {
            return Some((&text[..at], after));
        }
        at += match rest.chars().next()? {
            '<' | '(' | '[' | '{' => group(rest)?,
            other => other.len_utf8(),
        };
    }
    None
}

/// A Rust type by its last name.
fn type_name(text: &str, nesting: usize) -> Option<String> {
    if nesting > MAX_NESTING {
        return None;
    }
    let text = text.trim();
    for prefix in ["&mut ", "*mut ", "*const ", "&"] {
        if let Some(of) = text.strip_prefix(prefix) {
            return Some(format!("{prefix}{}", type_name(of, nesting + 1)?));
        }
    }
    if let Some(of) = text.strip_prefix("dyn ") {
        let first = split_top(of, " + ").map_or(of, |(first, _)| first);
        return Some(format!("dyn {}", type_name(first, nesting + 1)?));
    }
    if let Some(inside) = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    {
        let (of, length) = split_top(inside, "; ").map_or((inside, None), |(of, n)| (of, Some(n)));
        let of = type_name(of, nesting + 1)?;
        return Some(
            length.map_or_else(|| format!("[{of}]"), |length| format!("[{of}; {length}]")),
        );
    }
    if text.starts_with("fn(") || text.starts_with("unsafe ") || text.starts_with("extern ") {
        return Some("fn".to_owned());
    }
    if text.starts_with('(') {
        return Some(if text == "()" { "()" } else { "(…)" }.to_owned());
    }
    let mut path = path_of(text, nesting + 1)?;
    let last = path.pop()?;
    // A closure says nothing without its function.
    match path.pop() {
        Some(function) if last.starts_with('{') => Some(format!("{function}::{last}")),
        _ => Some(last),
    }
}

/// `alloc::vec::Vec::push` is `Vec::push` to everybody; a program's own modules stay.
fn without_library_modules(path: &[String]) -> &[String] {
    let root = path[0].as_str();
    if !["alloc", "core", "std"].contains(&root) {
        return path;
    }
    let first_type = path
        .iter()
        .position(|segment| segment.starts_with(char::is_uppercase));
    match first_type {
        Some(at) => &path[at..],
        // `std` is C++ as well, whose types are in lower case.
        None if root == "std" => path,
        None => &path[path.len().saturating_sub(2)..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_short(cases: &[(&str, &str)]) {
        for (full, short) in cases {
            assert_eq!(short_name(full), *short, "of {full}");
        }
    }

    #[test]
    fn cpp() {
        assert_short(&[
            ("TerrainTile::load(std::string const&)", "TerrainTile::load"),
            ("main", "main"),
            (
                "engine::world::TerrainTile::load(int) const",
                "engine::world::TerrainTile::load",
            ),
            (
                "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int const&>(__gnu_cxx::__normal_iterator<int*, std::vector<int, std::allocator<int> > >, int const&)",
                "std::vector::_M_realloc_insert",
            ),
            (
                "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_create(unsigned long&, unsigned long)",
                "std::basic_string::_M_create",
            ),
            (
                "std::__1::basic_string<char>::append(char const*)",
                "std::basic_string::append",
            ),
            ("(anonymous namespace)::LoadAll(char const*)", "LoadAll"),
            (
                "game::(anonymous namespace)::Pool::grow()",
                "game::Pool::grow",
            ),
            ("operator new(unsigned long)", "operator new"),
            (
                "operator new[](unsigned long, std::align_val_t)",
                "operator new[]",
            ),
            ("operator delete(void*)", "operator delete"),
            (
                "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
                "std::operator<<",
            ),
            ("Vec3::operator-(Vec3 const&) const", "Vec3::operator-"),
            ("Vec3::operator->()", "Vec3::operator->"),
            ("Table::operator[](unsigned long)", "Table::operator[]"),
            (
                "bool operator< <int>(Pair<int> const&, Pair<int> const&)",
                "operator<",
            ),
            ("Handle::operator bool() const", "Handle::operator bool"),
            (
                "Path::operator std::string() const",
                "Path::operator std::string",
            ),
            ("operator\"\" _kib(unsigned long long)", "operator\"\" _kib"),
            (
                "Spawn(int)::{lambda(Entity&)#1}::operator()(Entity&) const",
                "Spawn::{lambda#1}",
            ),
            (
                "Level::enter()::{lambda()#2}::operator()() const::{lambda(int)#1}::operator()(int) const",
                "Level::enter::{lambda#2}::{lambda#1}",
            ),
            ("Callback::operator()(int) const", "Callback::operator()"),
            (
                "decltype(auto) std::visit<Draw, Shape&>(Draw&&, Shape&)",
                "std::visit",
            ),
            (
                "unsigned long hash<char const*>(char const* const&)",
                "hash",
            ),
            ("non-virtual thunk to Window::OnPaint()", "Window::OnPaint"),
            ("Array<(Kind)3, (1 > 0)>::resize(int)", "Array::resize"),
            ("Foo::bar[abi:cxx11](int)", "Foo::bar"),
            (
                "std::function<void (int)>::operator()(int) const",
                "std::function::operator()",
            ),
            ("Widget::~Widget()", "Widget::~Widget"),
            ("operatorium(int)", "operatorium"),
            ("Foo::run() &&", "Foo::run"),
            (
                "NewGRFSpriteLayout::Clone(DrawTileSprites const*) [clone .part.0]",
                "NewGRFSpriteLayout::Clone",
            ),
        ]);
    }

    #[test]
    fn rust() {
        assert_short(&[
            ("alloc::vec::Vec<T,A>::push", "Vec::push"),
            (
                "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
                "<Vec as Drop>::drop",
            ),
            ("<alloc::vec::Vec<u8>>::reserve::<u8>", "Vec::reserve"),
            ("<Foo as Bar>::baz", "<Foo as Bar>::baz"),
            (
                "<game::Foo<'_> as game::traits::Bar<u32>>::baz",
                "<Foo as Bar>::baz",
            ),
            ("skirmish::hits::spawn_label", "skirmish::hits::spawn_label"),
            (
                "skirmish::hits::spawn_label::{{closure}}",
                "skirmish::hits::spawn_label::{{closure}}",
            ),
            (
                "skirmish::hits::spawn_label::{closure#0}",
                "skirmish::hits::spawn_label::{closure#0}",
            ),
            (
                "core::ptr::drop_in_place<alloc::string::String>",
                "ptr::drop_in_place<String>",
            ),
            (
                "core::ptr::drop_in_place::<alloc::vec::Vec<game::Tile>>",
                "ptr::drop_in_place<Vec>",
            ),
            ("alloc::alloc::exchange_malloc", "alloc::exchange_malloc"),
            ("alloc::raw_vec::finish_grow", "raw_vec::finish_grow"),
            (
                "std::rt::lang_start::<()>::{closure#0}",
                "std::rt::lang_start::{closure#0}",
            ),
            (
                "core::ops::function::FnOnce::call_once{{vtable.shim}}",
                "FnOnce::call_once{{vtable.shim}}",
            ),
            (
                "alloc::str::<impl alloc::borrow::ToOwned for str>::to_owned",
                "<str as ToOwned>::to_owned",
            ),
            ("core::slice::<impl [T]>::sort_by", "[T]::sort_by"),
            (
                "game::_::<impl serde::ser::Serialize for game::Save>::serialize",
                "<Save as Serialize>::serialize",
            ),
            (
                "<&mut F as core::ops::FnOnce<(A, B)>>::call_once",
                "<&mut F as FnOnce>::call_once",
            ),
            (
                "<alloc::boxed::Box<dyn core::ops::FnMut() -> u8 + core::marker::Send> as core::ops::FnMut<()>>::call_mut",
                "<Box as FnMut>::call_mut",
            ),
            (
                "<dyn game::Component + core::marker::Send>::update",
                "dyn Component::update",
            ),
            (
                "<[u8; 4] as core::fmt::Debug>::fmt",
                "<[u8; 4] as Debug>::fmt",
            ),
            ("<fn(u8) -> u8 as game::Call>::call", "<fn as Call>::call"),
            ("<T as core::convert::Into<U>>::into", "<T as Into>::into"),
            ("<<game::A as game::B>::C as game::D>::e", "<C as D>::e"),
            (
                "<game::load::{closure#0} as core::ops::FnOnce<()>>::call_once",
                "<load::{closure#0} as FnOnce>::call_once",
            ),
            ("std::io::Write::write_fmt", "Write::write_fmt"),
        ]);
    }

    #[test]
    fn what_cannot_be_taken_apart_stays_whole() {
        for name in [
            "",
            "sub_1a2b30",
            "foo<int",
            "foo(",
            "<a as",
            ")",
            "::",
            "void (*table(int))(char)",
            "日本::語",
        ] {
            assert_eq!(short_name(name), name);
        }
        let deep = format!("{}x{}", "<&".repeat(2000), ">::f".repeat(2000));
        assert_eq!(short_name(&deep), deep);
    }
}
