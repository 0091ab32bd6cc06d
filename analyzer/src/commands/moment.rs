//! A moment of a run, as commands are asked for one.

use super::models::Stage;
use anyhow::{anyhow, bail};
use heapreel_analyzer::fragmentation::{Books, Until, Wanted, end_of_frame, header_of, until};
use heapreel_analyzer::place::Place;
use heapreel_analyzer::what_if::{Choice, Configuration, ModelName, Run};
use std::str::FromStr;

/// Which moment.
#[derive(clap::Args)]
pub struct MomentArgs {
    /// The moment at which this frame ends: 4213, or last for the trace's end
    #[arg(long, value_name = "N", conflicts_with = "at")]
    pub frame: Option<FrameNumber>,
    /// The moment: a frame's beginning 4213, a time 12.5s, or a mark @"level loaded"
    #[arg(long, value_name = "PLACE")]
    pub at: Option<Place>,
}

/// A frame of the main loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameNumber {
    /// By its number.
    Number(u64),
    /// What the trace ends with.
    Last,
}

impl FromStr for FrameNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<FrameNumber, String> {
        match text {
            "last" => Ok(FrameNumber::Last),
            text => text
                .parse()
                .map(FrameNumber::Number)
                .map_err(|_| format!("{text:?} is no frame; write its number, 4213, or last")),
        }
    }
}

impl MomentArgs {
    /// The moment as a place; none for the trace's end.
    pub fn place(&self) -> Option<Place> {
        match self.frame {
            // A frame ends where the next one begins.
            Some(FrameNumber::Number(number)) => Some(Place::Frame(number.saturating_add(1))),
            Some(FrameNumber::Last) => None,
            None => self.at.clone(),
        }
    }

    /// The moment in words.
    pub fn told(&self) -> Option<String> {
        match (self.frame, &self.at) {
            (Some(FrameNumber::Number(number)), _) => Some(format!("the end of frame {number}")),
            (Some(FrameNumber::Last), _) => None,
            (None, Some(Place::Frame(number))) => Some(format!("frame {number}")),
            (None, at) => at.as_ref().map(ToString::to_string),
        }
    }

    fn until(&self, stage: &Stage) -> anyhow::Result<Until> {
        match (self.frame, &self.at) {
            (Some(FrameNumber::Number(number)), _) => Ok(end_of_frame(number)),
            (_, Some(place)) => until(&stage.trace, &stage.scene, place)?
                .map_err(|message| anyhow!("{}: {message}", stage.file)),
            _ => Ok(Until::End),
        }
    }

    /// Runs a model up to the moment, or with `every` through the whole trace.
    ///
    /// # Errors
    ///
    /// A model that makes no sense; a moment that the trace does not have.
    pub fn run(
        &self,
        stage: &Stage,
        choice: &Choice,
        configuration: &Configuration,
        every: Option<u64>,
        address: Option<u64>,
    ) -> anyhow::Result<(Run, Books)> {
        let run = stage.run(choice, configuration)?;
        let books = Books::new(Wanted {
            until: self.until(stage)?,
            every: every.unwrap_or(0),
            address,
            header: header_of(run.ledger().model()),
            segments: segment_names(stage, choice, &run),
        });
        let (mut runs, fed) = stage.replay(vec![(run, books)])?;
        let (run, books) = runs.pop().ok_or_else(|| anyhow!("no model ran"))?;
        let file = &stage.file;
        match (books.arrived(), self.frame, &self.at) {
            (true, ..) => Ok((run, books)),
            (_, _, Some(Place::Time(_))) => bail!(
                "{file}: has no place {}; the recording is {:.3} s long",
                self.at
                    .as_ref()
                    .map_or_else(String::new, ToString::to_string),
                fed.nanos as f64 / 1e9
            ),
            (_, _, Some(Place::Mark { .. })) => Ok((run, books)),
            _ if books.frame_ends < 2 => bail!(
                "{file}: has no frame marks; name a time by --at 12.5s, or leave it away for the end"
            ),
            _ => bail!(
                "{file}: has no such frame; the main loop has {}, counted from 0",
                heapreel_analyzer::units::plural(fed.frames, "frame")
            ),
        }
    }
}

/// What really happened lies in the trace's own segments; a model may have others.
fn segment_names(stage: &Stage, choice: &Choice, run: &Run) -> Vec<String> {
    if choice.model != ModelName::Recorded {
        return run.segments().to_vec();
    }
    let segments = stage.scene.segments.iter();
    segments.map(|segment| segment.name.clone()).collect()
}
