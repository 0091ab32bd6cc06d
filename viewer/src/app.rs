//! The window's rim: input becomes commands, commands change the state, the state
//! is drawn.

use crate::load::{Loader, Work};
use crate::state::{Command, Document, Effect, State};
use crate::{keys, ui};
use eframe::egui::{Context, Ui, ViewportCommand};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often progress is drawn while a trace is read.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// The viewer: a state, and perhaps a trace being read.
pub struct Viewer {
    state: State,
    work: Work,
    loader: Option<Loader>,
}

impl Viewer {
    /// A viewer that reads traces with `work`.
    pub fn new(state: State, work: Work) -> Self {
        Self {
            state,
            work,
            loader: None,
        }
    }

    /// What it shows.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Carries out a command.
    pub fn apply(&mut self, context: &Context, command: Command) {
        match self.state.apply(command) {
            Some(Effect::Load(path)) => self.load(context, path),
            Some(Effect::StopLoading) => self.loader = None,
            None => {}
        }
    }

    fn load(&mut self, context: &Context, path: PathBuf) {
        let title = format!("{} - heapreel", path.display());
        context.send_viewport_cmd(ViewportCommand::Title(title));
        let context = context.clone();
        let wake = move || context.request_repaint();
        self.loader = Some(Loader::start(path, self.work, wake));
    }

    /// Draws one picture and reacts to what happened since the last one.
    pub fn show(&mut self, ui: &mut Ui) {
        let context = ui.ctx().clone();
        let mut commands = self.loaded();
        commands.extend(dropped_file(&context));
        let focused = context.memory(|memory| memory.focused().is_some());
        commands.extend(context.input(|input| keys::commands(input, focused)));
        for command in commands {
            self.apply(&context, command);
        }
        if context.theme() != self.state.theme {
            context.set_theme(self.state.theme);
        }
        let mut commands = Vec::new();
        let progress = self.loader.as_ref().map(Loader::control);
        ui::show(ui, &self.state, progress, &mut commands);
        if !commands.is_empty() {
            context.request_repaint();
        }
        for command in commands {
            self.apply(&context, command);
        }
        if matches!(self.state.document, Document::Loading(_)) {
            context.request_repaint_after(PROGRESS_EVERY);
        }
    }

    fn loaded(&mut self) -> Vec<Command> {
        let Some(result) = self.loader.as_ref().and_then(Loader::poll) else {
            return Vec::new();
        };
        self.loader = None;
        vec![match result {
            Ok(model) => Command::Loaded(Arc::new(model)),
            Err(message) => Command::Failed(message),
        }]
    }
}

/// A file dropped on the window is opened.
fn dropped_file(context: &Context) -> Option<Command> {
    context.input(|input| {
        let file = input.raw.dropped_files.first()?;
        Some(Command::Open(file.path().to_owned()))
    })
}

impl eframe::App for Viewer {
    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        self.show(ui);
    }
}
