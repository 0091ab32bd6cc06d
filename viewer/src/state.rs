//! What the window shows, and how commands change it. No drawing, no files.

use crate::lod::Span;
use crate::metric::Metric;
use crate::view_model::{FrameLoop, FrameRow, ViewModel};
use eframe::egui::Theme;
use std::path::PathBuf;
use std::sync::Arc;

/// Something the user, or the loader, wants.
#[derive(Clone, Debug)]
pub enum Command {
    /// Open a trace.
    Open(PathBuf),
    /// The trace that was asked for is there.
    Loaded(Arc<ViewModel>),
    /// It could not be opened, for this reason.
    Failed(String),
    /// Close what is in front, stop loading, or let go of the chosen frame.
    Escape,
    /// Draw another figure.
    SetMetric(Metric),
    /// Draw another loop's frames.
    SetLoop(usize),
    /// Draw the next loop's frames.
    NextLoop,
    /// Show less (factor above 1) or more time around a share of the width.
    Zoom {
        /// How many times less time is shown.
        factor: f64,
        /// The place that stays where it is: 0 left, 1 right.
        around: f64,
    },
    /// Move by a share of the width; positive to later times.
    Pan(f64),
    /// Show the whole recording.
    ShowAll,
    /// Show the beginning, as large as now.
    ShowStart,
    /// Show the end, as large as now.
    ShowEnd,
    /// Mark a stretch of time, which [`Command::ShowStretch`] then shows.
    Stretch(Span),
    /// Show the marked stretch.
    ShowStretch,
    /// Choose a frame by index.
    Select(usize),
    /// Choose the frame so many further on.
    Step(isize),
    /// Choose the next spike.
    NextSpike,
    /// Choose the previous spike.
    PreviousSpike,
    /// Choose a frame by number, of the named loop or the current one, and show it large.
    GoTo {
        /// The loop's name.
        in_loop: Option<String>,
        /// The frame's number.
        number: u64,
    },
    /// Show or hide the help sheet.
    ToggleHelp,
    /// Switch between light and dark.
    ToggleTheme,
    /// Hide the banner.
    DismissBanner,
}

/// What the rim has to do after a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Read this trace in the background.
    Load(PathBuf),
    /// Stop reading.
    StopLoading,
}

/// What is open.
#[derive(Clone, Debug, Default)]
pub enum Document {
    /// Nothing yet.
    #[default]
    Empty,
    /// A trace that is being read.
    Loading(PathBuf),
    /// A trace that could not be opened.
    Failed {
        /// Which one.
        path: PathBuf,
        /// Why, in a sentence.
        message: String,
    },
    /// A trace.
    Open(Arc<ViewModel>),
}

/// What to show of a trace as soon as it is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// Frames of the loop with this name.
    pub in_loop: Option<String>,
    /// The frame with this number, large.
    pub frame: Option<u64>,
}

/// What the window shows.
#[derive(Clone, Debug)]
pub struct State {
    /// What is open.
    pub document: Document,
    /// The figure that bars show.
    pub metric: Metric,
    /// The loop whose frames are shown.
    pub loop_index: usize,
    /// The stretch of time in view.
    pub view: Span,
    /// A stretch being marked.
    pub stretch: Option<Span>,
    /// Index of the chosen frame.
    pub selected: Option<usize>,
    /// The help sheet is open.
    pub help: bool,
    /// The banner was hidden.
    pub banner_dismissed: bool,
    /// What to show of the trace that is being opened.
    pub aim: Aim,
    /// Why the last wish could not be fulfilled, in a sentence.
    pub remark: Option<String>,
    /// Light or dark.
    pub theme: Theme,
}

impl Default for State {
    fn default() -> Self {
        Self {
            document: Document::Empty,
            metric: Metric::default(),
            loop_index: 0,
            view: Span { from: 0.0, to: 1.0 },
            stretch: None,
            selected: None,
            help: false,
            banner_dismissed: false,
            aim: Aim::default(),
            remark: None,
            theme: Theme::Dark,
        }
    }
}

/// The least time shown, in seconds.
const SHORTEST_VIEW: f64 = 1e-5;
/// Room left of the first and right of the last instant, as a share of the view.
const MARGIN: f64 = 0.02;
/// Frames shown around one that is jumped to.
const FRAMES_AROUND: f64 = 40.0;

impl State {
    /// The open trace.
    pub fn model(&self) -> Option<&ViewModel> {
        match &self.document {
            Document::Open(model) => Some(model),
            _ => None,
        }
    }

    /// The loop whose frames are shown.
    pub fn current_loop(&self) -> Option<&FrameLoop> {
        self.model()?.loops.get(self.loop_index)
    }

    /// The chosen frame.
    pub fn selected_frame(&self) -> Option<&FrameRow> {
        self.current_loop()?.frames().get(self.selected?)
    }

    /// Carries out a command; what is left for the rim comes back.
    pub fn apply(&mut self, command: Command) -> Option<Effect> {
        self.remark = None;
        match command {
            Command::Open(path) => return Some(self.open(path)),
            Command::Loaded(model) => self.loaded(model),
            Command::Failed(message) => self.failed(message),
            Command::Escape => return self.escape(),
            Command::SetMetric(metric) => self.metric = metric,
            Command::SetLoop(index) => self.set_loop(index),
            Command::NextLoop => self.next_loop(),
            Command::Zoom { factor, around } => self.zoom(factor, around),
            Command::Pan(share) => self.pan(share),
            Command::ShowAll => self.view = self.whole(),
            Command::ShowStart => self.show_around(self.whole().from),
            Command::ShowEnd => self.show_around(self.whole().to),
            Command::Stretch(stretch) => self.stretch = Some(stretch),
            Command::ShowStretch => self.show_stretch(),
            Command::Select(index) => self.select(Some(index)),
            Command::Step(by) => self.step(by),
            Command::NextSpike => self.select_spike(FrameLoop::next_spike),
            Command::PreviousSpike => self.select_spike(FrameLoop::previous_spike),
            Command::GoTo { in_loop, number } => self.go_to(in_loop.as_deref(), number),
            Command::ToggleHelp => self.help = !self.help,
            Command::ToggleTheme => self.toggle_theme(),
            Command::DismissBanner => self.banner_dismissed = true,
        }
        None
    }

    fn open(&mut self, path: PathBuf) -> Effect {
        self.document = Document::Loading(path.clone());
        Effect::Load(path)
    }

    fn loaded(&mut self, model: Arc<ViewModel>) {
        let aim = std::mem::take(&mut self.aim);
        *self = Self {
            document: Document::Open(model),
            metric: self.metric,
            theme: self.theme,
            help: self.help,
            ..Self::default()
        };
        self.view = self.whole();
        self.remark = self.take_aim(&aim).err();
    }

    /// Shows the loop and the frame that were asked for, or says why not.
    fn take_aim(&mut self, aim: &Aim) -> Result<(), String> {
        if let Some(name) = &aim.in_loop {
            let loops = self.model().map_or(&[][..], |model| &model.loops);
            let Some(index) = loops.iter().position(|game| game.name == *name) else {
                let names: Vec<_> = loops.iter().map(|game| &game.name).collect();
                return Err(format!(
                    "no loop is named {name:?}; the trace has {names:?}"
                ));
            };
            self.set_loop(index);
        }
        let Some(number) = aim.frame else {
            return Ok(());
        };
        self.go_to(None, number);
        let frames = self.current_loop().map_or(0, |game| game.frames().len());
        match self.selected {
            Some(_) => Ok(()),
            None => Err(format!(
                "there is no frame {number} among the loop's {frames} frames"
            )),
        }
    }

    fn failed(&mut self, message: String) {
        if let Document::Loading(path) = &self.document {
            self.document = Document::Failed {
                path: path.clone(),
                message,
            };
        }
    }

    fn escape(&mut self) -> Option<Effect> {
        if self.help {
            self.help = false;
        } else if matches!(self.document, Document::Loading(_)) {
            self.document = Document::Empty;
            return Some(Effect::StopLoading);
        } else {
            self.selected = None;
            self.stretch = None;
        }
        None
    }

    fn toggle_theme(&mut self) {
        self.theme = match self.theme {
            Theme::Dark => Theme::Light,
            Theme::Light => Theme::Dark,
        };
    }

    fn set_loop(&mut self, index: usize) {
        let loops = self.model().map_or(0, |model| model.loops.len());
        if index < loops && index != self.loop_index {
            self.loop_index = index;
            self.selected = None;
        }
    }

    fn next_loop(&mut self) {
        let loops = self.model().map_or(0, |model| model.loops.len());
        if loops > 0 {
            self.set_loop((self.loop_index + 1) % loops);
        }
    }

    /// The whole recording, with a margin on either side.
    pub fn whole(&self) -> Span {
        let duration = self.model().map_or(0.0, |model| model.duration);
        let duration = duration.max(SHORTEST_VIEW);
        Span {
            from: -MARGIN * duration,
            to: (1.0 + MARGIN) * duration,
        }
    }

    fn zoom(&mut self, factor: f64, around: f64) {
        if !(factor.is_finite() && factor > 0.0 && around.is_finite()) {
            return;
        }
        let whole = self.whole();
        let length = (self.view.length() / factor).clamp(SHORTEST_VIEW, whole.length());
        let fixed = self.view.at(around);
        self.show(Span {
            from: fixed - length * around,
            to: fixed + length * (1.0 - around),
        });
    }

    fn pan(&mut self, share: f64) {
        if share.is_finite() {
            let by = self.view.length() * share;
            self.show(Span {
                from: self.view.from + by,
                to: self.view.to + by,
            });
        }
    }

    /// Shows a stretch, moved to lie within the recording.
    fn show(&mut self, span: Span) {
        let whole = self.whole();
        let length = span.length().clamp(SHORTEST_VIEW, whole.length());
        let from = span.from.clamp(whole.from, whole.to - length);
        self.view = Span {
            from,
            to: from + length,
        };
    }

    /// Keeps the length of the view and puts an instant in its middle.
    fn show_around(&mut self, time: f64) {
        let half = self.view.length() / 2.0;
        self.show(Span {
            from: time - half,
            to: time + half,
        });
    }

    fn show_stretch(&mut self) {
        if let Some(stretch) = self.stretch.take()
            && stretch.length().abs() > SHORTEST_VIEW
        {
            self.show(Span {
                from: stretch.from.min(stretch.to),
                to: stretch.from.max(stretch.to),
            });
        }
    }

    fn select(&mut self, index: Option<usize>) {
        let Some(frame) = index.and_then(|index| self.current_loop()?.frames().get(index)) else {
            return;
        };
        let middle = (frame.start + frame.end) / 2.0;
        self.selected = index;
        if middle < self.view.from || middle > self.view.to {
            self.show_around(middle);
        }
    }

    fn step(&mut self, by: isize) {
        let Some(game) = self.current_loop() else {
            return;
        };
        let last = game.frames().len().saturating_sub(1);
        let index = match self.selected {
            Some(index) => index.saturating_add_signed(by).min(last),
            None => game.overlapping(self.view.from, self.view.to).start,
        };
        self.select(Some(index));
    }

    fn select_spike(&mut self, find: fn(&FrameLoop, Option<usize>) -> Option<usize>) {
        let found = self
            .current_loop()
            .and_then(|game| find(game, self.selected));
        self.select(found);
    }

    fn go_to(&mut self, in_loop: Option<&str>, number: u64) {
        let named = |model: &ViewModel| model.loops.iter().position(|g| Some(&*g.name) == in_loop);
        if let Some(index) = self.model().and_then(named) {
            self.set_loop(index);
        }
        let Some(index) = self.current_loop().and_then(|game| game.numbered(number)) else {
            return;
        };
        self.selected = Some(index);
        if let Some(&frame) = self.selected_frame() {
            let room = (frame.end - frame.start).max(SHORTEST_VIEW) * FRAMES_AROUND / 2.0;
            self.show(Span {
                from: frame.start - room,
                to: frame.end + room,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn opened() -> State {
        let mut state = State::default();
        state.apply(Command::Open("sample.hreel".into()));
        state.apply(Command::Loaded(Arc::new(sample::model(2000))));
        state
    }

    fn inside(state: &State) -> bool {
        let whole = state.whole();
        state.view.from >= whole.from - 1e-9
            && state.view.to <= whole.to + 1e-9
            && state.view.length() > 0.0
    }

    #[test]
    fn a_trace_opens_with_the_whole_recording_in_view() {
        let state = opened();
        assert_eq!(state.view, state.whole());
        assert_eq!(state.current_loop().unwrap().frames().len(), 2000);
    }

    #[test]
    fn zooming_keeps_the_place_under_the_pointer() {
        let mut state = opened();
        let fixed = state.view.at(0.3);
        state.apply(Command::Zoom {
            factor: 4.0,
            around: 0.3,
        });
        assert!((state.view.at(0.3) - fixed).abs() < 1e-9);
        assert!(inside(&state));
    }

    #[test]
    fn the_view_never_leaves_the_recording() {
        let mut state = opened();
        let commands = [
            Command::Zoom {
                factor: 1e12,
                around: 0.5,
            },
            Command::Pan(1e9),
            Command::Pan(-1e9),
            Command::Zoom {
                factor: 1e-12,
                around: 0.1,
            },
            Command::Zoom {
                factor: f64::NAN,
                around: 0.5,
            },
            Command::Zoom {
                factor: 0.0,
                around: 0.5,
            },
            Command::Pan(f64::INFINITY),
            Command::ShowEnd,
            Command::ShowStart,
            Command::Stretch(Span {
                from: 5.0,
                to: -70.0,
            }),
            Command::ShowStretch,
        ];
        for command in commands {
            state.apply(command.clone());
            assert!(inside(&state), "{command:?}: {:?}", state.view);
        }
    }

    #[test]
    fn spikes_and_steps_stay_in_view() {
        let mut state = opened();
        state.apply(Command::Zoom {
            factor: 200.0,
            around: 0.0,
        });
        for _ in 0..20 {
            state.apply(Command::NextSpike);
            let frame = *state.selected_frame().unwrap();
            assert!(frame.spike);
            assert!(state.view.from <= frame.end && frame.start <= state.view.to);
        }
        let before = state.selected.unwrap();
        state.apply(Command::Step(-3));
        assert_eq!(state.selected, Some(before - 3));
        state.apply(Command::Step(isize::MIN));
        assert_eq!(state.selected, Some(0));
        state.apply(Command::Step(isize::MAX));
        assert_eq!(state.selected, Some(1999));
    }

    #[test]
    fn going_to_a_frame_shows_it_large() {
        let mut state = opened();
        state.apply(Command::GoTo {
            in_loop: Some("main".into()),
            number: 1234,
        });
        assert_eq!(state.selected_frame().unwrap().number, 1234);
        assert!(state.view.length() < 2.0);
        let before = state.view;
        state.apply(Command::GoTo {
            in_loop: None,
            number: 999_999,
        });
        assert_eq!(state.view, before);
    }

    #[test]
    fn a_wish_that_cannot_be_fulfilled_is_remarked() {
        let open = |aim: Aim| {
            let mut state = State {
                aim,
                ..State::default()
            };
            state.apply(Command::Open("sample.hreel".into()));
            state.apply(Command::Loaded(Arc::new(sample::model(100))));
            state
        };
        let shown = open(Aim {
            in_loop: Some("main".into()),
            frame: Some(50),
        });
        assert_eq!((shown.selected, shown.remark), (Some(50), None));
        let no_frame = open(Aim {
            in_loop: None,
            frame: Some(5000),
        });
        assert!(no_frame.remark.unwrap().contains("no frame 5000"));
        let no_loop = open(Aim {
            in_loop: Some("render".into()),
            frame: None,
        });
        assert!(no_loop.remark.unwrap().contains("\"main\""));
    }

    #[test]
    fn escape_closes_what_is_in_front() {
        let mut state = State::default();
        assert_eq!(
            state.apply(Command::Open("a".into())),
            Some(Effect::Load("a".into()))
        );
        state.apply(Command::ToggleHelp);
        assert_eq!(state.apply(Command::Escape), None);
        assert!(!state.help);
        assert_eq!(state.apply(Command::Escape), Some(Effect::StopLoading));
        assert!(matches!(state.document, Document::Empty));
        // What the loader still says after that changes nothing.
        state.apply(Command::Failed("too late".into()));
        assert!(matches!(state.document, Document::Empty));
    }

    #[test]
    fn commands_without_a_trace_do_nothing() {
        let mut state = State::default();
        for command in [
            Command::NextSpike,
            Command::Step(1),
            Command::NextLoop,
            Command::ShowAll,
        ] {
            assert_eq!(state.apply(command), None);
        }
        assert!(state.view.length() > 0.0);
    }
}
