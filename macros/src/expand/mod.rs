//! From the model to tokens. Nothing here can fail, and nothing but `::durably` is named.

/// `quote!`, with names of locals that no user's name can meet.
macro_rules! ours {
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}

mod codec;
mod entrypoint;
mod task;

use std::time::Duration;

use proc_macro2::{Group, Span, TokenStream};
use quote::quote_spanned;
use syn::{Attribute, Type, spanned::Spanned};

use crate::{
    args::{EntrypointArgs, RetryArgs, TaskArgs},
    diag::Diag,
    func::Func,
    model::{Entrypoint, Param, Task},
};

/// What `#[task(options)] item` becomes.
pub(crate) fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut diag = Diag::default();
    let args = TaskArgs::parse(options, &mut diag);
    attribute("task", item, diag, |func, diag| Some(task::expand(&Task::new(func, args, diag)?)))
}

/// What `#[entrypoint(options)] item` becomes.
pub(crate) fn entrypoint(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut diag = Diag::default();
    let args = EntrypointArgs::parse(options, &mut diag);
    attribute("entrypoint", item, diag, |func, diag| Some(entrypoint::expand(&Entrypoint::new(func, args, diag)?)))
}

/// The expansion, or the function as it was written; and every mistake beside it.
fn attribute(
    name: &str,
    item: TokenStream,
    mut diag: Diag,
    expand: impl FnOnce(&Func, &mut Diag) -> Option<TokenStream>,
) -> TokenStream {
    let expansion = match syn::parse2::<Func>(item.clone()) {
        Ok(func) => expand(&func, &mut diag).unwrap_or_else(|| func.as_written()),
        Err(mistake) => {
            diag.here(mistake.span(), format!("`#[{name}]` stands on a function: {mistake}"));
            item
        }
    };
    let mistakes = diag.into_tokens();
    ours!(#expansion #mistakes)
}

/// The place of the user's tokens, marked as written by a macro: lints about style do not look at it.
fn generated(user: Span) -> Span {
    Span::mixed_site().located_at(user)
}

/// The user's body as a value of its type. The `return` that is never reached tells the compiler the type before it
/// reads the body, as the signature of a function would.
///
/// ```text
/// { if x { return Err(e)?; } Ok(1) }
/// // becomes
/// if let Some(__output) = None::<T> { return __output; }
/// let mut url = url;
/// let __output: T = { if x { return Err(e)?; } Ok(1) };
/// __output
/// ```
fn typed_body(bindings: &TokenStream, ty: &Type, body: &Group) -> TokenStream {
    ours! {
        if let ::durably::__private::Some(__output) = ::durably::__private::None::<#ty> {
            #[allow(unreachable_code)]
            return __output;
        }
        #bindings
        // The braces stay the user's own, and with them their edition.
        #[allow(unused_braces)]
        let __output: #ty = #body;
        #[allow(unreachable_code)]
        __output
    }
}

/// `let mut url = url;`, for each parameter.
fn bindings(params: &[Param]) -> TokenStream {
    params
        .iter()
        .map(|Param { cfgs, pat, ident, .. }| {
            let attrs = cfgs;
            ours!(#(#attrs)* let #pat = #ident;)
        })
        .collect()
}

/// `#[cfg(a)] url: &'durably str`
fn signature(param: &Param) -> TokenStream {
    let Param { cfgs, attrs, ident, ty, .. } = param;
    ours!(#(#cfgs)* #(#attrs)* #ident: #ty)
}

/// A duration in the largest unit that keeps it exact.
fn duration(duration: Duration) -> TokenStream {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if duration == Duration::from_millis(millis) {
        return ours!(::durably::__private::Duration::from_millis(#millis));
    }
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    ours!(::durably::__private::Duration::from_nanos(#nanos))
}

/// `.retry(RetryPolicy::new().max_attempts(4), None)`: only what was written, the defaults are the runtime's.
fn policy(retry: &RetryArgs, ty: &TokenStream) -> TokenStream {
    let RetryArgs { max_attempts, backoff_factor, jitter, retry_on, .. } = retry;
    let initial_interval = retry.initial_interval.map(duration);
    let max_interval = retry.max_interval.map(duration);
    let settings = [
        max_attempts.as_ref().map(|attempts| ours!(.max_attempts(#attempts))),
        initial_interval.map(|pause| ours!(.initial_interval(#pause))),
        backoff_factor.as_ref().map(|factor| ours!(.backoff_factor(#factor))),
        max_interval.map(|pause| ours!(.max_interval(#pause))),
        jitter.as_ref().map(|jitter| ours!(.jitter(#jitter))),
    ];
    let settings = settings.iter().flatten();
    let applies = retry_on.as_ref().map_or_else(
        || ours!(::durably::__private::None),
        |path| quote_spanned!(path.span()=> ::durably::__private::retry_on::<#ty>(#path)),
    );
    ours!(.retry(::durably::__private::RetryPolicy::new() #(#settings)*, #applies))
}

/// The place of the definition, for messages.
fn place(user: Span) -> TokenStream {
    quote_spanned! {generated(user)=>
        ::durably::__private::module_path!(), ::durably::__private::file!(), ::durably::__private::line!()
    }
}

/// Attributes that say how to treat what the body says.
fn is_lint(attr: &Attribute) -> bool {
    ["allow", "warn", "deny", "forbid", "expect"].iter().any(|level| attr.path().is_ident(level))
}
