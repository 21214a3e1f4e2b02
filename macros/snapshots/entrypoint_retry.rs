#[doc(hidden)]
#[allow(
    non_camel_case_types,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::pedantic
)]
enum __durably_flow {}
#[allow(
    clippy::diverging_sub_expression,
    clippy::let_unit_value,
    clippy::no_effect_underscore_binding,
    clippy::type_complexity,
    clippy::used_underscore_binding
)]
impl ::durably::__private::Definition for __durably_flow {
    type Input = (u8,);
    type Output = Result<u8, FlowError>;
    type Value = u8;
    type Save = u8;
    const SPEC: ::durably::__private::EntrypointSpec = ::durably::__private::EntrypointSpec::new(
            "flow",
            ::durably::__private::module_path!(),
            ::durably::__private::file!(),
            ::durably::__private::line!(),
        )
        .max_concurrency(8);
    fn codec() -> ::durably::__private::OutputCodec<Self::Output> {
        {
            #[allow(unused_imports)]
            use ::durably::__private::probe::{
                AsChain as _, AsNothing as _, AsTyped as _, FromDisplayed as _,
                FromNoTaskError as _, FromNothing as _, FromReported as _,
                FromSources as _, FromTaskError as _,
            };
            let __probe = ::durably::__private::probe::Probe::<FlowError>::new();
            ::durably::__private::entrypoint_codec::<
                Self,
                FlowError,
                _,
                _,
                _,
            >(
                (&&&__probe).messages(),
                (&&__probe).origin(),
                (&&&__probe).form::<FlowError>(),
            )
        }
    }
    fn retries() -> ::durably::__private::Retries<Self::Output> {
        ::durably::__private::Retries::new()
            .retry(
                ::durably::__private::RetryPolicy::new().max_attempts(5),
                ::durably::__private::retry_on::<Self::Output>(is_transient),
            )
            .retry(
                ::durably::__private::RetryPolicy::new()
                    .max_attempts(2)
                    .initial_interval(
                        ::durably::__private::Duration::from_millis(1000u64),
                    ),
                ::durably::__private::None,
            )
    }
    fn arguments(
        __input: &Self::Input,
    ) -> ::durably::__private::Result<
        ::durably::__private::Arguments,
        ::durably::__private::ArgumentError,
    > {
        let (n,) = __input;
        ::durably::__private::ArgumentsBuilder::new().push("n", n).finish()
    }
    fn run(
        __input: Self::Input,
        _: ::durably::__private::Previous,
    ) -> ::durably::__private::Result<
        ::durably::__private::BoxFuture<
            'static,
            ::durably::__private::Returned<Self::Output>,
        >,
        ::durably::__private::ValueError,
    > {
        ::durably::__private::Ok(
            ::durably::__private::Box::pin(async move {
                let __returned = async move {
                    if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                        Result<u8, FlowError>,
                    > {
                        #[allow(unreachable_code)] return __output;
                    }
                    let (n,) = __input;
                    #[allow(unused_braces)]
                    let __output: Result<u8, FlowError> = { work(n).await };
                    #[allow(unreachable_code)] __output
                }
                    .await;
                ::durably::__private::Returned::plain(__returned)
            }),
        )
    }
}
#[track_caller]
fn flow(n: u8) -> ::durably::EntrypointCall<__durably_flow> {
    ::durably::EntrypointCall::new((n,))
}
