//! An entrypoint's expansion.

use proc_macro2::TokenStream;
use quote::{format_ident, quote_spanned};
use syn::{Attribute, Type, ext::IdentExt, spanned::Spanned};

use super::{codec, duration, is_lint, place, policy, signature, typed_body};
use crate::{
    lifetimes,
    model::{Entrypoint, Form, Last},
};

/// A type that stands for the entrypoint, and a function that makes a call of it from its arguments.
///
/// ```text
/// #[entrypoint] pub async fn digest(urls: Vec<String>, #[previous] last: Option<Draft>) -> anyhow::Result<Draft> { BODY }
/// // becomes
/// pub enum __durably_digest {}
/// impl Definition for __durably_digest {
///     type Input = (Vec<String>,);
///     fn run(input: Self::Input, previous: Previous) -> .. { Ok(Box::pin(async move { BODY })) }
///     ..
/// }
/// pub fn digest(urls: Vec<String>) -> EntrypointCall<__durably_digest> { EntrypointCall::new((urls,)) }
/// ```
pub(super) fn expand(entrypoint: &Entrypoint) -> TokenStream {
    let Entrypoint { attrs, vis, ident, params, name, .. } = entrypoint;
    let definition = format_ident!("__durably_{}", ident.unraw());
    let cfgs: Vec<&Attribute> = attrs.iter().filter(|attr| attr.path().is_ident("cfg")).collect();
    let lints = attrs.iter().filter(|attr| is_lint(attr));
    // An `#[expect]` is met in the body, which is not in the function any more.
    let kept = attrs.iter().filter(|attr| !attr.path().is_ident("expect"));

    let input = lifetimes::tuple(params.iter().map(|param| param.ty.clone()).collect(), entrypoint.paren);
    let types = types(entrypoint);
    let place = place(ident.span());
    let version = entrypoint.version.as_ref().map(|version| ours!(.version(#version)));
    let concurrency = entrypoint.max_concurrency.as_ref().map(|limit| ours!(.max_concurrency(#limit)));
    let retries = retries(entrypoint);
    let timeout = entrypoint.timeout.map(duration).map(|limit| ours!(.timeout(#limit)));
    let codec = codec::of_entrypoint(&entrypoint.output);
    let recorded = recorded(entrypoint);
    let run = run(entrypoint);
    let inputs = params.iter().map(signature);
    let arguments = params.iter().map(|param| &param.ident);
    ours! {
        #(#cfgs)*
        #[doc(hidden)]
        #[allow(non_camel_case_types, missing_debug_implementations, unreachable_pub, clippy::all, clippy::pedantic)]
        #vis enum #definition {}

        #(#cfgs)*
        #(#lints)*
        #[allow(
            clippy::diverging_sub_expression,
            clippy::let_unit_value,
            clippy::no_effect_underscore_binding,
            clippy::type_complexity,
            clippy::used_underscore_binding
        )]
        impl ::durably::__private::Definition for #definition {
            type Input = #input;
            #types
            const SPEC: ::durably::__private::EntrypointSpec =
                ::durably::__private::EntrypointSpec::new(#name, #place)#version #timeout #concurrency;
            fn codec() -> ::durably::__private::OutputCodec<Self::Output> {
                #codec
            }
            #retries
            #recorded
            #run
        }

        #(#kept)*
        #[track_caller]
        #vis fn #ident(#(#inputs),*) -> ::durably::EntrypointCall<#definition> {
            ::durably::EntrypointCall::new((#(#arguments,)*))
        }
    }
}

/// `type Output`, `type Value` and `type Save`: without the `Final`, if there is one.
fn types(entrypoint: &Entrypoint) -> TokenStream {
    let output = &entrypoint.output;
    let written = &output.ty;
    let (ty, value, save) = match (&entrypoint.last, &output.form) {
        (None, Form::Plain) => (ours!(#written), ours!(#written), ours!(#written)),
        (None, Form::Result { .. }) => (ours!(#written), output.value(), output.value()),
        (Some(last), form) => {
            let Last { value, save } = last;
            let ty = match form {
                Form::Plain => ours!(#value),
                Form::Result { .. } => {
                    let error = output.error();
                    ours!(::durably::__private::Result<#value, #error>)
                }
            };
            (ty, ours!(#value), ours!(#save))
        }
    };
    ours! {
        type Output = #ty;
        type Value = #value;
        type Save = #save;
    }
}

/// When its failures are made good by running it again; the default is not to.
fn retries(entrypoint: &Entrypoint) -> Option<TokenStream> {
    let retries = entrypoint.retries.iter().map(|retry| policy(retry, &ours!(Self::Output)));
    (!entrypoint.retries.is_empty()).then(|| {
        ours! {
            fn retries() -> ::durably::__private::Retries<Self::Output> {
                ::durably::__private::Retries::new() #(#retries)*
            }
        }
    })
}

/// The input's parts by name, for the call's identity and for people.
fn recorded(entrypoint: &Entrypoint) -> TokenStream {
    let names = entrypoint.params.iter().map(|param| &param.name);
    let idents: Vec<_> = entrypoint.params.iter().map(|param| &param.ident).collect();
    let (input, taken) = match idents.is_empty() {
        true => (ours!(_), ours!()),
        false => (ours!(__input), ours!(let (#(#idents,)*) = __input;)),
    };
    ours! {
        fn arguments(
            #input: &Self::Input,
        ) -> ::durably::__private::Result<::durably::__private::Arguments, ::durably::__private::ArgumentError> {
            #taken
            ::durably::__private::ArgumentsBuilder::new()#(.push(#names, #idents))*.finish()
        }
    }
}

/// The body, over the recorded input and what the last run saved.
fn run(entrypoint: &Entrypoint) -> TokenStream {
    let Entrypoint { params, previous, output, last, ident, .. } = entrypoint;
    let pats = params.iter().map(|param| &param.pat);
    let (input, taken) =
        if params.is_empty() { (ours!(_), ours!()) } else { (ours!(__input), ours!(let (#(#pats,)*) = __input;)) };
    let saved = previous.as_ref().map(|previous| {
        let saved = &previous.saved;
        ours!(let __saved = ::durably::__private::previous::<#saved>(&__previous)?;)
    });
    let previous_name = if previous.is_some() { ours!(__previous) } else { ours!(_) };
    let last_run = previous.as_ref().map(|previous| {
        let (pat, ty) = (&previous.param.pat, &previous.param.ty);
        ours!(let #pat: #ty = __saved;)
    });
    let returned = match (last, &output.form) {
        (None, _) => ours!(plain(__returned)),
        (Some(last), Form::Plain) => parted("parted", &last.save),
        (Some(last), Form::Result { .. }) => parted("parted_result", &last.save),
    };
    let body = typed_body(&ours!(#taken #last_run), &output.ty, &entrypoint.body);
    // Not marked as ours: a future that is not `Send` is then told at the entrypoint's name.
    let inner = quote_spanned!(ident.span()=> async move { #body });
    let inner = ours! {
        let __returned = #inner.await;
        ::durably::__private::Returned::#returned
    };
    let future = quote_spanned!(ident.span()=> ::durably::__private::Box::pin(async move { #inner }));
    ours! {
        fn run(
            #input: Self::Input,
            #previous_name: ::durably::__private::Previous,
        ) -> ::durably::__private::Result<
            ::durably::__private::BoxFuture<'static, ::durably::__private::Returned<Self::Output>>,
            ::durably::__private::ValueError,
        > {
            #saved
            ::durably::__private::Ok(#future)
        }
    }
}

fn parted(method: &str, save: &Type) -> TokenStream {
    let method = format_ident!("{method}", span = save.span());
    ours!(#method::<#save>(__returned))
}
