//! Renderers of an [`Analysis`](crate::Analysis): text, Markdown, CSV.
