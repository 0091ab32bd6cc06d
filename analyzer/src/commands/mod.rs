//! The commands, one file each: their flags (`Args`) and what they do (`run`).

mod analysis;
mod capture;
pub mod compare;
pub mod contexts;
pub mod demo;
pub mod doctor;
pub mod frag;
pub mod frames;
pub mod import;
pub mod info;
pub mod leaks;
mod models;
mod moment;
mod output;
pub mod overrun;
mod program;
pub mod record;
pub mod recover;
pub mod replay;
pub mod report;
pub mod sharing;
pub mod spikes;
pub mod sweep;
pub mod symbols;
pub mod text;
pub mod trend;
pub mod view;
