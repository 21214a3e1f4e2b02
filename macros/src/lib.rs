//! The attributes of `durably`.
use proc_macro::TokenStream;

/// Stub.
#[proc_macro_attribute]
pub fn task(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}

/// Stub.
#[proc_macro_attribute]
pub fn entrypoint(_: TokenStream, item: TokenStream) -> TokenStream {
    item
}
