#[track_caller]
#[allow(
    clippy::diverging_sub_expression,
    clippy::let_unit_value,
    clippy::multiple_bound_locations,
    clippy::needless_arbitrary_self_type,
    clippy::no_effect_underscore_binding,
    clippy::type_complexity,
    clippy::used_underscore_binding
)]
fn summarise<'durably>(
    llm: &'durably Llm,
    pages: &'durably [String],
) -> ::durably::TaskCall<'durably, Result<Draft, LlmError>> {
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
        "summarise",
        ::durably::__private::module_path!(),
        ::durably::__private::file!(),
        ::durably::__private::line!(),
    );
    ::durably::__private::call(
        &__SPEC,
        if ::durably::__private::in_run() {
            ::durably::__private::Some({
                let __arguments = ::durably::__private::ArgumentsBuilder::new();
                let __arguments = __arguments
                    .push::<&'durably [String]>("pages", &pages);
                __arguments.finish()
            })
        } else {
            ::durably::__private::None
        },
        {
            #[allow(unused_imports)]
            use ::durably::__private::probe::{
                AsChain as _, AsNothing as _, AsTyped as _, FromDisplayed as _,
                FromNoTaskError as _, FromNothing as _, FromReported as _,
                FromSources as _, FromTaskError as _,
            };
            let __probe = ::durably::__private::probe::Probe::<LlmError>::new();
            ::durably::__private::result_codec::<
                Draft,
                LlmError,
                _,
                _,
                _,
            >(
                (&&&__probe).messages(),
                (&&__probe).origin(),
                (&&&__probe).form::<LlmError>(),
            )
        },
        move || ::durably::__private::Body::once(async move {
            if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                Result<Draft, LlmError>,
            > {
                #[allow(unreachable_code)] return __output;
            }
            let llm = llm;
            let pages = pages;
            #[allow(unused_braces)]
            let __output: Result<Draft, LlmError> = { llm.ask(pages).await };
            #[allow(unreachable_code)] __output
        }),
    )
}
