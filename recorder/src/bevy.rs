//! An app of bevy ends its frames by itself.
//!
//! ```
//! use bevy_app::App;
//!
//! App::new().add_plugins(heapreel::bevy::FramePlugin).update();
//! ```
//!
//! What systems allocate is told apart by [`SpanContexts`](crate::tracing::SpanContexts),
//! with bevy's feature `trace`. The feature `bevy` goes with bevy 0.19.

use bevy_app::{App, Last, MainScheduleOrder, Plugin};
use bevy_ecs::schedule::{ScheduleLabel, SingleThreadedExecutor};

/// Ends a game frame of the loop "main" with each update of the app.
///
/// The mark stands behind the schedule [`Last`], in one of its own ([`FrameEnd`]): what any
/// system of the main schedules does belongs to the frame that it runs in. The first mark
/// ends start-up and the first update. An app inside the app, such as the one that renders,
/// does its work after the mark, beside the next frame or at its beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct FramePlugin;

/// The schedule behind [`Last`] that holds nothing but the frame mark.
#[derive(ScheduleLabel, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameEnd;

impl Plugin for FramePlugin {
    fn build(&self, app: &mut App) {
        app.init_schedule(FrameEnd)
            .edit_schedule(FrameEnd, |schedule| {
                // On the thread that runs the app, and at no cost of tasks.
                schedule.set_executor(SingleThreadedExecutor::new());
            })
            .add_systems(FrameEnd, crate::frame_mark);
        app.world_mut()
            .get_resource_or_init::<MainScheduleOrder>()
            .insert_after(Last, FrameEnd);
    }
}
