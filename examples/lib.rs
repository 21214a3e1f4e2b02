//! Flat files beside this one, one idea each; run them with `cargo run --example NAME`.
