//! Patterns for names: `*` is any text, `?` any one character, all else is itself.

/// Whether the whole of `text` is as the pattern says.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<_>, Vec<_>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last star does not match: one further.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == '?' || c == text[t] => (p, t) = (p + 1, t + 1),
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text) in [
            ("level:*", "level:forest"),
            ("*Particle*", "fx::ParticleSystem::spawn"),
            ("worker ?", "worker 3"),
            ("*a*b", "xaxbxab"),
            ("", ""),
            ("*", ""),
            ("Temp", "Temp"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("Temp", "Temporary"),
            ("*ab", "abc"),
            ("?", ""),
            ("a*b*c", "acb"),
            ("x", "X"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }
}
