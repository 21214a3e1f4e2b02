//! What a function returns, as far as its tokens say.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    GenericArgument, Path, PathArguments, ReturnType, Token, Type, TypeParamBound, TypeTuple, punctuated::Punctuated,
    spanned::Spanned, token,
};

use crate::{
    diag::Diag,
    lifetimes::{self, Borrow},
};

/// A return type.
pub(crate) struct Output {
    pub(crate) ty: Type,
    pub(crate) form: Form,
}

/// What kind of return type.
pub(crate) enum Form {
    /// Anything that is not named `Result`.
    Plain,
    /// A `Result`, through whatever alias of that name.
    Result {
        /// Its first type, as written.
        value: Option<Box<Type>>,
        /// Its second type, as written.
        error: Option<Box<Type>>,
    },
}

impl Output {
    pub(crate) fn new(written: &ReturnType) -> Self {
        let ty = match written {
            ReturnType::Default => Type::Tuple(TypeTuple {
                attrs: Vec::new(),
                paren_token: token::Paren::default(),
                elems: Punctuated::new(),
            }),
            ReturnType::Type(_, ty) => (**ty).clone(),
        };
        let form = match named(&ty, "Result") {
            Some(mut types) => {
                let value = types.next().map(Box::new);
                Form::Result { value, error: types.next().map(Box::new) }
            }
            None => Form::Plain,
        };
        Self { ty, form }
    }

    /// Refuses what cannot be owned by a record.
    pub(crate) fn check(&self, of: &str, diag: &mut Diag) -> Option<()> {
        if let Some(implemented) = lifetimes::impl_trait(&self.ty) {
            let stream = implemented.bounds.iter().find_map(stream);
            let message = match stream {
                Some(name) => {
                    format!("{of}'s output is recorded, and `impl {name}` cannot be: collect it into a `Vec`")
                }
                None => {
                    format!("{of}'s output is recorded and read back, so that its type must be named: no `impl Trait`")
                }
            };
            diag.at(implemented, message);
            return None;
        }
        let borrows = lifetimes::borrows(&self.ty);
        for borrow in &borrows {
            let message =
                format!("{of}'s output must be owned: it is recorded, and may be handed on by another process");
            match borrow {
                Borrow::Reference(reference) => diag.at(reference, message),
                Borrow::Lifetime(lifetime) => diag.at(lifetime, message),
            }
        }
        borrows.is_empty().then_some(())
    }

    /// The type in its `Ok`; for a plain output, all of it.
    pub(crate) fn value(&self) -> TokenStream {
        match &self.form {
            Form::Result { value, error: Some(_) } => quote!(#value),
            Form::Result { value: Some(value), error: None } => self.project(value.span(), "Value"),
            Form::Result { value: None, .. } => self.project(self.ty.span(), "Value"),
            Form::Plain => self.ty.to_token_stream(),
        }
    }

    /// The type in its `Err`.
    pub(crate) fn error(&self) -> TokenStream {
        match &self.form {
            Form::Result { error: Some(error), .. } => quote!(#error),
            _ => self.project(self.ty.span(), "Error"),
        }
    }

    fn project(&self, span: Span, which: &str) -> TokenStream {
        let (ty, which) = (&self.ty, Ident::new(which, span));
        quote_spanned!(span=> <#ty as ::durably::__private::ResultType>::#which)
    }
}

/// The types in `path::name<A, B>`; `None` if it is something else.
pub(crate) fn named(ty: &Type, name: &str) -> Option<impl Iterator<Item = Type> + use<>> {
    let path = path(ty)?;
    let last = path.segments.last().filter(|last| last.ident == name)?;
    let arguments = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.clone(),
        _ => Punctuated::<GenericArgument, Token![,]>::new(),
    };
    Some(arguments.into_iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }))
}

fn path(ty: &Type) -> Option<&Path> {
    match ty {
        Type::Path(ty) if ty.qself.is_none() => Some(&ty.path),
        Type::Paren(paren) => path(&paren.elem),
        Type::Group(group) => path(&group.elem),
        _ => None,
    }
}

/// `Iterator` or `Stream`, if the bound is one.
fn stream(bound: &TypeParamBound) -> Option<String> {
    let TypeParamBound::Trait(bound) = bound else { return None };
    let name = bound.path.segments.last()?.ident.to_string();
    ["Stream", "TryStream", "Iterator", "IntoIterator", "DoubleEndedIterator", "ExactSizeIterator"]
        .contains(&&*name)
        .then_some(name)
}
