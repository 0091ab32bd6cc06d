//! A document as Markdown, for a job's summary or a ticket.

use super::document::{Align, Block, Document, Table};
use crate::Severity;
use std::fmt::Write;

/// Writes a document as GitHub's Markdown.
pub fn markdown(document: &Document) -> String {
    let mut out = String::new();
    for block in &document.blocks {
        write_block(block, &mut out);
    }
    out
}

fn write_block(block: &Block, out: &mut String) {
    _ = match block {
        Block::Title(title) => writeln!(out, "# {}\n", escaped(title)),
        Block::Section(title) => writeln!(out, "\n## {}\n", escaped(title)),
        Block::Line(line) => writeln!(out, "{}\n", escaped(line)),
        Block::Finding(severity, sentence, command) => finding(out, *severity, sentence, command),
        Block::Facts(facts) => {
            facts.iter().for_each(|(name, value)| {
                _ = writeln!(out, "- {}: {}", escaped(name), escaped(value))
            });
            writeln!(out)
        }
        Block::Table(table) => write_table(table, out),
        Block::Code(lines) => writeln!(
            out,
            "```text\n{}\n```\n",
            lines.join("\n").replace("```", "'''")
        ),
    };
}

fn finding(
    out: &mut String,
    severity: Severity,
    sentence: &str,
    command: &str,
) -> std::fmt::Result {
    let word = match severity {
        Severity::Error => "**error**",
        Severity::Warning => "**warning**",
        Severity::Note => "note",
    };
    let command = if command.is_empty() {
        String::new()
    } else {
        format!(" (`{command}`)")
    };
    writeln!(out, "- {word}: {}{command}", escaped(sentence))
}

fn write_table(table: &Table, out: &mut String) -> std::fmt::Result {
    let titles: Vec<_> = table
        .header
        .iter()
        .map(|(title, _)| escaped(title))
        .collect();
    let rules: Vec<_> = table
        .header
        .iter()
        .map(|(_, align)| if *align == Align::Left { ":--" } else { "--:" })
        .collect();
    writeln!(out, "| {} |\n| {} |", titles.join(" | "), rules.join(" | "))?;
    for row in &table.rows {
        let cells: Vec<_> = row.iter().map(|cell| escaped(cell)).collect();
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    writeln!(out)
}

/// Names from a program must not become markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\`*_<>|#[]".contains(character) {
            escaped.push('\\');
        }
        escaped.push(if character == '\n' { ' ' } else { character });
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_become_markup() {
        let mut table = Table::new(["<name", "n"]);
        table.row(["operator|<T>".to_owned(), "1".to_owned()]);
        let document = Document {
            blocks: vec![Block::Table(table)],
        };
        assert_eq!(
            markdown(&document),
            "| name | n |\n| :-- | --: |\n| operator\\|\\<T\\> | 1 |\n\n"
        );
    }
}
