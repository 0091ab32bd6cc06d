//! The document of a model that was tried with many values of its parameters.

use super::document::{Align, Block, Document, Table};
use crate::units::{bytes, count, percent, plural};
use crate::what_if::{ClassHeld, HeldBySize, Swept};
use std::collections::BTreeMap;

/// Size classes that are listed.
const CLASSES: usize = 6;
/// Combinations that are listed beside each other.
const COLUMNS: usize = 5;

/// All combinations of parameters that were tried.
pub fn sweep_document(swept: &Swept) -> Document {
    let mut document = Document::default();
    let title = format!(
        "{}: {} with {}",
        swept.trace,
        swept.model,
        plural(swept.rows.len() as u64, "combination")
    );
    document.blocks.push(Block::Title(title));
    let right = |title: &String| (title.clone(), Align::Right);
    let figures = [
        "best",
        "most held",
        "mean waste",
        "OS calls",
        "worst frame",
        "cleared",
        "failed",
    ];
    let figures = figures.map(|title| (title.to_owned(), Align::Right));
    let mut table = Table {
        header: swept.parameters.iter().map(right).chain(figures).collect(),
        rows: Vec::new(),
    };
    for row in &swept.rows {
        let figures = [
            if row.best { "*" } else { "" }.to_owned(),
            bytes(row.peak_held),
            percent(row.mean_waste),
            count(row.os_calls),
            count(row.worst_frame),
            bytes(row.zeroed),
            count(row.failures),
        ];
        table
            .rows
            .push(row.values.iter().cloned().chain(figures).collect());
    }
    document.table(table);
    document.line("*: none of the others holds less with as few system calls");
    deciding(&mut document, swept);
    for (values, cause) in &swept.refused {
        document.line(format!("left out: {}: {cause}", values.join(", ")));
    }
    document
}

/// What is held beyond requests at the peak by the best of the combinations.
struct Deciding<'a> {
    /// Each with the values of all combinations that hold just this.
    best: Vec<(Vec<String>, &'a HeldBySize)>,
    /// By the end of their class, what each of the best holds.
    classes: BTreeMap<u64, Vec<Option<ClassHeld>>>,
}

impl<'a> Deciding<'a> {
    fn of(swept: &'a Swept) -> Deciding<'a> {
        let mut best: Vec<(Vec<String>, &HeldBySize)> = Vec::new();
        for row in &swept.rows {
            let (values, Some(held)) = (row.values.join(", "), &row.at_peak) else {
                continue;
            };
            match best.iter_mut().find(|(_, known)| *known == held) {
                Some((all, _)) => all.push(values),
                None => best.push((vec![values], held)),
            }
        }
        let mut classes = BTreeMap::new();
        for (at, (_, held)) in best.iter().enumerate() {
            for class in &held.classes {
                let all = classes
                    .entry(class.to)
                    .or_insert_with(|| vec![None; best.len()]);
                all[at] = Some(*class);
            }
        }
        Deciding { best, classes }
    }

    /// Bytes that a class holds beyond requests, with each combination.
    fn excess(class: &[Option<ClassHeld>]) -> impl Iterator<Item = u64> {
        class.iter().map(|it| it.map_or(0, |it| it.excess()))
    }

    /// By how much a class tells combinations apart, then how much it holds.
    fn weight(class: &[Option<ClassHeld>]) -> (u64, u64) {
        let most = Self::excess(class).max().unwrap_or(0);
        let least = Self::excess(class).min().unwrap_or(0);
        (most - least, most)
    }

    /// Those that decide, the weightiest first.
    fn heaviest(&self) -> Vec<&[Option<ClassHeld>]> {
        let mut all: Vec<&[_]> = self.classes.values().map(Vec::as_slice).collect();
        all.retain(|class| Self::weight(class).1 > 0);
        all.sort_by_key(|class| std::cmp::Reverse(Self::weight(class)));
        all
    }
}

/// Names the size classes that make the best differ, or that hold most where there is one.
fn deciding(document: &mut Document, swept: &Swept) {
    let deciding = Deciding::of(swept);
    if deciding.best.is_empty() {
        return;
    }
    document.section("Size classes that decide");
    document.line(match deciding.best.len() {
        1 => "Bytes that the best combination holds at its peak beyond those asked for, by the size of the blocks they are held for.",
        _ => "Bytes that the best combinations hold at their peaks beyond those asked for, by the size of the blocks they are held for; sizes in which they differ most come first.",
    });
    let heaviest = deciding.heaviest();
    let columns = deciding.best.len().min(COLUMNS);
    let mut table = Table::new(["<blocks of"]);
    let (listed, others) = heaviest.split_at(heaviest.len().min(CLASSES));
    let name = |class: &[Option<ClassHeld>]| {
        let class = class.iter().flatten().next();
        class.map_or_else(String::new, |it| {
            format!("{}..{} B", count(it.from), count(it.to))
        })
    };
    table
        .rows
        .extend(listed.iter().map(|class| vec![name(class)]));
    table.row(["all other sizes".to_owned()]);
    table.row(["nothing: free and tables".to_owned()]);
    for (at, (values, held)) in deciding.best.iter().enumerate().take(columns) {
        let excess = |class: &&[Option<ClassHeld>]| class[at].map_or(0, |it| it.excess());
        let rest: u64 = others.iter().map(excess).sum();
        let cells = listed.iter().map(excess).chain([rest, held.idle]);
        table.column(&values.join(" or "), cells.map(bytes));
    }
    document.table(table);
    if columns < deciding.best.len() {
        let more = deciding.best.len() - columns;
        document.line(format!("and {more} more of the best; --json has them all"));
    }
}
