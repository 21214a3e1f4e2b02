//! The options a user can write, read one by one so that each mistake in them is told.

use std::{collections::BTreeSet, time::Duration};

use proc_macro2::TokenStream;
use syn::{
    Ident, Lit, LitBool, LitFloat, LitInt, LitStr, Path, Token,
    ext::IdentExt,
    parenthesized,
    parse::{Parse, ParseStream, Parser},
    token,
};

use crate::{
    diag::Diag,
    duration,
    lint::{self, Category},
};

/// What stands in `#[task(..)]`.
#[derive(Default)]
pub(crate) struct TaskArgs {
    pub(crate) name: Option<LitStr>,
    pub(crate) retries: Vec<RetryArgs>,
    pub(crate) timeout: Option<(Ident, Duration)>,
    pub(crate) idle_timeout: Option<(Ident, Duration)>,
    pub(crate) cache: Option<CacheArgs>,
    pub(crate) skip: Option<(Ident, Vec<Ident>)>,
    pub(crate) skip_all: Option<Ident>,
    pub(crate) key: Option<(Ident, LitStr)>,
    pub(crate) blocking: Option<Ident>,
    pub(crate) at_most_once: Option<Ident>,
    pub(crate) reconcile: Option<(Ident, Path)>,
    /// The first option, if there is any.
    pub(crate) first: Option<Ident>,
}

/// What stands in `retry(..)`; what is not written is the runtime's default.
pub(crate) struct RetryArgs {
    pub(crate) keyword: Ident,
    pub(crate) max_attempts: Option<LitInt>,
    pub(crate) initial_interval: Option<Duration>,
    pub(crate) backoff_factor: Option<LitFloat>,
    pub(crate) max_interval: Option<Duration>,
    pub(crate) jitter: Option<LitBool>,
    pub(crate) retry_on: Option<Path>,
}

/// What stands in `cache(..)`; what is not written is the runtime's default.
pub(crate) struct CacheArgs {
    pub(crate) ttl: Option<Duration>,
    pub(crate) key: Option<LitStr>,
    pub(crate) version: Option<LitInt>,
}

/// What stands in `#[entrypoint(..)]`.
#[derive(Default)]
pub(crate) struct EntrypointArgs {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<LitInt>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) allow: Option<BTreeSet<Category>>,
    pub(crate) retries: Vec<RetryArgs>,
    pub(crate) max_concurrency: Option<LitInt>,
}

impl TaskArgs {
    const KNOWN: &[&str] = &[
        "name",
        "retry",
        "timeout",
        "idle_timeout",
        "cache",
        "skip",
        "skip_all",
        "key",
        "blocking",
        "at_most_once",
        "reconcile",
    ];

    pub(crate) fn parse(options: TokenStream, diag: &mut Diag) -> Self {
        let mut args = Self::default();
        each(options, diag, |key, input, diag| args.option(key, input, diag));
        args
    }

    fn option(&mut self, key: &Ident, input: ParseStream<'_>, diag: &mut Diag) -> syn::Result<()> {
        self.first.get_or_insert_with(|| key.clone());
        if key == "name" {
            set(&mut self.name, key, value(key, input, name)?)
        } else if key == "timeout" {
            set(&mut self.timeout, key, (key.clone(), value(key, input, timeout)?))
        } else if key == "idle_timeout" {
            set(&mut self.idle_timeout, key, (key.clone(), value(key, input, timeout)?))
        } else if key == "cache" {
            let cache = CacheArgs::parse(key, input, diag)?;
            set(&mut self.cache, key, cache)
        } else if key == "key" {
            set(&mut self.key, key, (key.clone(), value(key, input, parsed)?))
        } else if key == "skip" {
            let skipped = skipped(key, input, diag)?;
            set(&mut self.skip, key, (key.clone(), skipped))
        } else if key == "skip_all" {
            set(&mut self.skip_all, key, flag(key, input)?)
        } else if key == "blocking" {
            set(&mut self.blocking, key, flag(key, input)?)
        } else if key == "at_most_once" {
            set(&mut self.at_most_once, key, flag(key, input)?)
        } else if key == "reconcile" {
            set(&mut self.reconcile, key, (key.clone(), value(key, input, parsed)?))
        } else if key == "retry" {
            self.retries.push(RetryArgs::parse(key, input, diag)?);
            Ok(())
        } else {
            Err(unknown("a task", key, Self::KNOWN))
        }
    }
}

impl RetryArgs {
    const KNOWN: &[&str] =
        &["max_attempts", "initial_interval", "backoff_factor", "max_interval", "jitter", "retry_on"];

    fn parse(key: &Ident, input: ParseStream<'_>, diag: &mut Diag) -> syn::Result<Self> {
        let mut retry = Self {
            keyword: key.clone(),
            max_attempts: None,
            initial_interval: None,
            backoff_factor: None,
            max_interval: None,
            jitter: None,
            retry_on: None,
        };
        if input.peek(token::Paren) {
            let list;
            parenthesized!(list in input);
            options(&list, diag, |key, input, _| retry.option(key, input));
        } else if input.peek(Token![=]) {
            return Err(syn::Error::new(key.span(), "`retry` takes a list: `retry(max_attempts = 5)`"));
        }
        Ok(retry)
    }

    fn option(&mut self, key: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        if key == "max_attempts" {
            set(&mut self.max_attempts, key, value(key, input, attempts)?)
        } else if key == "initial_interval" {
            set(&mut self.initial_interval, key, value(key, input, time)?)
        } else if key == "backoff_factor" {
            set(&mut self.backoff_factor, key, value(key, input, factor)?)
        } else if key == "max_interval" {
            set(&mut self.max_interval, key, value(key, input, time)?)
        } else if key == "jitter" {
            set(&mut self.jitter, key, value(key, input, parsed)?)
        } else if key == "retry_on" {
            set(&mut self.retry_on, key, value(key, input, parsed)?)
        } else {
            Err(unknown("`retry`", key, Self::KNOWN))
        }
    }
}

impl CacheArgs {
    const KNOWN: &[&str] = &["ttl", "key", "version"];

    fn parse(key: &Ident, input: ParseStream<'_>, diag: &mut Diag) -> syn::Result<Self> {
        let mut cache = Self { ttl: None, key: None, version: None };
        if input.peek(token::Paren) {
            let list;
            parenthesized!(list in input);
            options(&list, diag, |key, input, _| cache.option(key, input));
        } else if input.peek(Token![=]) {
            return Err(syn::Error::new(key.span(), "`cache` takes a list: `cache(ttl = \"1h\")`"));
        }
        Ok(cache)
    }

    fn option(&mut self, key: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        if key == "ttl" {
            set(&mut self.ttl, key, value(key, input, lifetime)?)
        } else if key == "key" {
            set(&mut self.key, key, value(key, input, parsed)?)
        } else if key == "version" {
            set(&mut self.version, key, value(key, input, version)?)
        } else {
            Err(unknown("`cache`", key, Self::KNOWN))
        }
    }
}

impl EntrypointArgs {
    const KNOWN: &[&str] = &["name", "version", "timeout", "retry", "max_concurrency", "allow"];

    pub(crate) fn parse(options: TokenStream, diag: &mut Diag) -> Self {
        let mut args = Self::default();
        each(options, diag, |key, input, diag| args.option(key, input, diag));
        args
    }

    fn option(&mut self, key: &Ident, input: ParseStream<'_>, diag: &mut Diag) -> syn::Result<()> {
        if key == "name" {
            set(&mut self.name, key, value(key, input, name)?)
        } else if key == "version" {
            set(&mut self.version, key, value(key, input, version)?)
        } else if key == "timeout" {
            set(&mut self.timeout, key, value(key, input, timeout)?)
        } else if key == "allow" {
            let allowed = allowed(key, input, diag)?;
            set(&mut self.allow, key, allowed)
        } else if key == "retry" {
            self.retries.push(RetryArgs::parse(key, input, diag)?);
            Ok(())
        } else if key == "max_concurrency" {
            set(&mut self.max_concurrency, key, value(key, input, concurrency)?)
        } else {
            Err(unknown("an entrypoint", key, Self::KNOWN))
        }
    }
}

/// The one setter: refuses an option that is written twice, at the second.
fn set<T>(slot: &mut Option<T>, key: &Ident, value: T) -> syn::Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(syn::Error::new(key.span(), format!("`{key}` is written twice"))),
    }
}

/// Reads `key ..` as often as there is one; the parser of an option goes on after a mistake in another.
fn each(
    tokens: TokenStream,
    diag: &mut Diag,
    option: impl FnMut(&Ident, ParseStream<'_>, &mut Diag) -> syn::Result<()>,
) {
    let read = |input: ParseStream<'_>| {
        options(input, diag, option);
        Ok(())
    };
    // Every mistake is in `diag` already, and nothing is left over.
    let _ = read.parse2(tokens);
}

fn options(
    input: ParseStream<'_>,
    diag: &mut Diag,
    mut option: impl FnMut(&Ident, ParseStream<'_>, &mut Diag) -> syn::Result<()>,
) {
    while !input.is_empty() {
        let read = input.call(Ident::parse_any).and_then(|key| option(&key, input, diag));
        let read = read.and_then(|()| {
            if input.is_empty() || input.peek(Token![,]) {
                Ok(())
            } else {
                Err(input.error("expected `,` between options"))
            }
        });
        if let Err(mistake) = read {
            diag.push(mistake);
            skip_to_comma(input);
        }
        let _ = input.parse::<Token![,]>();
    }
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        let _ = input.parse::<proc_macro2::TokenTree>();
    }
}

/// `key = VALUE`
fn value<T>(
    key: &Ident,
    input: ParseStream<'_>,
    read: impl FnOnce(ParseStream<'_>) -> syn::Result<T>,
) -> syn::Result<T> {
    if !input.peek(Token![=]) {
        return Err(syn::Error::new(key.span(), format!("`{key}` takes a value: `{key} = ..`")));
    }
    input.parse::<Token![=]>()?;
    read(input)
}

/// `key`, alone
fn flag(key: &Ident, input: ParseStream<'_>) -> syn::Result<Ident> {
    if input.is_empty() || input.peek(Token![,]) {
        Ok(key.clone())
    } else {
        Err(syn::Error::new(key.span(), format!("`{key}` stands alone, without a value")))
    }
}

/// `key(a, b)`
fn idents(
    key: &Ident,
    example: &str,
    input: ParseStream<'_>,
    diag: &mut Diag,
    mut each: impl FnMut(Ident) -> syn::Result<()>,
) -> syn::Result<()> {
    if !input.peek(token::Paren) {
        return Err(syn::Error::new(key.span(), format!("`{key}` takes a list: `{example}`")));
    }
    let list;
    let paren = parenthesized!(list in input);
    if list.is_empty() {
        return Err(syn::Error::new(paren.span.join(), format!("an empty `{key}` says nothing: `{example}`")));
    }
    options(&list, diag, |ident, _, _| each(ident.clone()));
    Ok(())
}

fn skipped(key: &Ident, input: ParseStream<'_>, diag: &mut Diag) -> syn::Result<Vec<Ident>> {
    let mut skipped: Vec<Ident> = Vec::new();
    idents(key, "skip(client, config)", input, diag, |ident| {
        if skipped.contains(&ident) {
            return Err(syn::Error::new(ident.span(), format!("`{ident}` is skipped twice")));
        }
        skipped.push(ident);
        Ok(())
    })?;
    Ok(skipped)
}

fn allowed(key: &Ident, input: ParseStream<'_>, diag: &mut Diag) -> syn::Result<BTreeSet<Category>> {
    let mut allowed = BTreeSet::new();
    idents(key, "allow(clock)", input, diag, |ident| match lint::CATEGORIES.iter().find(|(name, _)| ident == name) {
        Some((_, category)) => {
            allowed.insert(*category);
            Ok(())
        }
        None => Err(unknown("`allow`", &ident, &lint::CATEGORIES.map(|(name, _)| name))),
    })?;
    Ok(allowed)
}

/// Whatever is wanted there, as syn reads it.
fn parsed<T: Parse>(input: ParseStream<'_>) -> syn::Result<T> {
    input.parse()
}

fn name(input: ParseStream<'_>) -> syn::Result<LitStr> {
    let name: LitStr = input.parse()?;
    if name.value().trim().is_empty() {
        Err(syn::Error::new(name.span(), "a name in the journal must not be empty"))
    } else {
        Ok(name)
    }
}

fn time(input: ParseStream<'_>) -> syn::Result<Duration> {
    match input.parse()? {
        Lit::Str(text) => duration::parse(&text.value()).map_err(|reason| syn::Error::new(text.span(), reason)),
        other => {
            let message = format!("a duration without a unit; {}", duration::UNITS);
            Err(syn::Error::new(other.span(), message))
        }
    }
}

fn timeout(input: ParseStream<'_>) -> syn::Result<Duration> {
    let span = input.span();
    match time(input)? {
        Duration::ZERO => Err(syn::Error::new(span, "a timeout of 0 lets no attempt finish")),
        limit => Ok(limit),
    }
}

fn lifetime(input: ParseStream<'_>) -> syn::Result<Duration> {
    let span = input.span();
    match time(input)? {
        Duration::ZERO => Err(syn::Error::new(span, "a `ttl` of 0 keeps nothing; leave `cache` out")),
        ttl => Ok(ttl),
    }
}

fn concurrency(input: ParseStream<'_>) -> syn::Result<LitInt> {
    let limit: LitInt = input.parse()?;
    match limit.base10_parse::<u32>()? {
        0 => Err(syn::Error::new(limit.span(), "a `max_concurrency` of 0 lets no task start: it is at least 1")),
        _ => Ok(limit),
    }
}

fn attempts(input: ParseStream<'_>) -> syn::Result<LitInt> {
    let attempts: LitInt = input.parse()?;
    match attempts.base10_parse::<u32>()? {
        0 => Err(syn::Error::new(attempts.span(), "`max_attempts` counts the first attempt: it is at least 1")),
        _ => Ok(attempts),
    }
}

fn version(input: ParseStream<'_>) -> syn::Result<LitInt> {
    let version: LitInt = input.parse()?;
    version.base10_parse::<u32>()?;
    Ok(version)
}

/// A float, or a whole number as one.
fn factor(input: ParseStream<'_>) -> syn::Result<LitFloat> {
    let (digits, factor, span) = match input.parse()? {
        Lit::Float(float) => (float.base10_digits().to_owned(), float.base10_parse::<f64>()?, float.span()),
        Lit::Int(int) => (format!("{}.0", int.base10_digits()), int.base10_parse::<f64>()?, int.span()),
        other => return Err(syn::Error::new(other.span(), "`backoff_factor` is a number: `backoff_factor = 2.0`")),
    };
    if factor >= 1.0 {
        Ok(LitFloat::new(&digits, span))
    } else {
        Err(syn::Error::new(span, "a `backoff_factor` below 1 would make each pause shorter than the last"))
    }
}

fn unknown(of: &str, key: &Ident, known: &[&str]) -> syn::Error {
    let list: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
    let near = nearest(&key.to_string(), known).map(|near| format!(", did you mean `{near}`?")).unwrap_or_default();
    let message = format!("{of} has no option `{key}`{near}; there are {}", list.join(", "));
    syn::Error::new(key.span(), message)
}

/// The known word that is at most two edits away.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|known| (edits(word, known), *known)).min()?;
    (near.0 <= 2 && near.0 < near.1.len()).then_some(near.1)
}

/// How many letters must be put in, taken out or changed.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let change = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
