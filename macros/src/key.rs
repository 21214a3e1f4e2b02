//! `key = "{order.id}/{attempt:03}"`: a format string whose placeholders are expressions over the arguments.

use syn::{Expr, LitStr};

/// `format!`'s string, and the expressions of its placeholders in order.
pub(crate) struct Key {
    pub(crate) format: LitStr,
    pub(crate) exprs: Vec<Expr>,
}

impl Key {
    /// Takes the expressions out.
    ///
    /// ```text
    /// "{order.id}/{n:03}"   // becomes
    /// "{}/{:03}", order.id, n
    /// ```
    pub(crate) fn parse(written: &LitStr) -> syn::Result<Self> {
        let refuse = |message: &str| Err(syn::Error::new(written.span(), message));
        let text = written.value();
        let (mut format, mut exprs) = (String::new(), Vec::new());
        let mut rest = &*text;
        while let Some(brace) = rest.find(['{', '}']) {
            let (literal, at) = rest.split_at(brace);
            format.push_str(literal);
            if let Some(escaped) = ["{{", "}}"].into_iter().find(|escaped| at.starts_with(escaped)) {
                format.push_str(escaped);
                rest = &at[2..];
                continue;
            }
            if at.starts_with('}') {
                return refuse("a `}` without its `{` in the key; write `}}` for a brace");
            }
            let Some((placeholder, after)) = placeholder(&at[1..]) else {
                return refuse("a `{` without its `}` in the key; write `{{` for a brace");
            };
            let (expr, spec) = split_spec(placeholder);
            if expr.trim().is_empty() {
                return refuse("an empty placeholder in the key; write an expression over the arguments: `{order.id}`");
            }
            let expr = LitStr::new(expr, written.span()).parse::<Expr>().map_err(|error| {
                syn::Error::new(written.span(), format!("`{{{expr}}}` in the key is not an expression: {error}"))
            })?;
            format.extend(["{", spec, "}"]);
            exprs.push(expr);
            rest = after;
        }
        format.push_str(rest);
        Ok(Self { format: LitStr::new(&format, written.span()), exprs })
    }

    /// The names that its expressions start from: `order` in `order.id`, `ids` in `ids[0].len()`.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &syn::Ident> {
        self.exprs.iter().filter_map(root)
    }
}

fn root(expr: &Expr) -> Option<&syn::Ident> {
    match expr {
        Expr::Path(path) => path.path.get_ident(),
        Expr::Field(field) => root(&field.base),
        Expr::MethodCall(call) => root(&call.receiver),
        Expr::Index(index) => root(&index.expr),
        Expr::Reference(reference) => root(&reference.expr),
        Expr::Unary(unary) => root(&unary.expr),
        Expr::Paren(paren) => root(&paren.expr),
        _ => None,
    }
}

/// `order.id}/rest` → `order.id`, `/rest`
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let end = outside(text, |depth, at| depth == 0 && text[at..].starts_with('}'))?;
    Some((&text[..end], &text[end + 1..]))
}

/// `n:03` → `n`, `:03`; the colons of a path are none of a format.
fn split_spec(text: &str) -> (&str, &str) {
    let single = |at: usize| text[at..].starts_with(':') && !text[at..].starts_with("::") && !text[..at].ends_with(':');
    outside(text, |depth, at| depth == 0 && single(at)).map_or((text, ""), |at| text.split_at(at))
}

/// The first place for which this holds, outside of string literals; it is told how many brackets are open there.
fn outside(text: &str, holds: impl Fn(usize, usize) -> bool) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, letter) in text.char_indices() {
        if quoted {
            quoted = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
            continue;
        }
        if holds(depth, at) {
            return Some(at);
        }
        match letter {
            '"' => quoted = true,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;
    use quote::ToTokens;

    use super::*;

    #[track_caller]
    fn check(written: &str, format: &str, exprs: &[&str]) {
        let key = Key::parse(&LitStr::new(written, Span::call_site())).expect("a good key");
        let found: Vec<String> = key.exprs.iter().map(|expr| expr.to_token_stream().to_string()).collect();
        assert_eq!((key.format.value().as_str(), found), (format, exprs.iter().map(|&e| e.to_owned()).collect()));
    }

    #[test]
    fn placeholders_are_expressions() {
        check("order-{order.id}/{n:03}", "order-{}/{:03}", &["order . id", "n"]);
        check("{{{id}}}", "{{{}}}", &["id"]);
        check("{kind::of(x)}:{y:?}", "{}:{:?}", &["kind :: of (x)", "y"]);
        check("{map[\"a}:\"]}", "{}", &["map [\"a}:\"]"]);
        check("nothing", "nothing", &[]);
    }

    #[test]
    fn a_brace_is_never_guessed() {
        for written in ["{", "}", "{}", "{:?}", "{a b}", "a{b"] {
            assert!(Key::parse(&LitStr::new(written, Span::call_site())).is_err(), "{written:?} was taken for a key");
        }
    }
}
