//! What must not stand in an entrypoint, because it does not come out the same again: looked for in its tokens.
//!
//! It reads names, not types: it finds `Instant::now()` and not `use Instant as I; I::now()`. What it misses, the
//! runtime finds at the record.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

use crate::diag::Diag;

/// A kind of finding, as it is named in `allow(..)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Category {
    Clock,
    Random,
    Spawn,
    Timer,
    Fs,
    Env,
    Net,
    Select,
}

/// How each is written.
pub(crate) const CATEGORIES: [(&str, Category); 8] = [
    ("clock", Category::Clock),
    ("random", Category::Random),
    ("spawn", Category::Spawn),
    ("timer", Category::Timer),
    ("fs", Category::Fs),
    ("env", Category::Env),
    ("net", Category::Net),
    ("select", Category::Select),
];

impl Category {
    fn name(self) -> &'static str {
        CATEGORIES.iter().find(|(_, category)| *category == self).map_or("", |(name, _)| name)
    }

    /// Why not, and what instead.
    fn remedy(self) -> &'static str {
        match self {
            Self::Clock => "a replay would see another time; use `durably::now()`, which is recorded",
            Self::Random => {
                "a replay would see another value; use `durably::random()` or `durably::uuid()`, which are recorded"
            }
            Self::Spawn => {
                "what runs beside an entrypoint is not replayed in order; make it a #[task] and join the calls, or \
                 `.spawn()` one"
            }
            Self::Timer => "a timer outside the journal does not survive a restart; use `durably::sleep()`",
            Self::Fs => "a replay may find other files, or write twice; move it into a #[task]",
            Self::Env => "a replay may find another environment; read it in a #[task], or pass it in as an argument",
            Self::Net => "a replay would ask again; move it into a #[task]",
            Self::Select => {
                "the branches are polled in a random order, so that a replay may take another one; write `biased;` \
                 first, or use `durably::select!`"
            }
        }
    }
}

/// Paths that are looked for anywhere in a longer one, and where only at its start.
const ANYWHERE: &[(&[&str], Category)] = &[
    (&["SystemTime", "now"], Category::Clock),
    (&["Instant", "now"], Category::Clock),
    (&["Utc", "now"], Category::Clock),
    (&["Local", "now"], Category::Clock),
    (&["OffsetDateTime", "now_utc"], Category::Clock),
    (&["OffsetDateTime", "now_local"], Category::Clock),
    (&["Timestamp", "now"], Category::Clock),
    (&["Zoned", "now"], Category::Clock),
    (&["Uuid", "new_v4"], Category::Random),
    (&["Uuid", "now_v1"], Category::Random),
    (&["Uuid", "now_v6"], Category::Random),
    (&["Uuid", "now_v7"], Category::Random),
    (&["thread_rng"], Category::Random),
    (&["OsRng"], Category::Random),
    (&["tokio", "spawn"], Category::Spawn),
    (&["task", "spawn"], Category::Spawn),
    (&["task", "spawn_local"], Category::Spawn),
    (&["spawn_blocking"], Category::Spawn),
    (&["block_in_place"], Category::Spawn),
    (&["thread", "spawn"], Category::Spawn),
    (&["thread", "scope"], Category::Spawn),
    (&["thread", "sleep"], Category::Timer),
    (&["tokio", "time"], Category::Timer),
    (&["tokio", "fs"], Category::Fs),
    (&["std", "fs"], Category::Fs),
    (&["File", "open"], Category::Fs),
    (&["File", "create"], Category::Fs),
    (&["OpenOptions", "new"], Category::Fs),
    (&["env", "var"], Category::Env),
    (&["env", "vars"], Category::Env),
    (&["env", "var_os"], Category::Env),
    (&["env", "args"], Category::Env),
    (&["env", "args_os"], Category::Env),
    (&["env", "current_dir"], Category::Env),
    (&["TcpStream", "connect"], Category::Net),
    (&["TcpListener", "bind"], Category::Net),
    (&["UdpSocket", "bind"], Category::Net),
    (&["UnixStream", "connect"], Category::Net),
    (&["tokio", "net"], Category::Net),
];
const AT_THE_START: &[(&str, Category)] = &[
    ("rand", Category::Random),
    ("fastrand", Category::Random),
    ("getrandom", Category::Random),
    ("reqwest", Category::Net),
    ("hyper", Category::Net),
    ("ureq", Category::Net),
];

/// Reports each finding in these tokens that is not allowed.
pub(crate) fn entrypoint(body: &Group, allowed: &BTreeSet<Category>, diag: &mut Diag) {
    let mut lint = Lint { allowed, diag };
    lint.tokens(body.stream());
}

struct Lint<'a> {
    allowed: &'a BTreeSet<Category>,
    diag: &'a mut Diag,
}

impl Lint<'_> {
    fn tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < trees.len() {
            let path = path(&trees[at..]);
            if path.is_empty() {
                if let TokenTree::Group(group) = &trees[at] {
                    self.tokens(group.stream());
                }
                at += 1;
                continue;
            }
            let end = at + path.len() * 3 - 2;
            if !is_member(&trees[..at]) {
                self.path(&path, &trees[at..end], &trees[end..]);
            }
            at = end;
        }
    }

    fn path(&mut self, path: &[&Ident], tokens: &[TokenTree], after: &[TokenTree]) {
        if is_unbiased_select(path, after) {
            self.report(Category::Select, &tokens.iter().chain(&after[..1]).cloned().collect::<Vec<_>>(), "");
        }
        let at_the_start = AT_THE_START.iter().filter(|(name, _)| path.len() > 1 && path[0] == name);
        let anywhere = ANYWHERE.iter().filter(|(wanted, _)| {
            path.windows(wanted.len()).any(|names| names.iter().zip(*wanted).all(|(name, wanted)| *name == wanted))
        });
        let found = at_the_start.map(|(_, category)| *category).chain(anywhere.map(|(_, category)| *category)).next();
        if let Some(category) = found {
            let written: Vec<String> = path.iter().map(ToString::to_string).collect();
            self.report(category, tokens, &format!("`{}`: ", written.join("::")));
        }
    }

    fn report(&mut self, category: Category, tokens: &[TokenTree], what: &str) {
        if self.allowed.contains(&category) {
            return;
        }
        let tokens: TokenStream = tokens.iter().cloned().collect();
        let what = if what.is_empty() { "an unbiased `select!`: ".to_owned() } else { what.to_owned() };
        let (remedy, name) = (category.remedy(), category.name());
        let message = format!("{what}{remedy} (to keep it: `#[entrypoint(allow({name}))]`)");
        self.diag.at(tokens, message);
    }
}

/// Whether what follows these is a method or a field: somebody else's of that name. `0..rand::random()` is none.
fn is_member(before: &[TokenTree]) -> bool {
    let is_dot = |tree: &TokenTree| matches!(tree, TokenTree::Punct(dot) if dot.as_char() == '.');
    match before {
        [.., range, dot] if is_dot(dot) => !is_dot(range),
        _ => false,
    }
}

/// The idents of the path that starts here: `a :: b :: c`; empty if none does.
fn path(trees: &[TokenTree]) -> Vec<&Ident> {
    let mut path = Vec::new();
    let mut rest = trees;
    while let [TokenTree::Ident(ident), after @ ..] = rest {
        path.push(ident);
        match after {
            [TokenTree::Punct(a), TokenTree::Punct(b), next @ ..]
                if a.as_char() == ':' && b.as_char() == ':' && matches!(next.first(), Some(TokenTree::Ident(_))) =>
            {
                rest = next;
            }
            _ => break,
        }
    }
    path
}

/// `select! { .. }`, of whatever crate but ours, whose first tokens are not `biased;`.
fn is_unbiased_select(path: &[&Ident], after: &[TokenTree]) -> bool {
    let is_select = path.last().is_some_and(|last| *last == "select") && path[0] != "durably";
    let [TokenTree::Punct(bang), TokenTree::Group(branches), ..] = after else { return false };
    if !is_select || bang.as_char() != '!' || branches.delimiter() == Delimiter::None {
        return false;
    }
    let mut first = branches.stream().into_iter();
    let is_biased = matches!(first.next(), Some(TokenTree::Ident(word)) if word == "biased")
        && matches!(first.next(), Some(TokenTree::Punct(semicolon)) if semicolon.as_char() == ';');
    !is_biased
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    fn findings(body: TokenStream, allowed: &[Category]) -> usize {
        let mut diag = Diag::default();
        let body = Group::new(Delimiter::Brace, body);
        entrypoint(&body, &allowed.iter().copied().collect(), &mut diag);
        diag.into_tokens().to_string().matches("compile_error").count()
    }

    #[test]
    fn each_kind_is_found_in_nested_tokens() {
        let body = quote! {
            let a = std::time::SystemTime::now();
            let b = urls.iter().map(|_| { let c = [Uuid::new_v4()]; c });
            tokio::time::sleep(d).await;
            rand::random::<u8>();
            println!("{}", std::env::var("HOME"));
            for i in 0..rand::random() {}
        };
        assert_eq!(findings(body.clone(), &[]), 6);
        assert_eq!(findings(body, &[Category::Clock, Category::Random]), 2);
    }

    #[test]
    fn what_only_looks_like_it_is_not() {
        let body = quote! {
            let text = "SystemTime::now()";
            pool.spawn_blocking(); clock.thread_rng;
            durably::now(); now(); rand(1); let rand = 3; tokio_time::x(); my::fs::read();
            durably::select! { a = x => a }
            futures::select_biased! { a = x => a }
            tokio::select! { biased; a = x => a }
        };
        assert_eq!(findings(body, &[]), 0);
    }

    #[test]
    fn a_select_must_be_biased() {
        assert_eq!(findings(quote!(tokio::select! { a = x => a }), &[]), 1);
        assert_eq!(findings(quote!(select! { biased = x => a }), &[]), 1);
        assert_eq!(findings(quote!(futures::select!(a = x => a)), &[Category::Select]), 0);
    }
}
