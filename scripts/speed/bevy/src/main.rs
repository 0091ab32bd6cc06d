//! A bevy app without a window: 20,000 entities that stay, 2,000 that come in each frame
//! and live for up to 30, with names, inventories and an event when they go.
//!
//! usage: speed-bevy [frames]
#![allow(unsafe_code, reason = "counts the calls of the allocator")]

use bevy_app::prelude::*;
use bevy_ecs::prelude::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const STANDING: u16 = 20_000;
const COMING: u32 = 2_000;

/// Counts what bevy asks for: the figures are given per event.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static DEALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        DEALLOCATIONS.fetch_add(1, Relaxed);
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        unsafe { System.realloc(place, layout, size) }
    }
}

#[derive(Component)]
struct Position([f32; 3]);
#[derive(Component)]
struct Velocity([f32; 3]);
#[derive(Component)]
struct Label(String);
#[derive(Component)]
struct Inventory(Vec<u32>);
#[derive(Component)]
struct FramesLeft(u32);

#[derive(Event)]
struct Gone {
    text: String,
}

fn set_up(mut commands: Commands) {
    for i in 0..STANDING {
        commands.spawn((Position([f32::from(i); 3]), Velocity([1.0, 0.5, 0.25])));
    }
}

fn come(mut commands: Commands, mut count: Local<u32>) {
    for i in 0..COMING {
        *count += 1;
        let items = vec![i; 1 + i as usize % 32];
        commands.spawn((
            Position([0.0; 3]),
            Velocity([0.1; 3]),
            Label(format!("particle {}", *count)),
            Inventory(items),
            FramesLeft(1 + i % 30),
        ));
    }
}

fn step(mut moving: Query<(&mut Position, &Velocity)>) {
    moving.par_iter_mut().for_each(|(mut position, velocity)| {
        for (at, by) in position.0.iter_mut().zip(velocity.0) {
            *at += by * 0.016;
        }
    });
}

fn age(
    mut commands: Commands,
    mut all: Query<(Entity, &Label, &mut FramesLeft, &mut Inventory)>,
    mut gone: EventWriter<Gone>,
) {
    for (entity, label, mut left, mut inventory) in &mut all {
        left.0 -= 1;
        if left.0 % 8 == 1 {
            inventory.0.push(left.0);
        }
        if left.0 == 0 {
            gone.write(Gone {
                text: format!("{} is gone", label.0),
            });
            commands.entity(entity).despawn();
        }
    }
}

fn read(mut gone: EventReader<Gone>, mut length: Local<usize>) {
    *length += gone.read().map(|event| event.text.len()).sum::<usize>();
}

fn main() {
    let frames = std::env::args().nth(1);
    let frames: u32 = frames.and_then(|text| text.parse().ok()).unwrap_or(600);
    let mut app = App::new();
    app.add_plugins((TaskPoolPlugin::default(), bevy_time::TimePlugin))
        .add_event::<Gone>()
        .add_systems(Startup, set_up)
        .add_systems(Update, (come, step, age, read).chain());
    app.finish();
    app.cleanup();
    let begin = std::time::Instant::now();
    (0..frames).for_each(|_| app.update());
    println!(
        "wall_s={:.3} mallocs={} frees={}",
        begin.elapsed().as_secs_f64(),
        ALLOCATIONS.load(Relaxed),
        DEALLOCATIONS.load(Relaxed)
    );
}
