//! An entrypoint.

use std::time::Duration;

use proc_macro2::{Group, Span};
use quote::ToTokens;
use syn::{Attribute, FnArg, Ident, LitInt, LitStr, PatType, Type, Visibility, ext::IdentExt};

use super::{
    Output, Param,
    output::{Form, named},
    qualifiers,
};
use crate::{
    args::{EntrypointArgs, RetryArgs},
    diag::Diag,
    func::{Body, Func},
    lifetimes::{self, Borrow},
    lint,
};

/// A function under `#[entrypoint]`, checked.
pub(crate) struct Entrypoint {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) ident: Ident,
    pub(crate) paren: Span,
    pub(crate) params: Vec<Param>,
    pub(crate) previous: Option<Previous>,
    pub(crate) output: Output,
    pub(crate) last: Option<Last>,
    pub(crate) body: Group,
    pub(crate) name: LitStr,
    pub(crate) version: Option<LitInt>,
    pub(crate) retries: Vec<RetryArgs>,
    pub(crate) max_concurrency: Option<LitInt>,
    pub(crate) timeout: Option<Duration>,
}

/// The `#[previous]` parameter.
pub(crate) struct Previous {
    pub(crate) param: Param,
    /// What stands in its `Option`.
    pub(crate) saved: Type,
}

/// The two types of a `Final`, where the output has one.
pub(crate) struct Last {
    pub(crate) value: Type,
    pub(crate) save: Type,
}

/// How many parameters a recorded input can have: as many as serde's longest tuple that is worth having.
const MOST_PARAMETERS: usize = 12;

impl Entrypoint {
    /// Checks it all; what cannot be expanded at all is `None`.
    pub(crate) fn new(func: &Func, args: EntrypointArgs, diag: &mut Diag) -> Option<Self> {
        let of = "an entrypoint";
        let sig = &func.sig;
        let mut good = qualifiers(sig, of, diag);
        if sig.asyncness.is_none() {
            diag.here(sig.fn_token.span, "an entrypoint is an `async fn`: it waits for its tasks");
        }
        if let Some(receiver) = sig.receiver() {
            let message = "an entrypoint is a free function: it is started again in another process, where there is \
                           no `self`; pass what it needs as an argument, or hold it as a resource of the runtime";
            diag.at(receiver, message);
            good = None;
        }
        let generic = sig.generics.params.to_token_stream();
        if !generic.is_empty() {
            let message = "an entrypoint is not generic: a run is found by its name alone; write one for each type, \
                           and put what they share in a function";
            diag.at(generic, message);
            good = None;
        }
        let output = Output::new(&sig.output);
        good = good.and(output.check(of, diag));

        let mut params = Vec::new();
        let mut previous: Option<Previous> = None;
        for (index, input) in sig.inputs.iter().enumerate() {
            let FnArg::Typed(written) = input else { continue };
            if is_previous(written) {
                let second = previous.is_some();
                previous = previous_param(index, written, second, diag).or(previous);
            } else {
                good = good.and(owned(written, diag));
                params.push(Param::new(index, written));
            }
        }
        if let Some(beyond) = params.get(MOST_PARAMETERS) {
            let message = format!("an entrypoint has at most {MOST_PARAMETERS} parameters; put some into one struct");
            diag.at(&beyond.ident, message);
            good = None;
        }
        let Body::Block(body) = &func.body else {
            diag.at(&sig.ident, "an entrypoint needs a body");
            return None;
        };
        lint::entrypoint(body, &args.allow.unwrap_or_default(), diag);
        let fails = matches!(output.form, Form::Result { .. });
        for retry in args.retries.iter().filter(|_| !fails) {
            let message = "only a failure is tried again, and this output holds none: return a `Result`";
            diag.here(retry.keyword.span(), message);
        }
        let retries = if fails { args.retries } else { Vec::new() };
        let last = last(&output);
        if matches!(last, Some(None)) {
            diag.at(&output.ty, "`Final` has two types: `Final<Value, Saved>`");
            good = None;
        }
        good?;
        Some(Self {
            attrs: func.attrs.clone(),
            vis: func.vis.clone(),
            ident: sig.ident.clone(),
            paren: sig.paren_token.span.join(),
            params,
            previous,
            output,
            last: last.flatten(),
            body: body.clone(),
            name: args.name.unwrap_or_else(|| LitStr::new(&sig.ident.unraw().to_string(), sig.ident.span())),
            version: args.version,
            retries,
            max_concurrency: args.max_concurrency,
            timeout: args.timeout,
        })
    }
}

fn is_previous(written: &PatType) -> bool {
    written.attrs.iter().any(|attr| attr.path().is_ident("previous"))
}

/// `#[previous] last: Option<Draft>`
fn previous_param(index: usize, written: &PatType, second: bool, diag: &mut Diag) -> Option<Previous> {
    if second {
        diag.at(written, "there is one previous run: at most one parameter is `#[previous]`");
        return None;
    }
    let saved = named(&written.ty, "Option").and_then(|mut types| types.next());
    let Some(saved) = saved else {
        diag.at(&written.ty, "a `#[previous]` parameter is an `Option<..>`: a thread's first run has none");
        return None;
    };
    let mut param = Param::new(index, written);
    param.attrs.retain(|attr| !attr.path().is_ident("previous"));
    Some(Previous { param, saved })
}

/// Refuses borrows and `impl Trait`: the input is recorded, and may be replayed in another process.
fn owned(written: &PatType, diag: &mut Diag) -> Option<()> {
    if let Some(implemented) = lifetimes::impl_trait(&written.ty) {
        diag.at(implemented, "an entrypoint is not generic: its input is recorded and read back as one type; name it");
        return None;
    }
    let borrows = lifetimes::borrows(&written.ty);
    for borrow in &borrows {
        let message = "an entrypoint's argument must be owned: it is journaled and may be replayed in another process";
        match borrow {
            Borrow::Reference(reference) => diag.at(reference, format!("{message}; {}", instead(reference))),
            Borrow::Lifetime(lifetime) => diag.at(lifetime, message),
        }
    }
    borrows.is_empty().then_some(())
}

fn instead(reference: &syn::TypeReference) -> String {
    let elem = match &*reference.elem {
        Type::Path(path) if path.path.is_ident("str") => "String".to_owned(),
        Type::Path(path) if path.path.is_ident("Path") => "PathBuf".to_owned(),
        Type::Slice(slice) => format!("Vec<{}>", slice.elem.to_token_stream()),
        other => other.to_token_stream().to_string().replace(" < ", "<").replace(" >", ">").replace(" :: ", "::"),
    };
    format!("take `{elem}`")
}

/// `Some(None)` is a `Final` without its types.
#[allow(clippy::option_option)]
fn last(output: &Output) -> Option<Option<Last>> {
    let place = match &output.form {
        Form::Plain => Some(&output.ty),
        Form::Result { value, .. } => value.as_deref(),
    };
    let mut types = named(place?, "Final")?;
    Some(match (types.next(), types.next()) {
        (Some(value), Some(save)) => Some(Last { value, save }),
        _ => None,
    })
}
