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
fn hash<'durably>(bytes: Vec<u8>) -> ::durably::TaskCall<'durably, anyhow::Result<u64>> {
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
        "hash",
        ::durably::__private::module_path!(),
        ::durably::__private::file!(),
        ::durably::__private::line!(),
    );
    ::durably::__private::call(
        &__SPEC,
        if ::durably::__private::in_run() {
            ::durably::__private::Some({
                let __arguments = ::durably::__private::ArgumentsBuilder::new();
                let __arguments = __arguments.push::<Vec<u8>>("bytes", &bytes);
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
            let __probe = ::durably::__private::probe::Probe::<
                <anyhow::Result<u64> as ::durably::__private::ResultType>::Error,
            >::new();
            ::durably::__private::result_codec::<
                <anyhow::Result<u64> as ::durably::__private::ResultType>::Value,
                <anyhow::Result<u64> as ::durably::__private::ResultType>::Error,
                _,
                _,
                _,
            >(
                (&&&__probe).messages(),
                (&&__probe).origin(),
                (&&&__probe)
                    .form::<
                        <anyhow::Result<u64> as ::durably::__private::ResultType>::Error,
                    >(),
            )
        },
        move || {
            ::durably::__private::Body::blocking(move || {
                    let bytes = ::durably::__private::again::<Vec<u8>>(&bytes);
                    move || {
                        if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                            anyhow::Result<u64>,
                        > {
                            #[allow(unreachable_code)] return __output;
                        }
                        let mut bytes = bytes;
                        #[allow(unused_braces)]
                        let __output: anyhow::Result<u64> = { sum(bytes) };
                        #[allow(unreachable_code)] __output
                    }
                })
                .retry(
                    ::durably::__private::RetryPolicy::new(),
                    ::durably::__private::None,
                )
        },
    )
}
