#[doc(hidden)]
#[allow(
    non_camel_case_types,
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::pedantic
)]
pub enum __durably_digest {}
#[allow(
    clippy::diverging_sub_expression,
    clippy::let_unit_value,
    clippy::no_effect_underscore_binding,
    clippy::type_complexity,
    clippy::used_underscore_binding
)]
impl ::durably::__private::Definition for __durably_digest {
    type Input = (Vec<String>,);
    type Output = anyhow::Result<Draft>;
    type Value = <anyhow::Result<Draft> as ::durably::__private::ResultType>::Value;
    type Save = <anyhow::Result<Draft> as ::durably::__private::ResultType>::Value;
    const SPEC: ::durably::__private::EntrypointSpec = ::durably::__private::EntrypointSpec::new(
        "digest",
        ::durably::__private::module_path!(),
        ::durably::__private::file!(),
        ::durably::__private::line!(),
    );
    fn codec() -> ::durably::__private::OutputCodec<Self::Output> {
        {
            #[allow(unused_imports)]
            use ::durably::__private::probe::{
                AsChain as _, AsNothing as _, AsTyped as _, FromDisplayed as _,
                FromNoTaskError as _, FromNothing as _, FromReported as _,
                FromSources as _, FromTaskError as _,
            };
            let __probe = ::durably::__private::probe::Probe::<
                <anyhow::Result<Draft> as ::durably::__private::ResultType>::Error,
            >::new();
            ::durably::__private::entrypoint_codec::<
                Self,
                <anyhow::Result<Draft> as ::durably::__private::ResultType>::Error,
                _,
                _,
                _,
            >(
                (&&&__probe).messages(),
                (&&__probe).origin(),
                (&&&__probe)
                    .form::<
                        <anyhow::Result<
                            Draft,
                        > as ::durably::__private::ResultType>::Error,
                    >(),
            )
        }
    }
    fn arguments(
        __input: &Self::Input,
    ) -> ::durably::__private::Result<
        ::durably::__private::Arguments,
        ::durably::__private::ArgumentError,
    > {
        let (urls,) = __input;
        ::durably::__private::ArgumentsBuilder::new().push("urls", urls).finish()
    }
    fn run(
        __input: Self::Input,
        __previous: ::durably::__private::Previous,
    ) -> ::durably::__private::Result<
        ::durably::__private::BoxFuture<
            'static,
            ::durably::__private::Returned<Self::Output>,
        >,
        ::durably::__private::ValueError,
    > {
        let __saved = ::durably::__private::previous::<Draft>(&__previous)?;
        ::durably::__private::Ok(
            ::durably::__private::Box::pin(async move {
                let __returned = async move {
                    if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                        anyhow::Result<Draft>,
                    > {
                        #[allow(unreachable_code)] return __output;
                    }
                    let (urls,) = __input;
                    let last: Option<Draft> = __saved;
                    #[allow(unused_braces)]
                    let __output: anyhow::Result<Draft> = { work(urls, last).await };
                    #[allow(unreachable_code)] __output
                }
                    .await;
                ::durably::__private::Returned::plain(__returned)
            }),
        )
    }
}
/// A digest.
#[track_caller]
pub fn digest(urls: Vec<String>) -> ::durably::EntrypointCall<__durably_digest> {
    ::durably::EntrypointCall::new((urls,))
}
