//! A function: its signature parsed, its body kept as it was written.
//!
//! A parsed body would show each of its syntax errors twice.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt, quote};
use syn::{
    Attribute, FnArg, Signature, Token, Visibility,
    parse::{Parse, ParseStream},
};

/// The item under an attribute.
#[derive(Clone)]
pub(crate) struct Func {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Body,
}

/// What stands after the signature.
#[derive(Clone)]
pub(crate) enum Body {
    /// The braces and what is between them.
    Block(Group),
    /// A declaration in a trait.
    Declared(Token![;]),
}

impl Parse for Func {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig = input.parse()?;
        let body = if input.peek(Token![;]) {
            Body::Declared(input.parse()?)
        } else {
            match input.parse()? {
                TokenTree::Group(block) => Body::Block(block),
                other => return Err(syn::Error::new_spanned(other, "expected the function's body")),
            }
        };
        Ok(Self { attrs, vis, sig, body })
    }
}

impl Func {
    /// The function as it was written, for when it cannot be expanded: whoever calls it must not break too.
    ///
    /// ```text
    /// #[doc = ".."] async fn f(#[previous] last: Option<u8>) { .. }
    /// // becomes
    /// #[doc = ".."] #[allow(unused, ..)] async fn f(last: Option<u8>) { .. }
    /// ```
    pub(crate) fn as_written(&self) -> TokenStream {
        let mut func = self.clone();
        for input in &mut func.sig.inputs {
            if let FnArg::Typed(param) = input {
                param.attrs.retain(|attr| !attr.path().is_ident("previous"));
            }
        }
        let Self { attrs, vis, sig, body } = func;
        quote!(#(#attrs)* #[allow(unused, async_fn_in_trait, clippy::all, clippy::pedantic)] #vis #sig #body)
    }
}

impl ToTokens for Body {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Block(block) => tokens.append(block.clone()),
            Self::Declared(semicolon) => semicolon.to_tokens(tokens),
        }
    }
}
