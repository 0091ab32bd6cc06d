//! Drives the viewer as a person would: by the names of what is on the screen.

use eframe::egui::{Key, Modifiers, Role, Theme, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable as _;
use heapreel_viewer::state::{Command, Document, State};
use heapreel_viewer::view_model::ViewModel;
use heapreel_viewer::{Metric, Viewer, apply_theme, sample};
use std::sync::Arc;

type Driven = Harness<'static, Viewer>;

fn drive(state: State) -> Driven {
    let viewer = Viewer::new(state, |path, _| {
        Err(format!("{}: not a trace; record one", path.display()))
    });
    Driven::builder()
        .with_size(vec2(1280.0, 800.0))
        .with_max_steps(30)
        .with_context_setup(|context| apply_theme(context, Theme::Dark))
        .build_ui_state(|ui, viewer: &mut Viewer| viewer.show(ui), viewer)
}

fn opened(model: ViewModel) -> Driven {
    let mut state = State::default();
    state.apply(Command::Open("sample.hreel".into()));
    state.apply(Command::Loaded(Arc::new(model)));
    let mut driven = drive(state);
    driven.run();
    driven
}

fn sample() -> Driven {
    opened(sample::model(2000))
}

fn press(driven: &mut Driven, key: Key) {
    driven.key_press(key);
    driven.run();
}

#[test]
fn a_finding_leads_to_its_frame_in_one_click() {
    let mut driven = sample();
    let guilty = driven.state().state().model().unwrap().findings[0].clone();
    let (_, number) = guilty.frame.unwrap();
    // The first is the finding's, one further down leads to the greatest figure.
    let label = format!("Show frame {number}");
    driven.get_all_by_label(&label).next().unwrap().click();
    driven.run();
    let state = driven.state().state();
    assert_eq!(state.selected_frame().unwrap().number, number);
    assert!(state.view.length() < 2.0);
    driven.get_by_label(&format!("Frame {number}"));
}

#[test]
fn every_figure_can_be_chosen_by_name_and_by_key() {
    let mut driven = sample();
    let keys = [Key::Num1, Key::Num2, Key::Num3, Key::Num4];
    for (metric, key) in Metric::ALL.into_iter().zip(keys).rev() {
        driven
            .get_by_role_and_label(Role::Button, metric.label())
            .click();
        driven.run();
        assert_eq!(driven.state().state().metric, metric);
        driven.get_by_label(&format!("{} of frames", metric.label()));
        press(&mut driven, Key::Num1);
        assert_eq!(driven.state().state().metric, Metric::FrameTime);
        press(&mut driven, key);
        assert_eq!(driven.state().state().metric, metric);
    }
}

#[test]
fn spikes_are_walked_by_buttons_and_keys() {
    let mut driven = sample();
    driven.get_by_label("Next spike").click();
    driven.run();
    let first = driven.state().state().selected.unwrap();
    press(&mut driven, Key::N);
    assert!(driven.state().state().selected.unwrap() > first);
    driven.get_by_label("Previous spike").click();
    driven.run();
    assert_eq!(driven.state().state().selected, Some(first));
    press(&mut driven, Key::Escape);
    assert_eq!(driven.state().state().selected, None);
}

#[test]
fn arrow_keys_zoom_and_move_and_home_shows_all() {
    let mut driven = sample();
    let whole = driven.state().state().view;
    press(&mut driven, Key::ArrowUp);
    let zoomed = driven.state().state().view;
    assert!(zoomed.length() < whole.length());
    press(&mut driven, Key::ArrowRight);
    assert!(driven.state().state().view.from > zoomed.from);
    press(&mut driven, Key::Home);
    assert_eq!(driven.state().state().view, whole);
}

#[test]
fn wheel_zooms_where_the_pointer_is_and_drag_moves() {
    let mut driven = sample();
    let whole = driven.state().state().view;
    let bars = driven.get_by_label("Frame time of frames").rect();
    driven.hover_at(bars.center());
    driven.event(eframe::egui::Event::MouseWheel {
        unit: eframe::egui::MouseWheelUnit::Point,
        delta: vec2(0.0, 200.0),
        modifiers: Modifiers::NONE,
        phase: eframe::egui::TouchPhase::Move,
        source: eframe::egui::MouseWheelSource::Unknown,
    });
    driven.run();
    let zoomed = driven.state().state().view;
    assert!(zoomed.length() < whole.length() * 0.8);
    assert!((zoomed.at(0.5) - whole.at(0.5)).abs() < whole.length() * 0.01);
    driven.drag_at(bars.center());
    driven.run();
    driven.hover_at(bars.center() - vec2(120.0, 0.0));
    driven.run();
    driven.drop_at(bars.center() - vec2(120.0, 0.0));
    driven.run();
    let moved = driven.state().state().view;
    assert!(moved.from > zoomed.from);
    assert!((moved.length() - zoomed.length()).abs() < 1e-9);
}

#[test]
fn a_click_chooses_the_frame_under_the_pointer() {
    let mut driven = sample();
    let bars = driven.get_by_label("Frame time of frames").rect();
    driven.hover_at(bars.center());
    driven.run();
    driven.drag_at(bars.center());
    driven.drop_at(bars.center());
    driven.run();
    let state = driven.state().state();
    let frame = state.selected_frame().unwrap();
    let pixel = state.view.length() / f64::from(bars.width());
    let middle = state.view.at(0.5);
    assert!(frame.start - pixel <= middle && middle <= frame.end + pixel);
}

#[test]
fn f1_shows_the_keys_and_escape_hides_them() {
    let mut driven = sample();
    press(&mut driven, Key::F1);
    driven.get_by_label("Keys and mouse");
    driven.get_by_label("next spike");
    press(&mut driven, Key::Escape);
    assert!(driven.query_by_label("Keys and mouse").is_none());
    driven.get_by_label("Help").click();
    driven.run();
    driven.get_by_label("Close").click();
    driven.run();
    assert!(driven.query_by_label("Keys and mouse").is_none());
}

#[test]
fn light_and_dark_are_switched_by_name() {
    let mut driven = sample();
    driven.get_by_label("Light").click();
    driven.run();
    assert_eq!(driven.ctx.theme(), Theme::Light);
    driven.get_by_label("Dark").click();
    driven.run();
    assert_eq!(driven.ctx.theme(), Theme::Dark);
}

#[test]
fn a_trace_that_is_not_whole_says_so_until_dismissed() {
    let mut driven = opened(ViewModel {
        missing: vec!["12 records are missing".to_owned()],
        ..sample::model(100)
    });
    driven.get_by_label("This trace is not whole");
    driven.get_by_label_contains("12 records are missing");
    driven.get_by_label("Dismiss").click();
    driven.run();
    assert!(driven.query_by_label("This trace is not whole").is_none());
}

#[test]
fn a_trace_without_frames_says_why_and_what_to_do() {
    let driven = opened(ViewModel {
        loops: Vec::new(),
        findings: Vec::new(),
        ..sample::model(100)
    });
    driven.get_by_label("No frame marks");
    driven.get_by_label_contains("--frame-symbol");
    driven.get_by_label_contains("Nothing stands out");
    driven.get_by_label("Live bytes over time");
}

#[test]
fn an_empty_trace_and_no_trace_have_something_to_say() {
    opened(ViewModel::default()).get_by_label("No allocations");
    let mut driven = drive(State::default());
    driven.run();
    driven.get_by_label("No trace is open");
    driven.get_by_label_contains("heapreel record");
}

#[test]
fn a_trace_that_cannot_be_opened_is_told_and_another_can_be_dropped() {
    let mut driven = drive(State::default());
    let context = driven.ctx.clone();
    let open = Command::Open("/tmp/readme.txt".into());
    driven.state_mut().apply(&context, open);
    // The loader wakes the window; until then the window shows progress.
    while matches!(driven.state().state().document, Document::Loading(_)) {
        driven.step();
    }
    driven.run();
    driven.get_by_label("The trace could not be opened");
    driven.get_by_label_contains("not a trace");
    driven.get_by_label_contains("Drop another");
}

#[test]
fn loading_can_be_cancelled() {
    let mut driven = drive(State::default());
    let context = driven.ctx.clone();
    *driven.state_mut() = Viewer::new(State::default(), |_, control| {
        while !control.stopped() {
            control.report("counting events", 1, 4);
            std::thread::yield_now();
        }
        Err(String::new())
    });
    let open = Command::Open("large.hreel".into());
    driven.state_mut().apply(&context, open);
    driven.run_steps(2);
    driven.get_by_label("Reading the trace");
    driven.get_by_label("Cancel").click();
    driven.run_steps(3);
    driven.get_by_label("No trace is open");
}

/// Corners of all triangles that the window draws.
fn corners(driven: &Driven) -> usize {
    let shapes = driven.output().shapes.clone();
    let primitives = driven.ctx.tessellate(shapes, 1.0);
    let corners = primitives.iter().map(|each| match &each.primitive {
        eframe::epaint::Primitive::Mesh(mesh) => mesh.vertices.len(),
        eframe::epaint::Primitive::Callback(_) => 0,
    });
    corners.sum()
}

#[test]
fn a_hundred_times_the_frames_draw_no_more() {
    let some = corners(&opened(sample::model(1_000)));
    let many = corners(&opened(sample::model(100_000)));
    assert!(many < some * 2, "{some} and {many} corners");
}
