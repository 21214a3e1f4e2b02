//! A task's expansion.

use proc_macro2::TokenStream;
use quote::quote_spanned;
use syn::spanned::Spanned;

use super::{bindings, codec, duration, place, policy, signature, typed_body};
use crate::{
    key::Key,
    lifetimes,
    model::{Attempts, Cache, Identity, Once, Param, Task},
};

/// A plain function that makes the call; the body runs when the runtime says so.
///
/// ```text
/// #[task] pub async fn fetch(url: &str) -> anyhow::Result<String> { BODY }
/// // becomes
/// pub fn fetch<'durably>(url: &'durably str) -> ::durably::TaskCall<'durably, anyhow::Result<String>> {
///     static __SPEC: TaskSpec = TaskSpec::new("fetch", module_path!(), file!(), line!());
///     call(&__SPEC, ARGUMENTS, CODEC, move || Body::once(async move { BODY }))
/// }
/// ```
pub(super) fn expand(task: &Task) -> TokenStream {
    let Task { attrs, vis, ident, generics, receiver, params, output, .. } = task;
    let lifetime = lifetimes::call(ident.span());
    let receiver = receiver.iter().map(|receiver| ours!(#receiver));
    let inputs = receiver.chain(params.iter().map(signature));
    let (_, _, where_clause) = generics.split_for_impl();
    let ty = &output.ty;
    let head = ours!(#vis fn #ident #generics (#(#inputs),*) -> ::durably::TaskCall<#lifetime, #ty> #where_clause);
    let Some(body) = &task.body else { return ours!(#(#attrs)* #head;) };

    let track_caller =
        if attrs.iter().any(|attr| attr.path().is_ident("track_caller")) { ours!() } else { ours!(#[track_caller]) };
    let name = &task.name;
    let place = place(ident.span());
    let limit = task.timeout.as_ref().map(|(_, limit)| duration(*limit)).map(|limit| ours!(.timeout(#limit)));
    let idle = task.idle_timeout.as_ref().map(|(_, limit)| duration(*limit)).map(|limit| ours!(.idle_timeout(#limit)));
    let arguments = arguments(task);
    let timeouts = task.timeout.iter().chain(&task.idle_timeout).map(|(option, _)| option);
    let codec = codec::of_task(output, timeouts);
    let body = run(task, &typed_body(&bindings(params), ty, body));
    ours! {
        #(#attrs)*
        #track_caller
        #[allow(
            clippy::diverging_sub_expression,
            clippy::let_unit_value,
            clippy::multiple_bound_locations,
            clippy::needless_arbitrary_self_type,
            clippy::no_effect_underscore_binding,
            clippy::type_complexity,
            clippy::used_underscore_binding
        )]
        #head {
            static __SPEC: ::durably::__private::TaskSpec =
                ::durably::__private::TaskSpec::new(#name, #place)#limit #idle;
            ::durably::__private::call(&__SPEC, #arguments, #codec, #body)
        }
    }
}

/// What the call is known by; only asked for in a run.
///
/// ```text
/// let __arguments = ArgumentsBuilder::new();
/// let __arguments = __arguments.push::<&'durably str>("url", &url);
/// __arguments.finish()
/// ```
fn arguments(task: &Task) -> TokenStream {
    let gathered = match &task.identity {
        Identity::Key(key) => {
            let (format, exprs) = (&key.format, &key.exprs);
            ours!(::durably::__private::key(&::durably::__private::format!(#format #(, #exprs)*)))
        }
        Identity::Arguments(recorded) => {
            let pushes = recorded.iter().filter_map(|at| task.params.get(*at)).map(push);
            ours! {{
                let __arguments = ::durably::__private::ArgumentsBuilder::new();
                #(#pushes)*
                __arguments.finish()
            }}
        }
    };
    ours! {
        if ::durably::__private::in_run() {
            ::durably::__private::Some(#gathered)
        } else {
            ::durably::__private::None
        }
    }
}

fn push(param: &Param) -> TokenStream {
    let Param { cfgs, ident, ty, name, .. } = param;
    let turbofish = nameable(param).then(|| ours!(::<#ty>));
    let method = quote_spanned!(ty.span()=> push);
    ours!(#(#cfgs)* let __arguments = __arguments.#method #turbofish(#name, &#ident);)
}

/// The type of a parameter that is `impl Trait` has no name.
fn nameable(param: &Param) -> bool {
    lifetimes::impl_trait(&param.ty).is_none()
}

/// The closure that makes the body, for as many attempts as there may be.
///
/// ```text
/// one      move || Body::once(async move { BODY })
/// retried  move || Body::again(move || { let url = again::<&str>(&url); async move { BODY } }).retry(POLICY, None)
/// blocking move || Body::blocking(only(move || { BODY }))
/// ```
fn run(task: &Task, body: &TokenStream) -> TokenStream {
    // Not marked as ours: a future that is not `Send` is then told at the task's name.
    let span = task.ident.span();
    let job = if task.blocking {
        quote_spanned!(span=> move || { #body })
    } else {
        quote_spanned!(span=> async move { #body })
    };
    let again = again(task);
    let made = match (&task.attempts, task.blocking) {
        (Attempts::One, false) => quote_spanned!(span=> ::durably::__private::Body::once(#job)),
        (Attempts::One, true) => ours!(::durably::__private::Body::blocking(::durably::__private::only(#job))),
        (Attempts::Retried(retries), blocking) => {
            let form = if blocking { ours!(blocking) } else { ours!(again) };
            let ty = &task.output.ty;
            let retries = retries.iter().map(|retry| policy(retry, &ours!(#ty)));
            let body = quote_spanned!(span=> ::durably::__private::Body::#form(move || { #(#again)* #job }));
            ours!(#body #(#retries)*)
        }
    };
    if let Some(once) = &task.once {
        return at_most_once(task, once, &again, &made);
    }
    match &task.cache {
        None => ours!(move || #made),
        Some(cache) => cached(cache, &made),
    }
}

/// The arguments for one more attempt.
fn again(task: &Task) -> Vec<TokenStream> {
    let again = task.params.iter().map(|param| {
        let Param { cfgs, ident, ty, .. } = param;
        let turbofish = nameable(param).then(|| ours!(::<#ty>));
        ours!(#(#cfgs)* let #ident = ::durably::__private::again #turbofish(&#ident);)
    });
    again.collect()
}

/// A body that runs again only once it is known that it had no effect. What finds that out has arguments of its own.
///
/// ```text
/// move || {
///     let __reconcile = { let id = again::<u64>(&id); move || { let id = again::<u64>(&id); reconciling(find(id)) } };
///     BODY.at_most_once::<Receipt>().reconcile(__reconcile)
/// }
/// ```
fn at_most_once(task: &Task, once: &Once, again: &[TokenStream], body: &TokenStream) -> TokenStream {
    let value = task.output.value();
    let Some(path) = &once.reconcile else { return ours!(move || #body.at_most_once::<#value>()) };
    let receiver = task.receiver.as_ref().map(|receiver| receiver.self_token);
    let given = receiver.iter().map(|receiver| ours!(#receiver)).chain(task.params.iter().map(|param| {
        let ident = &param.ident;
        ours!(#ident)
    }));
    let asked = quote_spanned!(path.span()=> ::durably::__private::reconciling::<#value, _>(#path(#(#given),*)));
    ours! {
        move || {
            let __reconcile = {
                #(#again)*
                move || {
                    #(#again)*
                    #asked
                }
            };
            #body.at_most_once::<#value>().reconcile(__reconcile)
        }
    }
}

/// A body whose value equal calls share. The key is made before the body takes the arguments.
///
/// ```text
/// move || { let __key = Some(format!("{}", order.id)); BODY.cache(CachePolicy::new().ttl(TTL), __key) }
/// ```
fn cached(cache: &Cache, body: &TokenStream) -> TokenStream {
    let ttl = cache.ttl.map(duration).map(|ttl| ours!(.ttl(#ttl)));
    let version = cache.version.as_ref().map(|version| ours!(.version(#version)));
    let key = cache
        .key
        .as_ref()
        .map(|Key { format, exprs }| ours!(.key(::durably::__private::format!(#format #(, #exprs)*))));
    ours! {
        move || {
            let __policy = ::durably::__private::CachePolicy::new() #ttl #version #key;
            #body.cache(__policy)
        }
    }
}
