//! The types in Rust's `<Type as Trait>`, by their last names.

use super::{MAX_NESTING, group, path_of};

/// The inside of Rust's `<…>` at the start of a path.
pub(super) fn implementation(inside: &str, nesting: usize) -> Option<String> {
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
pub(super) fn type_name(text: &str, nesting: usize) -> Option<String> {
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
