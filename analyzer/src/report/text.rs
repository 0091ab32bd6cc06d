//! A document as text for a terminal or a log.

use super::document::{Align, Block, Document, Table};
use crate::Severity;
use std::fmt::Write;

/// Lines are at most this wide, but for a table's names and commands.
const WIDTH: usize = 100;
/// Names in tables are cut in their middle beyond this.
const NAME_WIDTH: usize = 52;

/// Writes a document as text, with colours if `colour`.
pub fn text(document: &Document, colour: bool) -> String {
    let paint = Paint { colour };
    let mut out = String::new();
    for block in &document.blocks {
        paint.block(block, &mut out);
    }
    out
}

struct Paint {
    colour: bool,
}

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const CYAN: &str = "36";

impl Paint {
    fn block(&self, block: &Block, out: &mut String) {
        match block {
            Block::Title(title) => self.line(out, &self.paint(BOLD, title)),
            Block::Section(title) => {
                out.push('\n');
                self.line(out, &self.paint(BOLD, title));
            }
            Block::Line(line) => self.wrapped(out, line, "  "),
            Block::Finding(severity, sentence, command) => {
                self.finding(out, *severity, sentence, command)
            }
            Block::Facts(facts) => self.facts(out, facts),
            Block::Table(table) => self.table(out, table),
            Block::Code(lines) => lines
                .iter()
                .for_each(|line| self.line(out, &format!("    {line}"))),
        }
    }

    fn finding(&self, out: &mut String, severity: Severity, sentence: &str, command: &str) {
        let (sign, style) = match severity {
            Severity::Error => ("!!", RED),
            Severity::Warning => (" !", YELLOW),
            Severity::Note => (" i", CYAN),
        };
        let mut lines = wrap(sentence, WIDTH - 4).into_iter();
        let first = lines.next().unwrap_or_default();
        self.line(out, &format!("{} {first}", self.paint(style, sign)));
        lines.for_each(|line| self.line(out, &format!("   {line}")));
        if !command.is_empty() {
            self.line(
                out,
                &format!("   {}", self.paint(DIM, &format!("→ {command}"))),
            );
        }
    }

    fn facts(&self, out: &mut String, facts: &[(String, String)]) {
        let width = facts
            .iter()
            .map(|(name, _)| width_of(name))
            .max()
            .unwrap_or(0);
        for (name, value) in facts {
            let gap = " ".repeat(width - width_of(name));
            let mut lines = wrap(value, WIDTH - width - 4).into_iter();
            let first = lines.next().unwrap_or_default();
            self.line(out, &format!("  {}{gap}  {first}", self.paint(DIM, name)));
            lines.for_each(|line| self.line(out, &format!("  {}  {line}", " ".repeat(width))));
        }
    }

    fn table(&self, out: &mut String, table: &Table) {
        let rows: Vec<Vec<String>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| shortened(cell)).collect())
            .collect();
        let widths: Vec<usize> = (0..table.header.len())
            .map(|column| {
                let cells = rows
                    .iter()
                    .filter_map(|row| row.get(column))
                    .map(|cell| width_of(cell));
                cells
                    .max()
                    .unwrap_or(0)
                    .max(width_of(&table.header[column].0))
            })
            .collect();
        let line = |cells: &mut dyn Iterator<Item = &String>| {
            let mut line = String::from(" ");
            for ((cell, width), (_, align)) in cells.zip(&widths).zip(&table.header) {
                let gap = " ".repeat(width - width_of(cell).min(*width));
                _ = match align {
                    Align::Left => write!(line, " {cell}{gap} "),
                    Align::Right => write!(line, " {gap}{cell} "),
                };
            }
            line.trim_end().to_owned()
        };
        let header = line(&mut table.header.iter().map(|(title, _)| title));
        self.line(out, &self.paint(DIM, &header));
        rows.iter()
            .for_each(|row| self.line(out, &line(&mut row.iter())));
    }

    fn wrapped(&self, out: &mut String, line: &str, indent: &str) {
        wrap(line, WIDTH - indent.len())
            .into_iter()
            .for_each(|line| self.line(out, &format!("{indent}{line}")));
    }

    fn line(&self, out: &mut String, line: &str) {
        out.push_str(line);
        out.push('\n');
    }

    fn paint(&self, style: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{style}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

fn width_of(text: &str) -> usize {
    text.chars().count()
}

/// A name that is too long loses its middle: both ends tell the most.
pub(crate) fn shortened(name: &str) -> String {
    let count = width_of(name);
    if count <= NAME_WIDTH {
        return name.to_owned();
    }
    let head: String = name.chars().take(NAME_WIDTH / 2 - 1).collect();
    let tail: String = name.chars().skip(count - NAME_WIDTH / 2).collect();
    format!("{head}…{tail}")
}

/// Breaks a line at spaces.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let length = width_of(word);
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.last_mut().expect("never empty");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_right_and_names_left() {
        let mut table = Table::new(["<name", "count"]);
        table.row(["a".to_owned(), "1".to_owned()]);
        table.row(["longer".to_owned(), "1,000".to_owned()]);
        let document = Document {
            blocks: vec![Block::Table(table)],
        };
        assert_eq!(
            text(&document, false),
            "  name    count\n  a           1\n  longer  1,000\n"
        );
    }

    #[test]
    fn colour_is_only_where_it_is_asked_for() {
        let document = Document {
            blocks: vec![Block::Finding(Severity::Error, "bad".into(), "do".into())],
        };
        assert_eq!(text(&document, false), "!! bad\n   → do\n");
        assert_eq!(
            text(&document, true),
            "\x1b[1;31m!!\x1b[0m bad\n   \x1b[2m→ do\x1b[0m\n"
        );
    }

    #[test]
    fn long_names_keep_both_ends() {
        let name = format!("begin{}end", "x".repeat(100));
        let short = shortened(&name);
        assert_eq!(width_of(&short), NAME_WIDTH);
        assert!(short.starts_with("begin") && short.ends_with("end"));
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 3), ["unbreakable"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
