//! How scattered a model's memory is: at a moment, over frames, over several traces.

use super::document::{Block, Document, Table};
use crate::fragmentation::terminal::{Ink, key, row, sign};
use crate::fragmentation::{Capacity, ColourBy, Figures, Measure, Picture, RegionMap, Rgb, Series};
use crate::units::{bytes, count, nanos, percent, plural};

/// Regions drawn where not all are asked for; the largest users stay.
const REGIONS: usize = 24;

/// A moment: figures, map, measures.
pub fn frag_document(picture: &Picture, ink: Ink, all: bool) -> Document {
    let mut document = Document::default();
    document
        .blocks
        .push(Block::Title(format!("heapreel frag of {}", picture.trace)));
    document.line(format!(
        "Model {}, frame {}, {} after the recording began.",
        picture.model,
        picture.frame,
        nanos(picture.nanos)
    ));
    if picture.counters.blocks == 0 {
        document.line(
            "No block is live at this moment: choose another one with --frame or --at, or look \
             at --every 60 for all.",
        );
    }
    failures(&mut document, picture);
    figures(&mut document, picture);
    map(&mut document, picture, ink, all);
    measures(&mut document, picture);
    pinned(&mut document, picture);
    document
}

fn failures(document: &mut Document, picture: &Picture) {
    let tally = &picture.failures;
    if tally.failures == 0 {
        return;
    }
    document.line(format!(
        "{} failed up to here: {} for lack of contiguous space, {} for lack of memory, {} over \
         budget, {} too large for the segment.",
        plural(tally.failures, "request"),
        count(tally.no_contiguous),
        count(tally.exhausted),
        count(tally.over_budget),
        count(tally.too_large)
    ));
    if let Some(first) = &picture.first_failure {
        document.line(format!(
            "The first, in frame {}: {} for {} in {}, with {} free of which {} in one range.",
            first.frame,
            bytes(first.size),
            first.site,
            first.segment,
            bytes(first.free),
            bytes(first.largest_free)
        ));
    }
}

fn figures(document: &mut Document, picture: &Picture) {
    document.section("Used, free, available");
    let mut table = Table::new([
        "<",
        "used",
        "free",
        "avail",
        "headers",
        "idle",
        "blocks",
        "free ranges",
        "ext_frag",
        "sq_frag",
    ]);
    let mut line = |name: &str, figures: &Figures| {
        table.row([
            name.to_owned(),
            bytes(figures.used),
            bytes(figures.free),
            bytes(figures.avail),
            bytes(figures.meta),
            bytes(figures.idle),
            count(figures.blocks),
            count(figures.free_ranges),
            format!("{:.3}", figures.ext_frag),
            format!("{:.3}", figures.sq_frag),
        ]);
    };
    for segment in &picture.segments {
        line(&segment.segment, &segment.figures);
    }
    let covered: u64 = picture.segments.iter().map(|it| it.figures.bytes).sum();
    if picture.segments.len() != 1 || covered < picture.whole.bytes {
        line("all", &picture.whole);
    }
    document.table(table);
    document.line(available(picture));
}

/// What `avail` says of this model.
fn available(picture: &Picture) -> String {
    if picture.paged {
        return "Free ranges are those inside what is held; this model can hold more, so avail \
                and ext_frag do not tell what will fail."
            .to_owned();
    }
    let header = match picture.header {
        0 => String::new(),
        header => format!(" less a header of {}", bytes(header)),
    };
    let what = match picture.model.as_str() {
        "recorded" => {
            "Free is what no recorded block covers: the allocator's own headers, and blocks from \
             before the recording, look free. avail is the longest such range."
        }
        _ => {
            return format!(
                "avail is the longest free range{header}: the largest request that can be served."
            );
        }
    };
    what.to_owned()
}

fn map(document: &mut Document, picture: &Picture, ink: Ink, all: bool) {
    document.section("Map");
    let (shown, left_out) = shown(picture, all);
    let colours: Vec<Rgb> = picture.groups.iter().map(|group| group.colour).collect();
    let rows: Vec<[String; 3]> = shown
        .iter()
        .map(|region| {
            let size = bytes(region.figures.bytes);
            [label(region, &shown), size, row(region, &colours, ink)]
        })
        .collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let (names, sizes) = (width(0), width(1));
    let line =
        |[name, size, cells]: &[String; 3]| format!("{name:names$} {size:>sizes$} |{cells}|");
    document
        .blocks
        .push(Block::Code(rows.iter().map(line).collect()));
    if left_out > 0 {
        document.line(format!(
            "and {} without blocks or with fewer; --all draws them, --json and --png have them",
            plural(left_out as u64, "region")
        ));
    }
    document.line(format!("{}.", key(ink)));
    legend(document, picture, ink);
}

/// A region's name, with its address where others have the same name.
fn label(region: &RegionMap, shown: &[&RegionMap]) -> String {
    let same = shown.iter().filter(|other| other.name == region.name);
    if same.count() > 1 {
        format!("{} {:#x}", region.name, region.start)
    } else {
        region.name.clone()
    }
}

/// The regions to draw, in address order, and how many are left out.
fn shown(picture: &Picture, all: bool) -> (Vec<&RegionMap>, usize) {
    let regions = &picture.regions;
    if all {
        return (regions.iter().collect(), 0);
    }
    let mut largest: Vec<&RegionMap> = regions
        .iter()
        .filter(|region| region.figures.in_use())
        .collect();
    largest.sort_by_key(|region| std::cmp::Reverse(region.figures.used));
    largest.truncate(REGIONS);
    largest.sort_by_key(|region| region.start);
    let left_out = regions.len() - largest.len();
    (largest, left_out)
}

fn legend(document: &mut Document, picture: &Picture, ink: Ink) {
    let by = match picture.coloured_by {
        ColourBy::Segment => "segment",
        ColourBy::Age => "age",
        ColourBy::Site => "call site",
        ColourBy::Thread => "thread",
    };
    let group = |(at, group): (usize, &crate::fragmentation::Group)| {
        format!(
            "{} {}: {} in {}",
            sign(at, group.colour, ink),
            group.name,
            bytes(group.bytes),
            plural(group.blocks, "block")
        )
    };
    if !picture.groups.is_empty() {
        document.line(format!("By {by}:"));
        let lines = picture.groups.iter().enumerate().map(group);
        document.blocks.push(Block::Code(lines.collect()));
    }
}

fn measures(document: &mut Document, picture: &Picture) {
    document.section("Measures, over the regions in use");
    let rows: Vec<[String; 4]> = picture.measures.iter().map(cells).collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let (names, values, formulas) = (width(0), width(1), width(2));
    let line = |[id, value, formula, meaning]: &[String; 4]| {
        format!("{id:names$}  {value:>values$}  {formula:formulas$}  {meaning}")
    };
    document
        .blocks
        .push(Block::Code(rows.iter().map(line).collect()));
    document.line(
        "f_i lengths of free ranges, n their number, F their sum, f_max the longest; U bytes of \
         live blocks, R bytes asked for, H bytes held.",
    );
}

/// Name, value, formula, meaning. A table would cut the last.
fn cells(measure: &Measure) -> [String; 4] {
    let id = match measure.size {
        Some(size) => measure.id.replace("(s)", &format!("({})", bytes(size))),
        None => measure.id.to_owned(),
    };
    let (formula, meaning) = (measure.formula.to_owned(), measure.meaning.to_owned());
    [id, value(measure), formula, meaning]
}

fn value(measure: &Measure) -> String {
    match (measure.id, measure.value) {
        (_, None) => "would not fail".to_owned(),
        ("pinned" | "robson_first_fit", Some(value)) => bytes(value as u64),
        (_, Some(value)) => format!("{value:.3}"),
    }
}

fn pinned(document: &mut Document, picture: &Picture) {
    let pinned = &picture.pinned;
    if pinned.pages == 0 {
        return;
    }
    document.section("Pinned: pages of which less than 10 % is live");
    document.line(format!(
        "{} of {} keep {} for {} of live blocks.",
        plural(pinned.pages, "page"),
        bytes(pinned.page),
        bytes(pinned.bytes),
        bytes(pinned.live)
    ));
    let mut table = Table::new(["<pinned by", "pages", "bytes"]);
    for site in &pinned.sites {
        table.row([site.site.clone(), count(site.pages), bytes(site.bytes)]);
    }
    document.table(table);
}

/// Fragmentation as frames ended.
pub fn series_document(series: &Series) -> Document {
    let mut document = Document::default();
    document
        .blocks
        .push(Block::Title(format!("heapreel frag of {}", series.trace)));
    document.line(format!(
        "Model {}, as each {} ended.",
        series.model,
        match series.every {
            1 => "frame".to_owned(),
            every => format!("{every}th frame"),
        }
    ));
    let mut table = Table::new([
        "frame",
        "<segment",
        "used",
        "free",
        "avail",
        "free ranges",
        "ext_frag",
        "sq_frag",
        "held",
        "waste",
        "failed",
    ]);
    for row in &series.rows {
        let figures = &row.figures;
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            row.frame.to_string(),
            row.segment.clone(),
            bytes(figures.used),
            bytes(figures.free),
            bytes(figures.avail),
            count(figures.free_ranges),
            format!("{:.3}", figures.ext_frag),
            format!("{:.3}", figures.sq_frag),
            or_dash(row.held.map(bytes)),
            or_dash(row.waste.map(percent)),
            or_dash(row.failures.map(count)),
        ]);
    }
    if table.rows.is_empty() {
        document.line("No such frame has ended: --every 1 shows all there are.");
    }
    document.table(table);
    document
}

/// Several traces: what fits them all.
pub fn capacity_document(capacity: &Capacity) -> Document {
    let mut document = Document::default();
    document.blocks.push(Block::Title(format!(
        "heapreel frag of {}",
        plural(capacity.loads.len() as u64, "trace")
    )));
    if capacity.segments.is_empty() {
        document.line("No trace has a live block: there is nothing to fit.");
        return document;
    }
    document.line(format!(
        "{} needs {}, {} {}: capacities that fit all traces, a margin of {} % included.",
        capacity.fixed_model,
        bytes(capacity.fixed),
        capacity.shared_model,
        bytes(capacity.shared.bytes),
        capacity.margin_percent
    ));
    document.line(format!(
        "Segments reach their peaks in different traces and frames: the peaks of their blocks \
         add up to {}, and at once at most {} were live, in {}. {} would be set aside only \
         because segments of fixed capacity cannot share.",
        bytes(capacity.sum_of_peaks),
        bytes(capacity.peak_of_sum.bytes),
        capacity.peak_of_sum.set_by,
        bytes(capacity.set_aside)
    ));
    for load in capacity
        .loads
        .iter()
        .filter(|load| load.shared_failures > 0)
    {
        document.line(format!(
            "{}: {} failed in {}; its figure is too low.",
            load.trace,
            plural(load.shared_failures, "request"),
            capacity.shared_model
        ));
    }
    document.section("Capacities");
    let mut table = Table::new(["<segment", "peak", "needs", "capacity", "<set by"]);
    for segment in &capacity.segments {
        table.row([
            segment.segment.clone(),
            bytes(segment.peak),
            bytes(segment.needs),
            bytes(segment.capacity.bytes),
            segment.capacity.set_by.clone(),
        ]);
    }
    let shared = &capacity.shared;
    table.row([
        format!("all, shared ({})", capacity.shared_model),
        bytes(capacity.peak_of_sum.bytes),
        "-".to_owned(),
        bytes(shared.bytes),
        shared.set_by.clone(),
    ]);
    document.table(table);
    document.line("peak counts blocks with headers and rounding, needs what fragmentation adds.");
    document.section("By trace");
    let mut table = Table::new(["<trace", "<segment", "peak", "in frame", "needs"]);
    for load in &capacity.loads {
        for (name, segment) in &load.segments {
            table.row([
                load.trace.clone(),
                name.clone(),
                bytes(segment.peak),
                segment.frame.to_string(),
                bytes(segment.needs),
            ]);
        }
    }
    document.table(table);
    document
}
