//! The viewer's command line.

use clap::{Parser, ValueEnum};
use eframe::egui;
use std::path::PathBuf;

/// Look through a heapreel trace: frames, live bytes, findings.
#[derive(Clone, Debug, Parser)]
#[command(name = "heapreel-viewer", version, after_help = EXAMPLES)]
pub struct Args {
    /// The trace to open; without one, drop a file on the window.
    pub trace: Option<PathBuf>,

    /// Draw into this PNG file instead of opening a window; needs no display.
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub screenshot: Option<PathBuf>,

    /// Size of the window or picture in pixels.
    #[arg(long, value_name = "WxH", default_value = "1280x800", value_parser = size)]
    pub size: (u32, u32),

    /// Light or dark colours.
    #[arg(long, default_value = "dark")]
    pub theme: Theme,

    /// The screen to show.
    #[arg(long, default_value = "timeline")]
    pub screen: Screen,

    /// The figure that bars show.
    #[arg(long, default_value = "time")]
    pub bars: Bars,

    /// The frame to choose and show large.
    #[arg(long, value_name = "N")]
    pub frame: Option<u64>,

    /// The loop whose frames are shown.
    #[arg(long = "loop", value_name = "NAME")]
    pub game_loop: Option<String>,
}

const EXAMPLES: &str = "Examples:
  heapreel-viewer demo.hreel
  heapreel-viewer demo.hreel --screenshot demo.png --frame 1200 --theme light";

/// Colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Theme {
    /// Light text on dark.
    Dark,
    /// Dark text on light.
    Light,
}

impl From<Theme> for egui::Theme {
    fn from(theme: Theme) -> Self {
        match theme {
            Theme::Dark => Self::Dark,
            Theme::Light => Self::Light,
        }
    }
}

/// A screen of the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Screen {
    /// Frames and live bytes over time.
    Timeline,
}

/// A figure that bars can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bars {
    /// Frame time.
    Time,
    /// Allocations.
    Allocations,
    /// Bytes asked for.
    Bytes,
    /// Time in the allocator.
    AllocatorTime,
}

impl From<Bars> for crate::metric::Metric {
    fn from(bars: Bars) -> Self {
        match bars {
            Bars::Time => Self::FrameTime,
            Bars::Allocations => Self::Allocations,
            Bars::Bytes => Self::Bytes,
            Bars::AllocatorTime => Self::AllocatorTime,
        }
    }
}

/// Smallest and largest width and height of a picture.
const SIDES: std::ops::RangeInclusive<u32> = 64..=8192;

fn size(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once('x')
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    match parsed {
        Some((width, height)) if SIDES.contains(&width) && SIDES.contains(&height) => {
            Ok((width, height))
        }
        Some(_) => Err(format!(
            "each side is {} to {} pixels",
            SIDES.start(),
            SIDES.end()
        )),
        None => Err("write it as WIDTHxHEIGHT, such as 1280x800".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        assert_eq!(size("1280x800"), Ok((1280, 800)));
        for wrong in ["", "1280", "x", "1280x", "-1x5", "0x0", "1000000x1000000"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_screenshot_needs_a_trace() {
        assert!(Args::try_parse_from(["v", "--screenshot", "a.png"]).is_err());
        assert!(Args::try_parse_from(["v", "a.hreel", "--screenshot", "a.png"]).is_ok());
        assert!(Args::try_parse_from(["v"]).is_ok());
    }
}
