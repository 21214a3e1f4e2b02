//! The attributes of `durably`. They are documented where they are re-exported: in `durably` itself.

mod args;
mod diag;
mod duration;
mod expand;
mod func;
mod key;
mod lifetimes;
mod lint;
mod model;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Records what a function returns, once for each call. See `durably::task`.
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::task(options.into(), item.into()).into()
}

/// Makes a function a replayable run. See `durably::entrypoint`.
#[proc_macro_attribute]
pub fn entrypoint(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::entrypoint(options.into(), item.into()).into()
}
