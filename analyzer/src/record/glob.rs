//! Patterns of program names: `*` for any characters, `?` for one.

/// Whether the whole of `name` fits `pattern`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where the last star stood, and how far it has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut star {
                Some((at, swallowed)) => {
                    *swallowed += 1;
                    (p, n) = (*at + 1, *swallowed);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        assert!(matches("openttd", "openttd"));
        assert!(!matches("openttd", "openttd2"));
        assert!(matches("open*", "openttd") && matches("*ttd*", "openttd"));
        assert!(matches("o?en*d", "openttd") && !matches("o?nttd", "openttd"));
        assert!(matches("*a*b", "xaxbxab") && !matches("*a*b", "xaxbxa"));
        assert!(matches("*", "") && !matches("?", ""));
    }
}
