//! Linker flags of the preload library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The loader runs our constructor before all others, so that what the program's
    // libraries allocate in theirs is seen. Without it a preloaded library comes last
    // of all libraries: `_dl_init` begins with those that others depend on.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    // Every symbol is found at start, never in the middle of a hook.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
}
