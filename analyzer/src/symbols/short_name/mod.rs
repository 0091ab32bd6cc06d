//! Names for tables: a function without its arguments, templates and house number.

mod rust_type;
#[cfg(test)]
mod tests;

use rust_type::{implementation, type_name};

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
