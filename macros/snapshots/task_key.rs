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
fn charge<'durably>(
    order: &'durably Order,
    attempt: u8,
) -> ::durably::TaskCall<'durably, u64> {
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
        "charge",
        ::durably::__private::module_path!(),
        ::durably::__private::file!(),
        ::durably::__private::line!(),
    );
    ::durably::__private::call(
        &__SPEC,
        if ::durably::__private::in_run() {
            ::durably::__private::Some(
                ::durably::__private::key(
                    &::durably::__private::format!("{}/{:03}", order.id, attempt),
                ),
            )
        } else {
            ::durably::__private::None
        },
        ::durably::__private::plain_codec::<u64>(),
        move || ::durably::__private::Body::once(async move {
            if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                u64,
            > {
                #[allow(unreachable_code)] return __output;
            }
            let order = order;
            let attempt = attempt;
            #[allow(unused_braces)]
            let __output: u64 = { 1 };
            #[allow(unreachable_code)] __output
        }),
    )
}
