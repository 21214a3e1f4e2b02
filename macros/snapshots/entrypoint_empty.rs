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
    type Input = ();
    type Output = ();
    type Value = ();
    type Save = ();
    const SPEC: ::durably::__private::EntrypointSpec = ::durably::__private::EntrypointSpec::new(
        "flow",
        ::durably::__private::module_path!(),
        ::durably::__private::file!(),
        ::durably::__private::line!(),
    );
    fn codec() -> ::durably::__private::OutputCodec<Self::Output> {
        ::durably::__private::entrypoint_plain_codec::<Self>()
    }
    fn arguments(
        _: &Self::Input,
    ) -> ::durably::__private::Result<
        ::durably::__private::Arguments,
        ::durably::__private::ArgumentError,
    > {
        ::durably::__private::ArgumentsBuilder::new().finish()
    }
    fn run(
        _: Self::Input,
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
                        (),
                    > {
                        #[allow(unreachable_code)] return __output;
                    }
                    #[allow(unused_braces)]
                    let __output: () = {};
                    #[allow(unreachable_code)] __output
                }
                    .await;
                ::durably::__private::Returned::plain(__returned)
            }),
        )
    }
}
#[track_caller]
fn flow() -> ::durably::EntrypointCall<__durably_flow> {
    ::durably::EntrypointCall::new(())
}
