//! Every mistake in one item, to be shown at once.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// Collects mistakes; each stage adds its own and goes on.
#[derive(Default)]
pub(crate) struct Diag(Vec<syn::Error>);

impl Diag {
    /// A mistake in these tokens.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.0.push(syn::Error::new_spanned(tokens, message));
    }

    /// A mistake at this place.
    pub(crate) fn here(&mut self, span: Span, message: impl Display) {
        self.0.push(syn::Error::new(span, message));
    }

    /// A mistake that a parser found.
    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.push(error);
    }

    /// The outcome of a parse, or `None` and its mistake.
    pub(crate) fn keep<T>(&mut self, parsed: syn::Result<T>) -> Option<T> {
        parsed.map_err(|error| self.push(error)).ok()
    }

    /// All of them, as `compile_error!`s.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.into_iter().map(syn::Error::into_compile_error).collect()
    }
}
