//! Which compression suits a trace: size and speed of each on a recorded trace.
//!
//!     cargo run --release --manifest-path scripts/codecs/Cargo.toml -- TRACE [CHUNK_KIB]
//!
//! Takes the records of the trace's event chunks as they are, puts a thread's chunks
//! together until a chunk of the given size is full, and packs and unpacks each.

use heapreel_format::Trace;
use std::path::Path;
use std::time::Instant;

type Pack = fn(&[u8]) -> Vec<u8>;
type Unpack = fn(&[u8], usize) -> usize;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: codecs TRACE [CHUNK_KIB]");
        std::process::exit(2);
    };
    let size = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(32) << 10;
    let trace = Trace::open(Path::new(&path)).expect("a trace");
    let (chunks, events) = records(&trace, size);
    let raw: usize = chunks.iter().map(Vec::len).sum();
    println!("{path}: {events} records, {:.2} bytes each, chunks of {} KiB", raw as f64 / events as f64, size >> 10);
    println!("| codec | bytes/record | pack MB/s | pack ns/record | unpack MB/s | unpack ns/record |");
    println!("|---|---|---|---|---|---|");
    let codecs: [(&str, Pack, Unpack); 5] = [
        ("none", |b| b.to_vec(), |b, _| b.to_vec().len()),
        ("lz4_flex", lz4_flex::block::compress, |b, n| lz4_flex::block::decompress(b, n).map_or(0, |v| v.len())),
        ("zstd -1", |b| zstd::bulk::compress(b, -1).unwrap_or_default(), unzstd),
        ("zstd 1", |b| zstd::bulk::compress(b, 1).unwrap_or_default(), unzstd),
        ("zstd 3", |b| zstd::bulk::compress(b, 3).unwrap_or_default(), unzstd),
    ];
    for (name, pack, unpack) in codecs {
        measure(name, pack, unpack, &chunks, raw, events);
    }
}

fn unzstd(bytes: &[u8], raw: usize) -> usize {
    zstd::bulk::decompress(bytes, raw).map_or(0, |v| v.len())
}

fn measure(name: &str, pack: Pack, unpack: Unpack, chunks: &[Vec<u8>], raw: usize, events: u64) {
    let start = Instant::now();
    let packed: Vec<Vec<u8>> = chunks.iter().map(|chunk| pack(chunk)).collect();
    let packing = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let unpacked: usize = packed.iter().zip(chunks).map(|(packed, chunk)| unpack(packed, chunk.len())).sum();
    let unpacking = start.elapsed().as_secs_f64();
    assert_eq!(unpacked, raw);
    let size: usize = packed.iter().zip(chunks).map(|(packed, chunk)| packed.len().min(chunk.len())).sum();
    let speed = |seconds: f64| raw as f64 / 1e6 / seconds;
    let each = |seconds: f64| seconds * 1e9 / events as f64;
    println!(
        "| {name} | {:.2} | {:.0} | {:.1} | {:.0} | {:.1} |",
        size as f64 / events as f64,
        speed(packing),
        each(packing),
        speed(unpacking),
        each(unpacking)
    );
}

/// Records of each thread, in pieces of at least `size` bytes.
fn records(trace: &Trace, size: usize) -> (Vec<Vec<u8>>, u64) {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut current = Vec::new();
    let mut thread = None;
    let mut count = 0;
    for entry in trace.chunks() {
        let Ok(Some((_, bytes))) = trace.raw_records(entry) else { continue };
        if thread != Some(entry.header.thread) || current.len() >= size {
            pieces.push(std::mem::take(&mut current));
            thread = Some(entry.header.thread);
        }
        current.extend_from_slice(&bytes);
        count += u64::from(entry.header.count);
    }
    pieces.push(current);
    pieces.retain(|piece| !piece.is_empty());
    (pieces, count)
}
