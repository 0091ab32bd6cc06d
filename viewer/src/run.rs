//! What the command line asks for: a window, or a picture in a file.

use crate::app::Viewer;
use crate::cli::Args;
use crate::headless;
use crate::load::{Control, Work};
use crate::state::{Aim, Command, State};
use crate::theme;
use anyhow::{Context as _, anyhow, bail};
use eframe::egui::{self, ViewportBuilder};
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

/// Opens the window or writes the picture.
///
/// # Errors
///
/// A sentence that names the file or the display, and the cause.
pub fn run(args: &Args, work: Work) -> anyhow::Result<()> {
    match (&args.screenshot, &args.trace) {
        (Some(picture), Some(trace)) => screenshot(args, trace, picture, work),
        _ => window(args, work),
    }
}

fn state(args: &Args) -> State {
    State {
        theme: args.theme.into(),
        metric: args.bars.into(),
        aim: Aim {
            in_loop: args.game_loop.clone(),
            frame: args.frame,
        },
        ..State::default()
    }
}

fn screenshot(args: &Args, trace: &Path, picture: &Path, work: Work) -> anyhow::Result<()> {
    let mut state = state(args);
    state.apply(Command::Open(trace.to_owned()));
    let model = work(trace.to_owned(), &Control::default()).map_err(|error| anyhow!(error))?;
    state.apply(Command::Loaded(Arc::new(model)));
    if let Some(remark) = &state.remark {
        bail!("{}: {remark}", trace.display());
    }
    let canvas = headless::render(state, args.size.0, args.size.1);
    let name = || format!("{}: the picture could not be written", picture.display());
    let mut file = BufWriter::new(fs::File::create(picture).with_context(name)?);
    headless::write_png(&canvas, &mut file).with_context(name)?;
    file.flush().with_context(name)
}

fn window(args: &Args, work: Work) -> anyhow::Result<()> {
    let size = egui::vec2(args.size.0 as f32, args.size.1 as f32);
    let options = eframe::NativeOptions {
        viewport: ViewportBuilder::default()
            .with_inner_size(size)
            .with_min_inner_size([640.0, 420.0])
            .with_app_id("heapreel-viewer")
            .with_icon(crate::icon::icon())
            .with_title("heapreel"),
        ..Default::default()
    };
    let args = args.clone();
    let create: eframe::AppCreator<'_> = Box::new(move |creation| {
        theme::apply(&creation.egui_ctx, args.theme.into());
        let mut viewer = Viewer::new(state(&args), work);
        if let Some(trace) = args.trace {
            viewer.apply(&creation.egui_ctx, Command::Open(trace));
        }
        Ok(Box::new(viewer))
    });
    eframe::run_native("heapreel-viewer", options, create).map_err(|error| {
        anyhow!("no window could be opened: {error}; without a display, use --screenshot FILE")
    })
}
