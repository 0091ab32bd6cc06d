//! `heapreel frag`: how scattered memory is, really or in a model.

use super::analysis::{finish_trace, print, print_json, print_text, wants_colour};
use super::models::{ModelArgs, Stage};
use super::moment::MomentArgs;
use super::output::{refuse_to_overwrite, write_whole};
use anyhow::{anyhow, bail};
use heapreel_analyzer::fragmentation::terminal::Ink;
use heapreel_analyzer::fragmentation::{
    Books, Capacity, ColourBy, Groups, Load, Moment, Question, Series, TraceNames, Wanted,
    header_of, image, series_csv, weigh,
};
use heapreel_analyzer::report::{capacity_document, frag_document, series_document};
use heapreel_analyzer::units::bytes;
use heapreel_analyzer::what_if::{Choice, Configuration, ModelName, Run, Setting};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Flags of `heapreel frag`.
#[derive(clap::Args)]
#[command(
    after_help = "Several traces are weighed against each other: the capacity of each segment that fits \
all, and what segments of fixed capacity cost against one budget that they share.

Examples:
  heapreel frag run.hreel --model heap --frame 4213 --colour site
  heapreel frag run.hreel --model heap --every 60 --csv"
)]
pub struct Args {
    /// The trace, or several
    #[arg(required = true)]
    trace: Vec<PathBuf>,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    moment: MomentArgs,
    /// Instead of a moment: as every so many frames end
    #[arg(long, value_name = "FRAMES", conflicts_with_all = ["frame", "at", "png"], value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    /// What the map is coloured by [default: segment]; without a terminal, by letters
    #[arg(long, visible_alias = "color", value_enum)]
    colour: Option<Colour>,
    /// Only the region of this name, such as a segment
    #[arg(long, value_name = "NAME")]
    region: Option<String>,
    /// The request that unusable and frag_index are for [default: the last that failed, or 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    request: Option<u64>,
    /// Cells of a region in the map
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    width: u16,
    /// Draw all regions, also empty ones
    #[arg(long)]
    all: bool,
    /// Write the map as a picture
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Replace the picture if it exists
    #[arg(long, requires = "png")]
    force: bool,
    /// Several traces: what is added to each need, in hundredths
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    margin: u64,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: bytes and nanoseconds
    #[arg(long, requires = "every")]
    csv: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Colour {
    /// The segment that the thread worked in
    Segment,
    /// How long ago it was allocated
    Age,
    /// The function to blame
    Site,
    /// The thread that allocated it
    Thread,
}

fn size(text: &str) -> Result<u64, String> {
    heapreel_models::parameters::bytes("--request", text).map_err(|error| error.to_string())
}

/// Shows fragmentation.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.trace.as_slice() {
        [trace] => one(&args, trace),
        several => compare(&args, several),
    }
}

fn choice(args: &Args) -> anyhow::Result<Choice> {
    let default = if args.trace.len() > 1 {
        ModelName::Heap
    } else {
        ModelName::Recorded
    };
    args.models.only("frag shows one model", default)
}

fn one(args: &Args, trace: &Path) -> anyhow::Result<ExitCode> {
    if let Some(png) = &args.png {
        refuse_to_overwrite(trace, png, args.force)?;
    }
    let choice = choice(args)?;
    let configuration = args.models.configuration()?;
    let stage = Stage::open(trace)?;
    let (run, books) = args
        .moment
        .run(&stage, &choice, &configuration, args.every, None)?;
    match args.every {
        Some(every) => series(args, &stage, &run, &books, every)?,
        None => moment(args, &stage, &choice, &run, &books)?,
    }
    Ok(finish_trace(&stage.file, &stage.trace))
}

fn series(args: &Args, stage: &Stage, run: &Run, books: &Books, every: u64) -> anyhow::Result<()> {
    if books.frame_ends < 2 {
        bail!(
            "{}: has no frame marks; without --every the end is shown, by --at 12.5s a moment",
            stage.file
        );
    }
    let only = args.region.as_deref();
    let series = Series::of(&stage.file, run.label(), every, &books.samples, only);
    if series.rows.is_empty() && !books.samples.is_empty() {
        bail!(
            "{} has no segment {:?} with regions of its own",
            run.label(),
            only.unwrap_or_default()
        );
    }
    if args.json {
        print_json(&series)
    } else if args.csv {
        print_text(&series_csv(&series))
    } else {
        print(&series_document(&series))
    }
}

fn moment(
    args: &Args,
    stage: &Stage,
    choice: &Choice,
    run: &Run,
    books: &Books,
) -> anyhow::Result<()> {
    let question = Question {
        colour: match args.colour {
            None | Some(Colour::Segment) => ColourBy::Segment,
            Some(Colour::Age) => ColourBy::Age,
            Some(Colour::Site) => ColourBy::Site,
            Some(Colour::Thread) => ColourBy::Thread,
        },
        width: args.width.into(),
        request: args.request,
        region: args.region.clone(),
        header: books.header(),
        paged: matches!(choice.model, ModelName::Virtual | ModelName::Mimalloc),
    };
    let moment = Moment::of(run.ledger(), books, question)
        .map_err(|error| anyhow!("{} {error}", run.label()))?;
    let mut names = TraceNames::new(&stage.trace, &stage.scene);
    let groups = moment.groups(&mut names);
    if let Some(png) = &args.png {
        picture(png, &moment, &groups)?;
    }
    let picture = moment.picture(&stage.file, run.label(), &groups, &mut names);
    if args.json {
        return print_json(&picture);
    }
    let ink = match (wants_colour(), args.colour) {
        (true, _) => Ink::Colour,
        (false, Some(_)) => Ink::Letters,
        (false, None) => Ink::Plain,
    };
    print(&frag_document(&picture, ink, args.all))
}

/// Regions that hold nothing are not in the picture, unless none does.
fn picture(path: &Path, moment: &Moment<'_>, groups: &Groups) -> anyhow::Result<()> {
    let regions = moment.drawn();
    let mut text = String::from("Bands from the top, by address:\n");
    for region in &regions {
        text += &format!(
            "{} at {:#x}, {}\n",
            region.name,
            region.start,
            bytes(region.bytes)
        );
    }
    text += "Colours:\n";
    for group in &groups.list {
        let [red, green, blue] = group.colour;
        text += &format!("#{red:02x}{green:02x}{blue:02x} {}\n", group.name);
    }
    write_whole(path, |out| {
        image::png(out, &regions, &groups.list, &text, |id| groups.group(id))?;
        Ok(())
    })
}

/// Segments begin with so little and grow in steps of it.
const STEP: &str = "64KiB";
/// No segment's budget is to be in the way of the shared one.
const NO_LIMIT: &str = "1TiB";

fn compare(args: &Args, traces: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let single = args.every.is_some()
        || args.png.is_some()
        || args.region.is_some()
        || args.moment.frame.is_some()
        || args.moment.at.is_some();
    if single {
        bail!("--frame, --at, --every, --region and --png are for one trace");
    }
    let fixed = choice(args)?;
    let configuration = args.models.configuration()?;
    if fixed.model != ModelName::Heap || configuration.layout.is_some() {
        bail!(
            "several traces are weighed in heap against virtual; name --model heap, heap:first, heap:next or heap:tlsf"
        );
    }
    let shared = Choice {
        model: ModelName::Virtual,
        preset: None,
    };
    let mut loads = Vec::new();
    let mut exit = ExitCode::SUCCESS;
    for trace in traces {
        let stage = Stage::open(trace)?;
        loads.push(load(&stage, &fixed, &shared, &configuration)?);
        let its = finish_trace(&stage.file, &stage.trace);
        if its != ExitCode::SUCCESS {
            exit = its;
        }
    }
    let capacity: Capacity = weigh(loads, &fixed.to_string(), &shared.to_string(), args.margin);
    if args.json {
        print_json(&capacity)?;
    } else {
        print(&capacity_document(&capacity))?;
    }
    Ok(exit)
}

fn load(
    stage: &Stage,
    fixed: &Choice,
    shared: &Choice,
    configuration: &Configuration,
) -> anyhow::Result<Load> {
    let names: Vec<String> = stage
        .scene
        .segments
        .iter()
        .map(|it| it.name.clone())
        .collect();
    let growing = with(configuration, ModelName::Heap, |set| {
        set("base_align", STEP);
        for name in names.iter().filter(|name| !name.is_empty()) {
            set(&format!("segment.{name}"), STEP);
            set(&format!("segment.{name}.on_full"), "grow");
        }
    });
    let (run, books) = watched(stage, fixed, &growing)?;
    let mut load = Load {
        trace: stage.file.clone(),
        peak: books.peak.bytes,
        ..Load::default()
    };
    let regions = run.ledger().model().regions();
    for (number, peak) in &books.peaks {
        let name = names
            .get(usize::from(*number))
            .filter(|name| !name.is_empty())
            .map_or("Default", String::as_str);
        let extent = regions.iter().find(|region| region.name == *name);
        load.add(name, peak, extent.map_or(0, |region| region.bytes));
    }
    let fixed: u64 = load.segments.values().map(|segment| segment.needs).sum();
    let roomy = with(configuration, ModelName::Virtual, |set| {
        for name in names.iter().filter(|name| !name.is_empty()) {
            set(&format!("segment.{name}"), NO_LIMIT);
        }
        let room = fixed.saturating_mul(4).max(1 << 30);
        set("phys_budget", &room.next_multiple_of(1 << 20).to_string());
    });
    let (run, _) = watched(stage, shared, &roomy)?;
    load.shared_held = run.ledger().model().counters().peak_held;
    load.shared_failures = run.ledger().tally().failures;
    Ok(load)
}

fn with(
    configuration: &Configuration,
    model: ModelName,
    add: impl FnOnce(&mut dyn FnMut(&str, &str)),
) -> Configuration {
    let mut configuration = configuration.clone();
    add(&mut |name, value| {
        configuration.settings.push(Setting {
            model,
            name: name.to_owned(),
            value: value.to_owned(),
        });
    });
    configuration
}

fn watched(
    stage: &Stage,
    choice: &Choice,
    configuration: &Configuration,
) -> anyhow::Result<(Run, Books)> {
    let run = stage.run(choice, configuration)?;
    let header = header_of(run.ledger().model());
    let books = Books::new(Wanted {
        header,
        ..Wanted::default()
    });
    let (mut runs, _) = stage.replay(vec![(run, books)])?;
    runs.pop().ok_or_else(|| anyhow!("no model ran"))
}
