//! How an output is recorded: asked of its types where the user wrote them.

use proc_macro2::TokenStream;
use syn::Ident;

use crate::model::{Form, Output};

/// The codec of a task's output.
///
/// ```text
/// Result<Draft, LlmError>
/// // becomes
/// result_codec::<Draft, LlmError, _, _, _>(probe.messages(), probe.origin(), probe.form())
/// ```
pub(super) fn of_task<'a>(output: &Output, timeouts: impl Iterator<Item = &'a Ident>) -> TokenStream {
    let value = output.value();
    match output.form {
        Form::Plain => ours!(::durably::__private::plain_codec::<#value>()),
        Form::Result { .. } => {
            let error = output.error();
            probed(&error, timeouts, &ours!(::durably::__private::result_codec::<#value, #error, _, _, _>))
        }
    }
}

/// The codec of an entrypoint's output; that its value can be recorded is asked by the trait already.
pub(super) fn of_entrypoint(output: &Output) -> TokenStream {
    match output.form {
        Form::Plain => ours!(::durably::__private::entrypoint_plain_codec::<Self>()),
        Form::Result { .. } => {
            let error = output.error();
            probed(&error, std::iter::empty(), &ours!(::durably::__private::entrypoint_codec::<Self, #error, _, _, _>))
        }
    }
}

fn probed<'a>(error: &TokenStream, timeouts: impl Iterator<Item = &'a Ident>, codec: &TokenStream) -> TokenStream {
    let timeouts = timeouts.map(|timeout| {
        let ask = Ident::new("timeout", timeout.span());
        ours!((&&__probe).#ask();)
    });
    ours! {{
        #[allow(unused_imports)]
        use ::durably::__private::probe::{
            AsChain as _, AsNothing as _, AsTyped as _, FromDisplayed as _, FromNoTaskError as _, FromNothing as _,
            FromReported as _, FromSources as _, FromTaskError as _,
        };
        let __probe = ::durably::__private::probe::Probe::<#error>::new();
        #(#timeouts)*
        #codec((&&&__probe).messages(), (&&__probe).origin(), (&&&__probe).form::<#error>())
    }}
}
