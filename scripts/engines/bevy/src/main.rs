//! A headless app of bevy that heapreel records from the inside: the app's updates are its
//! game frames, and bevy's own spans its contexts.
//!
//! usage: headless-bevy TRACE [FRAMES]
//!
//! What the app knows of itself is printed: frames, and what its system `hoard` keeps.

use bevy::app::ScheduleRunnerPlugin;
use bevy::log::{BoxedLayer, LogPlugin, tracing_subscriber::Layer};
use bevy::prelude::*;
use heapreel::bevy::FramePlugin;
use heapreel::tracing::SpanContexts;
use std::alloc::System;

#[global_allocator]
static ALLOC: heapreel::Recorder<System> = heapreel::Recorder::system();

/// Bytes of each block that `hoard` keeps.
const HOARDED: usize = 3_001;

#[derive(Resource)]
struct Frames {
    done: u32,
    wanted: u32,
}

#[derive(Resource)]
struct Hoard(Vec<Vec<u8>>);

#[derive(Component)]
struct Label(#[expect(dead_code, reason = "is memory")] String);

#[derive(Component)]
struct FramesLeft(u32);

fn come(mut commands: Commands, frames: Res<Frames>) {
    for number in 0..50 {
        let label = Label(format!("particle {number} of frame {}", frames.done));
        commands.spawn((label, FramesLeft(1 + number % 30)));
    }
}

fn age(mut commands: Commands, mut all: Query<(Entity, &mut FramesLeft)>) {
    for (entity, mut left) in &mut all {
        left.0 -= 1;
        if left.0 == 0 {
            commands.entity(entity).despawn();
        }
    }
}

fn hoard(mut hoard: ResMut<Hoard>) {
    hoard.0.push(vec![1; HOARDED]);
}

fn end(mut frames: ResMut<Frames>, mut exit: MessageWriter<AppExit>) {
    frames.done += 1;
    if frames.done == frames.wanted {
        heapreel::mark("full");
        exit.write(AppExit::Success);
    }
}

fn spans(_app: &mut App) -> Option<BoxedLayer> {
    Some(SpanContexts.boxed())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let trace = arguments
        .next()
        .expect("usage: headless-bevy TRACE [FRAMES]");
    let wanted = arguments.next().and_then(|text| text.parse().ok());
    let wanted = wanted.unwrap_or(120);
    heapreel::start(heapreel::Config::new(trace)).expect("heapreel");
    let log = LogPlugin {
        custom_layer: spans,
        ..default()
    };
    App::new()
        .add_plugins((
            MinimalPlugins.set(ScheduleRunnerPlugin::default()),
            log,
            FramePlugin,
        ))
        .insert_resource(Frames { done: 0, wanted })
        .insert_resource(Hoard(Vec::with_capacity(wanted as usize)))
        .add_systems(Update, (come, age, hoard).chain())
        .add_systems(Last, end)
        .run();
    heapreel::stop();
    println!("frames {wanted}");
    println!("hoard {}", wanted as usize * HOARDED);
}
