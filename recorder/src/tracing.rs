//! Spans of the crate `tracing` as contexts: what is allocated while a span is entered is
//! for that span.
//!
//! ```
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let subscriber = tracing_subscriber::registry().with(heapreel::tracing::SpanContexts);
//! # let _ = subscriber;
//! // tracing::subscriber::set_global_default(subscriber), or its .init()
//! ```

use crate::context_table::MAX_TEXT_BYTES;
use crate::text::Text;
use crate::told::{self, NOT_ENTERED};
use std::cell::RefCell;
use std::fmt::{self, Write};
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Spans that a thread can be in at once and that are contexts; those further in count for
/// the innermost of them.
pub const MOST_SPANS: usize = 128;

/// A layer that enters a context with each span, and leaves it with the span.
///
/// | span | context |
/// |---|---|
/// | `info_span!("system", name = "physics")` | `system:physics` |
/// | `info_span!("asset", path = "rock.mesh", lod = 2)` | `asset:path=rock.mesh lod=2` |
/// | `info_span!("autosave")` | `span:autosave` |
///
/// The span's name is the kind, its field `name` the name, or all its fields where it has
/// none of that name, or, without any field, the span's own name with the kind `span`. A
/// context lies within the one that the thread is in, whatever the span's parent: memory
/// is for what its thread is doing. Each time a span is entered is an instance.
///
/// Fields that are recorded later are in the contexts that are entered after it. Like any
/// layer it takes a filter: `SpanContexts.with_filter(LevelFilter::INFO)`. Beside what the
/// registry does itself a span costs what [`context!`](crate::context!) costs, and where
/// nothing is recorded its name is put together once, when the span is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanContexts;

impl<S> Layer<S> for SpanContexts
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut named = Named::default();
        attributes.record(&mut named);
        span.extensions_mut().insert(named);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(named) = span.extensions_mut().get_mut::<Named>() {
            values.record(named);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !crate::is_recording() {
            return;
        }
        let Some(span) = context.span(id) else { return };
        let extensions = span.extensions();
        let Some(named) = extensions.get::<Named>() else {
            return;
        };
        let (kind, name) = named.kind_and_name(span.metadata());
        with_entered(|entered| entered.enter(id.into_u64(), kind, name));
    }

    fn on_exit(&self, id: &Id, _context: Context<'_, S>) {
        with_entered(|entered| entered.leave(id.into_u64()));
    }
}

/// What a span's fields say.
#[derive(Debug, Default)]
struct Named {
    /// Its field `name`.
    name: String,
    /// All its fields, as `key=value`.
    fields: String,
}

impl Named {
    fn kind_and_name<'a>(&'a self, span: &'static Metadata<'static>) -> (&'a str, &'a str) {
        match (self.name.as_str(), self.fields.as_str()) {
            ("", "") => ("span", span.name()),
            ("", fields) => (span.name(), fields),
            (name, _) => (span.name(), name),
        }
    }

    fn note(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let mut text = Text::<MAX_TEXT_BYTES>::new();
        // Fails where the text is cut: then up to there.
        _ = text.write_fmt(value);
        if field.name() == "name" {
            self.name = text.as_str().to_owned();
            return;
        }
        let gap = if self.fields.is_empty() { "" } else { " " };
        _ = write!(self.fields, "{gap}{}={}", field.name(), text.as_str());
    }
}

impl Visit for Named {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.note(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.note(field, format_args!("{value:?}"));
    }
}

thread_local! {
    static ENTERED: RefCell<Entered> = const { RefCell::new(Entered::new()) };
}

/// The calling thread's spans; nothing where the thread is in the midst of this already,
/// as a signal handler's span would be.
fn with_entered(act: impl FnOnce(&mut Entered)) {
    _ = ENTERED.try_with(|entered| {
        entered
            .try_borrow_mut()
            .map(|mut entered| act(&mut entered))
    });
}

/// The spans that a thread is in, innermost last, each with the context to go back to.
struct Entered {
    spans: [(u64, u64); MOST_SPANS],
    count: usize,
}

impl Entered {
    const fn new() -> Entered {
        Entered {
            spans: [(0, 0); MOST_SPANS],
            count: 0,
        }
    }

    fn enter(&mut self, id: u64, kind: &str, name: &str) {
        let Some(place) = self.spans.get_mut(self.count) else {
            return;
        };
        let before = told::enter_context(kind, name);
        if before != NOT_ENTERED {
            *place = (id, before);
            self.count += 1;
        }
    }

    /// Spans may be left in another order than they were entered in: the thread then stays
    /// in the innermost one that is left.
    fn leave(&mut self, id: u64) {
        let spans = self.spans.get_mut(..self.count).unwrap_or_default();
        let Some(at) = spans.iter().rposition(|&(entered, _)| entered == id) else {
            return;
        };
        let (_, before) = spans[at];
        match spans.get_mut(at + 1) {
            Some(further_in) => further_in.1 = before,
            None => _ = told::resume_context(before),
        }
        spans.copy_within(at + 1.., at);
        self.count -= 1;
    }
}
