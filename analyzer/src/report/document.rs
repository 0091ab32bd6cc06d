//! What a report consists of, before it has any looks.

use crate::Severity;

/// A report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Its parts, in order.
    pub blocks: Vec<Block>,
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The report's title.
    Title(String),
    /// The title of a section.
    Section(String),
    /// A sentence or two.
    Line(String),
    /// A finding: how bad, the sentence, the next command.
    Finding(Severity, String, String),
    /// Named figures.
    Facts(Vec<(String, String)>),
    /// Figures in columns.
    Table(Table),
    /// Lines that keep their indentation, such as a backtrace.
    Code(Vec<String>),
}

/// Where a column's texts stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Names.
    Left,
    /// Figures.
    Right,
}

/// Rows of equal length under a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Titles of the columns.
    pub header: Vec<(String, Align)>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Document {
    /// Adds a section's title.
    pub(crate) fn section(&mut self, title: &str) {
        self.blocks.push(Block::Section(title.to_owned()));
    }

    /// Adds a sentence.
    pub(crate) fn line(&mut self, line: impl Into<String>) {
        self.blocks.push(Block::Line(line.into()));
    }

    /// Adds named figures.
    pub(crate) fn facts<const N: usize>(&mut self, facts: [(&str, String); N]) {
        let facts = facts
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        self.blocks.push(Block::Facts(facts.collect()));
    }

    /// Adds a table, if it has rows.
    pub(crate) fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }
}

impl Table {
    /// A table whose columns are named like this; names that begin with `<` stand left.
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Table {
        let header = header
            .into_iter()
            .map(|title| match title.strip_prefix('<') {
                Some(title) => (title.to_owned(), Align::Left),
                None => (title.to_owned(), Align::Right),
            });
        Table {
            header: header.collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a column behind the others, with a cell for each row.
    pub(crate) fn column(&mut self, title: &str, cells: impl Iterator<Item = String>) {
        let title = title.strip_prefix('<').map_or_else(
            || (title.to_owned(), Align::Right),
            |left| (left.to_owned(), Align::Left),
        );
        self.header.push(title);
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.push(cell);
        }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, row: [String; N]) {
        debug_assert_eq!(N, self.header.len());
        self.rows.push(row.into_iter().collect());
    }
}
