//! Symbols of small programs that know the line of every call they make.

mod build;
mod hostile;
mod inlined;
mod names;
mod separate;
mod trust;
