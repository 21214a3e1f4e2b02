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
fn hash<'durably>(bytes: Vec<u8>) -> ::durably::TaskCall<'durably, u64> {
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
        ::durably::__private::plain_codec::<u64>(),
        move || ::durably::__private::Body::blocking(
            ::durably::__private::only(move || {
                if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                    u64,
                > {
                    #[allow(unreachable_code)] return __output;
                }
                let bytes = bytes;
                #[allow(unused_braces)]
                let __output: u64 = { sum(bytes) };
                #[allow(unreachable_code)] __output
            }),
        ),
    )
}
