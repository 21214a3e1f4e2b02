//! One parameter: what the caller passes, and how the body takes it in.

use proc_macro2::Span;
use quote::format_ident;
use syn::{Attribute, Ident, Pat, PatType, Type, ext::IdentExt};

/// A parameter other than `self`.
pub(crate) struct Param {
    /// `#[cfg(..)]` of the parameter: what is done with it depends on them too.
    pub(crate) cfgs: Vec<Attribute>,
    /// Its other attributes.
    pub(crate) attrs: Vec<Attribute>,
    /// The name in the signature; the user's own, unless they wrote a pattern.
    pub(crate) ident: Ident,
    /// The pattern that the body takes it in with.
    pub(crate) pat: Pat,
    /// The type as the signature has it.
    pub(crate) ty: Type,
    /// The name in records.
    pub(crate) name: String,
}

impl Param {
    /// ```text
    /// mut url: &str, (a, b): (u8, u8)
    /// // in the signature      and in the body
    /// url: &str               let mut url = url;
    /// __argument1: (u8, u8)   let (a, b) = __argument1;
    /// ```
    pub(crate) fn new(index: usize, written: &PatType) -> Self {
        let (cfgs, attrs) = written.attrs.iter().cloned().partition(|attr| attr.path().is_ident("cfg"));
        let ident = match &*written.pat {
            Pat::Ident(pat) if pat.subpat.is_none() && pat.by_ref.is_none() => pat.ident.clone(),
            _ => format_ident!("__argument{index}", span = Span::mixed_site()),
        };
        let name = ident.unraw().to_string().trim_start_matches("__").to_owned();
        Self { cfgs, attrs, ident, pat: (*written.pat).clone(), ty: (*written.ty).clone(), name }
    }
}
