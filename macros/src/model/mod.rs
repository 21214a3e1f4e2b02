//! What was written, checked: an expansion of it cannot fail. All rules are here.

mod entrypoint;
mod output;
mod param;
mod task;

pub(crate) use entrypoint::{Entrypoint, Last};
pub(crate) use output::{Form, Output};
pub(crate) use param::Param;
pub(crate) use task::{Attempts, Cache, Identity, Once, Task};

use proc_macro2::Span;
use syn::Signature;

use crate::diag::Diag;

/// Refuses what neither attribute can stand on.
fn qualifiers(sig: &Signature, of: &str, diag: &mut Diag) -> Option<()> {
    let mut good = Some(());
    let mut refuse = |span: Span, what: &str| {
        diag.here(span, format!("{of} cannot be {what}"));
        good = None;
    };
    if let Some(constness) = &sig.constness {
        refuse(constness.span, "a `const fn`: it has effects, and they are recorded when it runs");
    }
    if let syn::Safety::Unsafe(unsafety) = &sig.safety {
        refuse(unsafety.span, "`unsafe`: whoever awaits it could not keep its contract; move the unsafe part inside");
    }
    if let Some(abi) = &sig.abi {
        refuse(abi.extern_token.span, "`extern`: only Rust can call it");
    }
    if let Some(variadic) = &sig.variadic {
        refuse(variadic.dots.spans[0], "variadic");
    }
    good
}
