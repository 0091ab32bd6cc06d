//! What many clips have in common: groups by the call site to blame.

use super::document::{Document, Table};
use crate::units::{nanos, plural};
use crate::{Analysis, LoopAnalysis, Verdict};
use heapreel_format::{ClipCause, ClipDef};
use serde::Serialize;

/// Clips with the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClipGroup {
    /// The call site's name, or what else the clips have in common.
    pub blamed: String,
    /// Its source file and line, where known.
    pub place: Option<String>,
    /// How many clips.
    pub clips: u64,
    /// The longest of their frames over budget; 0 where there is none.
    pub longest_nanos: u64,
    /// Their files, in the order given.
    pub files: Vec<String>,
}

/// The group, of itself alone, of the clip that `analysis` read with its last frame as the
/// only one asked for.
pub fn clip_group(
    analysis: &Analysis,
    game_loop: Option<&LoopAnalysis>,
    clip: &ClipDef,
) -> ClipGroup {
    let spike = game_loop.and_then(|it| it.spikes.worst.first());
    let (blamed, place) = match (clip.cause, spike) {
        (ClipCause::Signal, _) => ("(asked for by a signal)".to_owned(), None),
        (ClipCause::Call, _) => (format!("(asked for by the game: {})", clip.name), None),
        (ClipCause::Crash, _) => (format!("(the program ended: {})", clip.name), None),
        (ClipCause::Budget, Some(spike)) => match (spike.verdict, spike.sites.first()) {
            (Verdict::Explained | Verdict::Partly, Some(site)) => {
                let site = &analysis.sites[site.site as usize];
                (site.name.clone(), site.place.clone())
            }
            (Verdict::CannotTell, _) => ("(cannot be told)".to_owned(), None),
            _ => ("(allocation does not explain)".to_owned(), None),
        },
        (ClipCause::Budget, None) => ("(cannot be told)".to_owned(), None),
    };
    let over = spike.filter(|_| clip.cause == ClipCause::Budget);
    ClipGroup {
        blamed,
        place,
        clips: 1,
        longest_nanos: over.map_or(0, |spike| spike.duration_nanos),
        files: vec![analysis.trace.file.clone()],
    }
}

/// Joins groups of the same cause; the largest come first.
pub fn joined(clips: impl IntoIterator<Item = ClipGroup>) -> Vec<ClipGroup> {
    let mut groups: Vec<ClipGroup> = Vec::new();
    for clip in clips {
        let same = |it: &&mut ClipGroup| it.blamed == clip.blamed && it.place == clip.place;
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.clips += clip.clips;
                group.longest_nanos = group.longest_nanos.max(clip.longest_nanos);
                group.files.extend(clip.files);
            }
            None => groups.push(clip),
        }
    }
    // Stable: of equals the one met first stays first.
    groups.sort_by_key(|group| std::cmp::Reverse(group.clips));
    groups
}

/// The groups as a table.
pub fn trend_document(groups: &[ClipGroup]) -> Document {
    let mut document = Document::default();
    let clips = groups.iter().map(|group| group.clips).sum();
    document.section("Clips by what is to blame");
    if groups.is_empty() {
        document.line("There are no clips.");
        return document;
    }
    document.line(format!(
        "{} in {}.",
        plural(clips, "clip"),
        plural(groups.len() as u64, "group")
    ));
    let mut table = Table::new(["blamed", "clips", "longest frame", "place", "newest"]);
    for group in groups {
        let longest = match group.longest_nanos {
            0 => "-".to_owned(),
            longest => nanos(longest),
        };
        let place = group.place.as_deref().unwrap_or("-");
        let newest = group.files.last().map_or("-", String::as_str);
        table.row([
            group.blamed.clone(),
            group.clips.to_string(),
            longest,
            place.to_owned(),
            newest.to_owned(),
        ]);
    }
    document.table(table);
    document
}
