//! Who wrote at an address.

use super::document::{Block, Document, Table};
use crate::StackFrame;
use crate::overrun::{Deed, HeapAt, HeapParty, Overrun, Party, Suspect};
use crate::symbols::short_name;
use crate::units::{bytes, count, nanos};
use heapreel_models::lookup::{Part, Suspicion};

/// Past owners that are listed.
const HOLDERS: usize = 20;
/// Stack frames shown of a suspect.
const FRAMES: usize = 8;

/// The answer of `heapreel overrun`.
pub fn overrun_document(overrun: &Overrun) -> Document {
    let mut document = Document::default();
    document.blocks.push(Block::Title(format!(
        "heapreel overrun {:#x} of {}",
        overrun.address, overrun.trace
    )));
    document.line(format!(
        "Model {}, frame {}, {} after the recording began.",
        overrun.model,
        overrun.frame,
        nanos(overrun.nanos)
    ));
    document.line(hit(overrun));
    if overrun.region.is_empty() {
        document.line("No block is live at this moment; choose a later one with --frame or --at.");
    } else if overrun.outside_by > 0 && overrun.model != "recorded" {
        document.line(
            "A model's addresses are simulated. For an address of the program itself, as a crash \
             tells it, leave --model away.",
        );
    }
    heaps(&mut document, overrun);
    suspects(&mut document, overrun);
    around(&mut document, overrun);
    holders(&mut document, overrun);
    document
}

/// What the address hits, as a sentence.
fn hit(overrun: &Overrun) -> String {
    let (address, region) = (overrun.address, place(overrun));
    let inside = |party: &Party| {
        let size = bytes(party.requested);
        match address.checked_sub(party.payload) {
            Some(offset) if offset >= party.requested => format!(
                "{} behind the {size} that were asked for of block {}",
                bytes(offset - party.requested + 1),
                party.serial
            ),
            Some(offset) => format!("at {offset:#x} in block {} of {size}", party.serial),
            None => format!("in the header of block {} of {size}", party.serial),
        }
    };
    match (overrun.part, &overrun.block) {
        (Part::Outside, _) if overrun.region.is_empty() => {
            format!("{address:#x} is none of this model's: it holds no memory.")
        }
        (Part::Outside, _) => format!(
            "{address:#x} is none of this model's; the nearest region, {region}, is {} away.",
            bytes(overrun.outside_by)
        ),
        (Part::Payload | Part::Header, Some(party)) if party.live => {
            format!("{address:#x} lies in {region}, {}.", inside(party))
        }
        (Part::Free, Some(party)) => format!(
            "{address:#x} lies in {region}, in a range of {} that no block holds.",
            bytes(party.end - party.payload)
        ),
        _ => format!("{address:#x} lies in {region}, in the allocator's own memory."),
    }
}

fn place(overrun: &Overrun) -> String {
    match &overrun.segment {
        Some(segment) if *segment == overrun.region => format!("segment {segment}"),
        Some(segment) => format!("{} (segment {segment})", overrun.region),
        None => overrun.region.clone(),
    }
}

fn suspects(document: &mut Document, overrun: &Overrun) {
    document.section("Suspects, likeliest first");
    if overrun.suspects.is_empty() {
        document.line(
            "None: no block lies in front of the address, and none held it before. \
             Another moment may know more: --frame or --at.",
        );
    }
    for (at, suspect) in overrun.suspects.iter().enumerate() {
        document.line(format!("{}. {}", at + 1, accusation(suspect)));
        if let Some(deed) = &suspect.party.allocated {
            document.blocks.push(Block::Code(backtrace(deed)));
        }
    }
}

fn accusation(suspect: &Suspect) -> String {
    let Party {
        requested,
        distance,
        serial,
        allocated,
        freed,
        ..
    } = &suspect.party;
    let owner = allocated.as_ref().map_or_else(
        || "whose owner is unknown".to_owned(),
        |deed| format!("allocated by {}", by(deed)),
    );
    let block = format!("block {} of {}, {owner}", count(*serial), bytes(*requested));
    match suspect.suspicion {
        Suspicion::Overrun if *distance > 0 => format!(
            "Written past the end: {block}. The address is byte {} behind it.",
            count(*distance as u64)
        ),
        Suspicion::Overrun => {
            format!("Written past its requested size, into its own rounding: {block}.")
        }
        Suspicion::Underrun => format!(
            "Written in front: {block}. The address is {} before its payload.",
            bytes(distance.unsigned_abs())
        ),
        Suspicion::UseAfterFree => {
            let freed = freed.as_ref().map_or_else(
                || "freed".to_owned(),
                |deed| match deed.stack.as_slice() {
                    // Releases have backtraces only where that was asked for.
                    [] => format!(
                        "freed in frame {} on {}",
                        count(deed.frame.into()),
                        deed.thread
                    ),
                    _ => format!("freed by {}", by(deed)),
                },
            );
            format!("Used after it was freed: {block}, {freed}.")
        }
        Suspicion::Owner => format!("Its owner, who may write there: {block}."),
    }
}

fn by(deed: &Deed) -> String {
    format!(
        "{} in frame {} on {}",
        deed.function,
        count(deed.frame.into()),
        deed.thread
    )
}

fn backtrace(deed: &Deed) -> Vec<String> {
    // What lies inward of the function to blame is the allocator and its library.
    let blamed = |frame: &StackFrame| short_name(&frame.function) == deed.function;
    let inward = deed.stack.iter().position(blamed).unwrap_or(0);
    let outward = &deed.stack[inward..];
    let mut lines: Vec<String> = outward
        .iter()
        .take(FRAMES)
        .map(|frame| match &frame.place {
            Some(place) => format!("{}  {place}", frame.function),
            None => frame.function.clone(),
        })
        .collect();
    if outward.len() > FRAMES {
        lines.push(format!(
            "and {} more; --json has all",
            outward.len() - FRAMES
        ));
    }
    lines
}

/// The heaps of the game's own that the address lies in.
fn heaps(document: &mut Document, overrun: &Overrun) {
    if overrun.heaps.is_empty() {
        return;
    }
    document.section("Heaps that the game announced");
    for heap in &overrun.heaps {
        document.line(in_heap(overrun.address, heap));
        let mut table = Table::new([
            "<",
            "<block",
            "requested",
            "<handed out to",
            "<thread",
            "when",
        ]);
        let parties = [
            ("in front", &heap.previous),
            ("here", &heap.block),
            ("behind", &heap.next),
        ];
        for (place, party) in parties {
            let Some(party) = party else { continue };
            table.row(heap_row(place, party));
        }
        if !table.rows.is_empty() {
            document.table(table);
        }
    }
}

fn in_heap(address: u64, heap: &HeapAt) -> String {
    let HeapAt {
        heap: name,
        kind,
        start,
        end,
        ..
    } = heap;
    let what = match &heap.block {
        Some(block) => format!(
            "at {:#x} in a block of {}",
            address - block.address,
            bytes(block.requested)
        ),
        None => "where it has no live block".to_owned(),
    };
    format!("{address:#x} lies in {name} ({kind}, {start:#x}..{end:#x}), {what}.")
}

fn heap_row(place: &str, party: &HeapParty) -> [String; 6] {
    let end = party.address.saturating_add(party.requested);
    [
        place.to_owned(),
        format!("{:#x}..{end:#x}", party.address),
        bytes(party.requested),
        party.function.clone(),
        party.thread.clone(),
        nanos(party.nanos),
    ]
}

fn around(document: &mut Document, overrun: &Overrun) {
    let mut table = Table::new([
        "<",
        "<payload",
        "<state",
        "requested",
        "distance",
        "block",
        "<allocated by",
        "<thread",
        "frame",
    ]);
    let parties = [
        ("in front", &overrun.previous),
        ("here", &overrun.block),
        ("behind", &overrun.next),
    ];
    for (place, party) in parties {
        let Some(party) = party else { continue };
        let told = party.allocated.as_ref();
        let deed = |of: fn(&Deed) -> String| told.map_or_else(|| "-".to_owned(), of);
        table.row([
            place.to_owned(),
            format!("{:#x}..{:#x}", party.payload, party.end),
            if party.live {
                "used"
            } else {
                "free, last owner"
            }
            .to_owned(),
            bytes(party.requested),
            party.distance.to_string(),
            serial(party.serial),
            deed(|deed| deed.function.clone()),
            deed(|deed| deed.thread.clone()),
            deed(|deed| deed.frame.to_string()),
        ]);
    }
    document.section("Around it");
    if table.rows.is_empty() {
        document.line("No block of this model lies near.");
    }
    document.table(table);
}

fn serial(serial: u64) -> String {
    match serial {
        0 => "-".to_owned(),
        serial => count(serial),
    }
}

fn holders(document: &mut Document, overrun: &Overrun) {
    document.section("Owners of this address, newest first");
    if overrun.holders.is_empty() {
        document.line("No block of the trace held it up to this moment.");
    }
    let mut table = Table::new([
        "block",
        "requested",
        "at",
        "<allocated by",
        "<thread",
        "frame",
        "<context",
        "<given back",
    ]);
    for holder in overrun.holders.iter().take(HOLDERS) {
        let Deed {
            function,
            thread,
            frame,
            context,
            ..
        } = &holder.allocated;
        let freed = holder.freed.as_ref().map_or_else(
            || "live".to_owned(),
            |deed| format!("frame {} on {}", deed.frame, deed.thread),
        );
        table.row([
            count(holder.serial),
            bytes(holder.requested),
            format!("{:#x}", holder.offset),
            function.clone(),
            thread.clone(),
            frame.to_string(),
            context.clone().unwrap_or_else(|| "-".to_owned()),
            freed,
        ]);
    }
    document.table(table);
    if let Some(more) = overrun.holders.len().checked_sub(HOLDERS + 1) {
        document.line(format!(
            "and {} more; --json has all",
            count(more as u64 + 1)
        ));
    }
}
