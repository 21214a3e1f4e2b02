//! Annotated functions as values: what `resume(digest)` takes.

use super::{Definition, EntrypointCall};

/// A function annotated with `#[entrypoint]`, by its path: what [`Thread::resume`](crate::Thread::resume) and
/// [`RuntimeBuilder::entrypoint`](crate::RuntimeBuilder::entrypoint) take. Implemented for exactly these functions, of up
/// to twelve recorded parameters (`A` is their tuple).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no entrypoint",
    label = "not a function with `#[entrypoint]`",
    note = "what is wanted is the annotated function itself, by its name and without arguments: `thread.resume(digest)`"
)]
pub trait EntrypointFn<A> {
    /// What the annotation made of the function.
    type Definition: Definition;
}

macro_rules! functions {
    ($($parameter:ident)*) => {
        impl<F, D, $($parameter),*> EntrypointFn<($($parameter,)*)> for F
        where
            F: Fn($($parameter),*) -> EntrypointCall<D>,
            D: Definition,
        {
            type Definition = D;
        }
    };
}

functions!();
functions!(A);
functions!(A B);
functions!(A B C);
functions!(A B C G);
functions!(A B C G H);
functions!(A B C G H I);
functions!(A B C G H I J);
functions!(A B C G H I J K);
functions!(A B C G H I J K L);
functions!(A B C G H I J K L M);
functions!(A B C G H I J K L M N);
functions!(A B C G H I J K L M N O);
