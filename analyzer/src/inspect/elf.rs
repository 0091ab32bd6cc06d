//! What an ELF file tells without being run.

use super::allocator::{self, OwnAllocator};
use super::prologues::{self, FramePointers};
use memchr::memmem;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, elf};

/// Facts of one ELF file.
#[derive(Debug, Default, serde::Serialize)]
pub struct Elf {
    /// Made for a 32-bit processor.
    pub is_32_bit: bool,
    /// Made for the processor that this heapreel was built for.
    pub is_native: bool,
    /// Started through a loader, which can load a recorder beside it.
    pub is_dynamic: bool,
    /// It could not be taken apart.
    pub is_damaged: bool,
    /// Libraries it names.
    pub libraries: Vec<String>,
    /// Its own functions have no names in it.
    pub is_stripped: bool,
    /// It knows source lines.
    pub has_lines: bool,
    /// Its unwind tables are there.
    pub has_unwind_tables: bool,
    /// Build-id, by which symbols found elsewhere are recognised.
    pub build_id: Option<String>,
    /// How its functions begin.
    pub frame_pointers: FramePointers,
    /// An allocator inside it.
    pub own_allocator: Option<OwnAllocator>,
    /// It calls an allocation function of a library's.
    pub asks_for_memory: bool,
    /// The heapreel crate is inside it and records by itself.
    pub has_recorder: bool,
    /// Where frame marks can come from.
    pub frame_calls: FrameCalls,
}

/// What could mark game frames.
#[derive(Debug, Default, serde::Serialize)]
pub struct FrameCalls {
    /// It calls heapreel.h's functions.
    pub interface: bool,
    /// Libraries that show pictures: SDL, GL, EGL, Vulkan.
    pub picture_libraries: Vec<String>,
}

/// The variable's name stands in every program that has the crate inside.
const RECORDER_MARK: &[u8] = b"HEAPREEL_SESSION";

/// How each names itself: as a library, and in programs that load it themselves.
const PICTURE_LIBRARIES: &[(&str, &str, &str)] = &[
    ("SDL2", "libSDL2-2", "libSDL2-2.0.so"),
    ("SDL3", "libSDL3.", "libSDL3.so"),
    ("SDL", "libSDL-1", "libSDL-1.2.so"),
    ("GL", "libGL.", "libGL.so"),
    ("GLX", "libGLX.", "libGLX.so"),
    ("EGL", "libEGL.", "libEGL.so"),
    ("Vulkan", "libvulkan.", "libvulkan.so"),
];

/// Takes an ELF file apart. Never fails: what cannot be read is left out.
pub fn inspect(bytes: &[u8]) -> Elf {
    let mut facts = Elf {
        is_32_bit: bytes.get(4) == Some(&1),
        has_recorder: memmem::find(bytes, RECORDER_MARK).is_some(),
        ..Elf::default()
    };
    if facts.is_32_bit {
        return facts;
    }
    let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else {
        facts.is_damaged = true;
        return facts;
    };
    facts.is_native = bytes.get(18..20) == Some(&native_machine().to_le_bytes());
    let endian = file.endian();
    facts.is_dynamic = file
        .elf_program_headers()
        .iter()
        .any(|header| header.p_type(endian) == elf::PT_INTERP);
    facts.libraries = libraries(&file);
    facts.is_stripped = file.symbols().next().is_none();
    facts.has_lines = file
        .sections()
        .filter_map(|s| s.name().ok())
        .any(|name| matches!(name, ".debug_line" | ".zdebug_line"));
    facts.has_unwind_tables = file.section_by_name(".eh_frame").is_some();
    facts.build_id = file.build_id().ok().flatten().map(hex);
    facts.frame_pointers = prologues::count(&file);
    facts.own_allocator = allocator::of(&file, bytes);
    facts.asks_for_memory = allocator::is_asked_of_a_library(&file);
    facts.frame_calls = frame_calls(&file, &facts.libraries, bytes);
    facts
}

const fn native_machine() -> u16 {
    if cfg!(target_arch = "aarch64") {
        elf::EM_AARCH64.0
    } else {
        elf::EM_X86_64.0
    }
}

/// DT_NEEDED entries.
fn libraries(file: &ElfFile64<'_, Endianness>) -> Vec<String> {
    let endian = file.endian();
    let sections = file.elf_section_table();
    let Ok(Some((dynamic, link))) = sections.dynamic(endian, file.data()) else {
        return Vec::new();
    };
    let strings = sections
        .strings(endian, file.data(), link)
        .unwrap_or_default();
    dynamic
        .iter()
        .filter(|entry| entry.d_tag.get(endian) == elf::DT_NEEDED)
        .filter_map(|entry| strings.get(entry.d_val.get(endian) as u32).ok())
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

fn frame_calls(file: &ElfFile64<'_, Endianness>, libraries: &[String], bytes: &[u8]) -> FrameCalls {
    let interface = file
        .dynamic_symbols()
        .filter_map(|symbol| symbol.name().ok())
        .any(|name| name.starts_with("heapreel_"));
    let is_there = |library: &str, text: &str| {
        libraries.iter().any(|name| name.starts_with(library))
            || memmem::find(bytes, text.as_bytes()).is_some()
    };
    let picture_libraries = PICTURE_LIBRARIES
        .iter()
        .filter(|(_, library, text)| is_there(library, text))
        .map(|(name, ..)| (*name).to_owned())
        .collect();
    FrameCalls {
        interface,
        picture_libraries,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_dynamic_native_program() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let facts = inspect(&bytes);
        assert!(facts.is_dynamic && facts.is_native && !facts.is_32_bit && !facts.is_stripped);
        assert!(facts.libraries.iter().any(|l| l.starts_with("libc.")));
        assert!(facts.frame_pointers.functions > 100);
    }

    #[test]
    fn damage_is_survived() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let whole = &bytes[..bytes.len().min(64 << 10)];
        for cut in [0, 4, 5, 20, 63, 64, 100, 4096, whole.len()] {
            inspect(&whole[..cut]);
        }
    }
}
