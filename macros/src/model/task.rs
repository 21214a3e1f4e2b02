//! A task.

use std::time::Duration;

use proc_macro2::Group;
use syn::{
    Attribute, FnArg, GenericParam, Generics, Ident, Lifetime, LifetimeParam, LitInt, LitStr, Path, Receiver,
    ReceiverKind, Token, Type, Visibility, WherePredicate, ext::IdentExt, parse_quote, parse_quote_spanned,
    spanned::Spanned, visit::Visit,
};

use super::{Form, Output, Param, qualifiers};
use crate::{
    args::{CacheArgs, RetryArgs, TaskArgs},
    diag::Diag,
    func::{Body, Func},
    key::Key,
    lifetimes,
};

/// A function under `#[task]`, checked.
pub(crate) struct Task {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) ident: Ident,
    /// With a name for each lifetime that was left out, and all of them outliving the call.
    pub(crate) generics: Generics,
    pub(crate) receiver: Option<Receiver>,
    pub(crate) params: Vec<Param>,
    pub(crate) output: Output,
    /// The braces; `None` for a declaration in a trait.
    pub(crate) body: Option<Group>,
    pub(crate) name: LitStr,
    pub(crate) timeout: Option<(Ident, Duration)>,
    pub(crate) idle_timeout: Option<(Ident, Duration)>,
    pub(crate) cache: Option<Cache>,
    pub(crate) identity: Identity,
    pub(crate) attempts: Attempts,
    pub(crate) once: Option<Once>,
    pub(crate) blocking: bool,
}

/// What a call is known by.
pub(crate) enum Identity {
    /// These of its arguments, by their place.
    Arguments(Vec<usize>),
    /// A text that is made of them.
    Key(Key),
}

/// Whether equal calls share a value, and for how long.
pub(crate) struct Cache {
    pub(crate) ttl: Option<Duration>,
    pub(crate) version: Option<LitInt>,
    /// What the value is kept under; `None`: what the call is known by.
    pub(crate) key: Option<Key>,
}

/// That the body runs at most once.
pub(crate) struct Once {
    /// The function that finds out what became of it.
    pub(crate) reconcile: Option<Path>,
}

/// How often the body may run.
pub(crate) enum Attempts {
    One,
    /// Each time for a failure that one of these is for.
    Retried(Vec<RetryArgs>),
}

impl Task {
    /// Checks it all; what cannot be expanded at all is `None`.
    pub(crate) fn new(func: &Func, args: TaskArgs, diag: &mut Diag) -> Option<Self> {
        let of = "a task";
        let sig = &func.sig;
        let qualified = qualifiers(sig, of, diag);
        asyncness(func, args.blocking.as_ref(), diag);
        let blocking = args.blocking.is_some() && sig.asyncness.is_none();
        let output = Output::new(&sig.output);
        let owned = output.check(of, diag);
        qualified.and(owned)?;

        let mut params: Vec<Param> = Vec::new();
        for (index, input) in sig.inputs.iter().enumerate() {
            if let FnArg::Typed(written) = input {
                params.push(Param::new(index, written));
            }
        }
        let body = match &func.body {
            Body::Block(block) => Some(block.clone()),
            Body::Declared(_) => {
                if let Some(option) = &args.first {
                    let message = "an option stands where the body is: on the method in the `impl`";
                    diag.here(option.span(), message);
                }
                None
            }
        };
        let identity = identity(&args, &params, sig.receiver().is_some(), diag);
        can_fail(&args, &output, diag);
        once_only(&args, diag);
        let fails = matches!(output.form, Form::Result { .. });
        let timeout = args.timeout.filter(|_| fails);
        let idle_timeout = args.idle_timeout.filter(|_| fails);
        let cache = args.cache.map(|args| cache(args, &params, sig.receiver().is_some(), diag));
        let retried = !args.retries.is_empty();
        let again = retried || args.at_most_once.is_some();
        let repeated = repeatable(&params, sig.receiver(), again, blocking, diag);
        let once = args.at_most_once.map(|_| Once { reconcile: args.reconcile.map(|(_, path)| path) });
        let attempts = match (retried, fails) {
            // Again once it is known that it had no effect before.
            _ if once.is_some() => Attempts::Retried(if fails { args.retries } else { Vec::new() }),
            (true, true) => Attempts::Retried(args.retries),
            _ => Attempts::One,
        };
        repeated?;

        let (generics, receiver) = outlive(func, &mut params);
        let name = args.name.unwrap_or_else(|| LitStr::new(&sig.ident.unraw().to_string(), sig.ident.span()));
        Some(Self {
            attrs: func.attrs.clone(),
            vis: func.vis.clone(),
            ident: sig.ident.clone(),
            generics,
            receiver,
            params,
            output,
            body,
            name,
            timeout,
            idle_timeout,
            cache,
            identity,
            attempts,
            once,
            blocking,
        })
    }
}

fn asyncness(func: &Func, blocking: Option<&Ident>, diag: &mut Diag) {
    match (&func.sig.asyncness, blocking) {
        (None, None) => {
            let message = "a task is an `async fn`; for a synchronous one write `#[task(blocking)]`: it then runs on \
                           the blocking pool";
            diag.here(func.sig.fn_token.span, message);
        }
        (Some(_), Some(blocking)) => {
            let message = "`blocking` is for a synchronous function; leave it out, or take away the `async`";
            diag.here(blocking.span(), message);
        }
        _ => {}
    }
}

/// What the call is known by; `self` never is a part of it.
fn identity(args: &TaskArgs, params: &[Param], has_self: bool, diag: &mut Diag) -> Identity {
    let list = listed(params);
    if let (Some(_), Some((skip, _))) = (&args.skip_all, &args.skip) {
        diag.here(skip.span(), "`skip_all` leaves out all arguments already; keep one of the two");
    }
    let skip = args.skip.as_ref().map(|(skip, _)| skip).or(args.skip_all.as_ref());
    if let Some((key, text)) = &args.key {
        if let Some(skip) = skip {
            let message =
                format!("`{key}` stands for all arguments, so that `{skip}` has no effect; keep one of the two");
            diag.here(skip.span(), message);
        }
        if let Some(key) = read_key(text, params, has_self, diag) {
            return Identity::Key(key);
        }
    }
    let skipped = args.skip.as_ref().map(|(_, skipped)| &**skipped).unwrap_or_default();
    for skipped in skipped {
        if skipped == "self" {
            diag.here(skipped.span(), "`self` is never part of a call's identity; leave it out here");
        } else if params.iter().all(|param| param.ident != *skipped) {
            diag.here(skipped.span(), format!("no parameter `{skipped}` to skip; {list}"));
        }
    }
    let recorded = |param: &Param| args.skip_all.is_none() && !skipped.contains(&param.ident);
    Identity::Arguments(params.iter().enumerate().filter(|(_, param)| recorded(param)).map(|(at, _)| at).collect())
}

fn cache(args: CacheArgs, params: &[Param], has_self: bool, diag: &mut Diag) -> Cache {
    let CacheArgs { ttl, key, version } = args;
    Cache { ttl, version, key: key.and_then(|text| read_key(&text, params, has_self, diag)) }
}

/// A key over the parameters.
fn read_key(text: &LitStr, params: &[Param], has_self: bool, diag: &mut Diag) -> Option<Key> {
    let key = diag.keep(Key::parse(text))?;
    for root in key.roots().filter(|root| !is_argument(root, params, has_self)) {
        diag.here(text.span(), format!("the key names no parameter `{root}`; {}", listed(params)));
    }
    Some(key)
}

fn listed(params: &[Param]) -> String {
    let names: Vec<&str> = params.iter().map(|param| &*param.name).collect();
    if names.is_empty() { "it has none".to_owned() } else { format!("its parameters are `{}`", names.join("`, `")) }
}

/// Whether a key may start from this name: a parameter, `self`, or something in capitals from outside.
fn is_argument(root: &Ident, params: &[Param], has_self: bool) -> bool {
    let is_constant = root.to_string().starts_with(char::is_uppercase);
    is_constant || (has_self && root == "self") || params.iter().any(|param| param.ident == *root)
}

/// What does not go with a body that runs at most once.
fn once_only(args: &TaskArgs, diag: &mut Diag) {
    let Some(once) = &args.at_most_once else {
        if let Some((reconcile, _)) = &args.reconcile {
            let message = "`reconcile` finds out what became of a body that may run at most once: write \
                           `at_most_once, reconcile = ..`";
            diag.here(reconcile.span(), message);
        }
        return;
    };
    if args.cache.is_some() {
        let message = "a shared value would stand for an effect that did not happen: an `at_most_once` task has no \
                       `cache`";
        diag.here(once.span(), message);
    }
    if args.reconcile.is_none() {
        for retry in &args.retries {
            let message = "an attempt that failed may have had its effect: give `reconcile = ..`, which is asked before \
                           each further attempt, or leave `retry` out";
            diag.here(retry.keyword.span(), message);
        }
    }
    if args.blocking.is_some() {
        for (timeout, _) in [&args.timeout, &args.idle_timeout].into_iter().flatten() {
            let message = "a blocking body goes on after its time is over, and could have its effect beside the next \
                           attempt: limit the time within it";
            diag.here(timeout.span(), message);
        }
    }
}

/// `retry` and `timeout` are about failures.
fn can_fail(args: &TaskArgs, output: &Output, diag: &mut Diag) {
    if let Form::Result { .. } = output.form {
        return;
    }
    for retry in &args.retries {
        let message = "only a failure is tried again, and this output holds none: return a `Result`";
        diag.here(retry.keyword.span(), message);
    }
    for (timeout, _) in [&args.timeout, &args.idle_timeout].into_iter().flatten() {
        let message = "a timed-out attempt ends as an `Err`, and this output holds none: return a `Result` whose error \
                       is `From<durably::TaskError>`";
        diag.here(timeout.span(), message);
    }
}

/// Each attempt takes the arguments anew; a blocking one takes them to another thread.
fn repeatable(
    params: &[Param],
    receiver: Option<&Receiver>,
    again: bool,
    blocking: bool,
    diag: &mut Diag,
) -> Option<()> {
    let mut good = Some(());
    let mut refuse = |tokens: &dyn quote::ToTokens, message: &str| {
        diag.at(tokens, message);
        good = None;
    };
    for param in params {
        if blocking && borrowed(&param.ty) {
            refuse(&param.ty, "a blocking task runs on another thread and must own its arguments: take it by value");
        } else if again && exclusive(&param.ty) {
            let message = "a retried task clones its arguments for each attempt, and a `&mut` cannot be: take it by \
                           value or by `&`";
            refuse(&param.ty, message);
        }
    }
    if let Some(receiver) = receiver {
        if blocking {
            let message = "a blocking task runs on another thread and cannot borrow `self`: take what it needs as \
                           owned arguments";
            refuse(receiver, message);
        } else if again && !is_shared(receiver) {
            refuse(receiver, "a retried task needs `self` again for each attempt: take `&self`");
        }
    }
    good
}

fn exclusive(ty: &Type) -> bool {
    matches!(ty, Type::Reference(reference) if reference.mutability.is_some())
}

/// Whether something in it is borrowed for less than `'static`.
fn borrowed(ty: &Type) -> bool {
    !lifetimes::borrows(ty).is_empty()
}

fn is_shared(receiver: &Receiver) -> bool {
    match &receiver.kind {
        ReceiverKind::Reference(_, _, mutability) => mutability.is_none(),
        ReceiverKind::Typed(_, ty) => matches!(&**ty, Type::Reference(reference) if reference.mutability.is_none()),
        _ => false,
    }
}

/// Puts the lifetime of the call in: everything that the call takes in outlives it.
///
/// ```text
/// fn fetch<'a, T>(&self, url: &str, x: &'a T)
/// // becomes
/// fn fetch<'durably, 'a, T>(&'durably self, url: &'durably str, x: &'a T)
/// where 'a: 'durably, T: 'durably, Self: 'durably
/// ```
fn outlive(func: &Func, params: &mut [Param]) -> (Generics, Option<Receiver>) {
    let mut generics = func.sig.generics.clone();
    let mut fresh: Vec<Lifetime> = Vec::new();
    let call = lifetimes::call(func.sig.ident.span());
    let mut receiver = func.sig.receiver().cloned();
    let mut outliving: Vec<WherePredicate> = Vec::new();
    if let Some(receiver) = &mut receiver {
        match &mut receiver.kind {
            ReceiverKind::Reference(and, lifetime, _) => lifetimes::name_borrow(lifetime, and.span),
            ReceiverKind::Typed(_, ty) => lifetimes::name_elided(ty, &mut fresh),
            _ => {}
        }
    }
    for param in params.iter_mut() {
        lifetimes::name_elided(&mut param.ty, &mut fresh);
    }
    for param in &generics.params {
        match param {
            GenericParam::Lifetime(param) => {
                let lifetime = &param.lifetime;
                outliving.push(parse_quote!(#lifetime: #call));
            }
            GenericParam::Type(param) => {
                let ident = &param.ident;
                outliving.push(parse_quote_spanned!(ident.span()=> #ident: #call));
            }
            GenericParam::Const(_) => {}
        }
    }
    outliving.extend(fresh.iter().map(|lifetime| parse_quote!(#lifetime: #call)));
    if receiver.is_some() || params.iter().any(|param| mentions_self(&param.ty)) {
        outliving.push(parse_quote_spanned!(receiver.span()=> Self: #call));
    }
    for (at, lifetime) in std::iter::once(call).chain(fresh).enumerate() {
        generics.params.insert(at, GenericParam::Lifetime(LifetimeParam::new(lifetime)));
    }
    generics.lt_token.get_or_insert_with(<Token![<]>::default);
    generics.gt_token.get_or_insert_with(<Token![>]>::default);
    if !outliving.is_empty() {
        generics.make_where_clause().predicates.extend(outliving);
    }
    (generics, receiver)
}

fn mentions_self(ty: &Type) -> bool {
    struct Find(bool);
    impl<'ast> Visit<'ast> for Find {
        fn visit_ident(&mut self, ident: &'ast Ident) {
            self.0 |= ident == "Self";
        }
    }
    let mut find = Find(false);
    find.visit_type(ty);
    find.0
}
