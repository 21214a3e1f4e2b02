//! The attributes of `durably`. They are documented where they are re-exported, in `durably` itself, so that the examples
//! in their documentation compile.
#![forbid(unsafe_code)]
#![allow(missing_docs)]

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

#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::task(options.into(), item.into()).into()
}

#[proc_macro_attribute]
pub fn entrypoint(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::entrypoint(options.into(), item.into()).into()
}
