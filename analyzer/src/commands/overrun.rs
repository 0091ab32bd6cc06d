//! `heapreel overrun`: who may have written at an address.

use super::analysis::{finish_trace, print, print_json};
use super::models::{ModelArgs, Stage};
use super::moment::MomentArgs;
use heapreel_analyzer::fragmentation::TraceNames;
use heapreel_analyzer::overrun::{Overrun, heaps_at, look_up};
use heapreel_analyzer::report::overrun_document;
use heapreel_analyzer::what_if::ModelName;
use std::path::PathBuf;
use std::process::ExitCode;

/// Flags of `heapreel overrun`.
#[derive(clap::Args)]
#[command(
    after_help = "Without --model the address is one of the program's own, as a debugger shows it; with a \
model it is one that the model gave out. Without a moment, the trace's end.

Examples:
  heapreel overrun 0x7f0000001010 run.hreel
  heapreel overrun 0x2000000030 run.hreel --model heap --frame 4213 --json"
)]
pub struct Args {
    /// The address
    #[arg(value_parser = address)]
    address: u64,
    /// The trace
    trace: PathBuf,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    moment: MomentArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn address(text: &str) -> Result<u64, String> {
    heapreel_models::parameters::address("ADDRESS", text)
        .map_err(|_| format!("{text:?} is no address; write it as 0x7f0000001010"))
}

/// Looks the address up.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let choice = args
        .models
        .only("an address is one model's", ModelName::Recorded)?;
    let configuration = args.models.configuration()?;
    let stage = Stage::open(&args.trace)?;
    let (run, books) =
        args.moment
            .run(&stage, &choice, &configuration, None, Some(args.address))?;
    let headers = choice.model == ModelName::Heap && configuration.layout.is_none();
    let mut names = TraceNames::new(&stage.trace, &stage.scene);
    let model = run.ledger().model();
    let answer = look_up(model, &books, args.address, headers, &mut names);
    let heaps = if choice.model == ModelName::Recorded {
        let moment = args.moment.place().map(|_| answer.nanos);
        heaps_at(&stage.trace, moment, args.address)?
    } else {
        Vec::new()
    };
    let overrun = Overrun {
        trace: stage.file.clone(),
        model: choice.to_string(),
        heaps,
        ..answer
    };
    if args.json {
        print_json(&overrun)?;
    } else {
        print(&overrun_document(&overrun))?;
    }
    Ok(finish_trace(&stage.file, &stage.trace))
}
