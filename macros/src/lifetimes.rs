//! Names for the lifetimes that a signature leaves out: what a call borrows must be in its type.

use std::mem;

use proc_macro2::Span;
use syn::{
    Lifetime, ParenthesizedGenericArguments, Token, Type, TypeFnPtr, TypeImplTrait, TypeParamBound, TypeReference,
    punctuated::Punctuated,
    token,
    visit::Visit,
    visit_mut::{self, VisitMut},
};

/// The lifetime of a call; what its arguments borrow outlives it.
pub(crate) fn call(span: Span) -> Lifetime {
    Lifetime::new("'durably", span)
}

/// Names what a parameter's type leaves out.
///
/// A borrow that can be shortened without anybody noticing is the call's own; one in an invariant place gets a name of
/// its own, which `fresh` collects. One lifetime keeps the signature readable, and usable as `Fn(&str) -> TaskCall`.
///
/// ```text
/// &str, &[&str], &mut Vec<&str>, Context<'_>
/// // become
/// &'durably str, &'durably [&'durably str], &'durably mut Vec<&'durably0 str>, Context<'durably1>
/// ```
pub(crate) fn name_elided(ty: &mut Type, fresh: &mut Vec<Lifetime>) {
    match ty {
        Type::Reference(reference) => {
            name_borrow(&mut reference.lifetime, reference.and_token.span);
            match (&reference.mutability, &mut *reference.elem) {
                // A reference to `impl Trait` implies that it lives long enough.
                (_, Type::ImplTrait(inner)) => visit_mut::visit_type_impl_trait_mut(&mut Fresh(fresh), inner),
                (None, elem) => name_elided(elem, fresh),
                (Some(_), elem) => Fresh(fresh).visit_type_mut(elem),
            }
        }
        Type::Slice(slice) => name_elided(&mut slice.elem, fresh),
        Type::Array(array) => name_elided(&mut array.elem, fresh),
        Type::Tuple(tuple) => tuple.elems.iter_mut().for_each(|elem| name_elided(elem, fresh)),
        Type::Paren(paren) => name_elided(&mut paren.elem, fresh),
        Type::Group(group) => name_elided(&mut group.elem, fresh),
        other => Fresh(fresh).visit_type_mut(other),
    }
}

/// `&` and `&'_` → `&'durably`
pub(crate) fn name_borrow(lifetime: &mut Option<Lifetime>, span: Span) {
    if lifetime.as_ref().is_none_or(|lifetime| lifetime.ident == "_") {
        *lifetime = Some(call(span));
    }
}

struct Fresh<'a>(&'a mut Vec<Lifetime>);

impl Fresh<'_> {
    fn next(&mut self, span: Span) -> Lifetime {
        let lifetime = Lifetime::new(&format!("'durably{}", self.0.len()), span);
        self.0.push(lifetime.clone());
        lifetime
    }
}

impl VisitMut for Fresh<'_> {
    fn visit_type_reference_mut(&mut self, reference: &mut TypeReference) {
        if reference.lifetime.is_none() {
            reference.lifetime = Some(self.next(reference.and_token.span));
        }
        match &mut *reference.elem {
            Type::ImplTrait(inner) => visit_mut::visit_type_impl_trait_mut(self, inner),
            elem => self.visit_type_mut(elem),
        }
        if let Some(lifetime) = &mut reference.lifetime {
            self.visit_lifetime_mut(lifetime);
        }
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            *lifetime = self.next(lifetime.span());
        }
    }

    fn visit_type_impl_trait_mut(&mut self, implemented: &mut TypeImplTrait) {
        visit_mut::visit_type_impl_trait_mut(self, implemented);
        let outlives = TypeParamBound::Lifetime(call(implemented.impl_token.span));
        if !implemented.bounds.trailing_punct() {
            implemented.bounds.push_punct(<Token![+]>::default());
        }
        implemented.bounds.push_value(outlives);
    }

    // What is left out there is higher-ranked, not borrowed by the call.
    fn visit_type_fn_ptr_mut(&mut self, _: &mut TypeFnPtr) {}
    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut ParenthesizedGenericArguments) {}
}

/// What in an output is not owned: borrows, and lifetimes other than `'static`.
pub(crate) fn borrows(ty: &Type) -> Vec<Borrow> {
    let mut found = Borrows(Vec::new());
    found.visit_type(ty);
    found.0
}

/// A borrow in an output.
pub(crate) enum Borrow {
    /// `&str`
    Reference(TypeReference),
    /// `'a`, `'_`
    Lifetime(Lifetime),
}

struct Borrows(Vec<Borrow>);

impl<'ast> Visit<'ast> for Borrows {
    fn visit_type_reference(&mut self, reference: &'ast TypeReference) {
        // One in another is one mistake. A `&'static str` cannot be read back either.
        self.0.push(Borrow::Reference(reference.clone()));
    }

    fn visit_lifetime(&mut self, lifetime: &'ast Lifetime) {
        if lifetime.ident != "static" {
            self.0.push(Borrow::Lifetime(lifetime.clone()));
        }
    }

    fn visit_type_fn_ptr(&mut self, _: &'ast TypeFnPtr) {}
    fn visit_parenthesized_generic_arguments(&mut self, _: &'ast ParenthesizedGenericArguments) {}
}

/// The first `impl Trait` in a type.
pub(crate) fn impl_trait(ty: &Type) -> Option<TypeImplTrait> {
    struct Find(Option<TypeImplTrait>);
    impl<'ast> Visit<'ast> for Find {
        fn visit_type_impl_trait(&mut self, implemented: &'ast TypeImplTrait) {
            self.0.get_or_insert_with(|| implemented.clone());
        }
    }
    let mut find = Find(None);
    find.visit_type(ty);
    find.0
}

/// A tuple type with these elements, its parentheses where they are.
pub(crate) fn tuple(elems: Vec<Type>, span: Span) -> Type {
    let mut tuple: Punctuated<Type, Token![,]> = elems.into_iter().collect();
    if !tuple.is_empty() && !tuple.trailing_punct() {
        tuple.push_punct(<Token![,]>::default());
    }
    Type::Tuple(syn::TypeTuple { attrs: Vec::new(), paren_token: token::Paren(span), elems: mem::take(&mut tuple) })
}
