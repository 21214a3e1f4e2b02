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
fn sum<'durably>(
    __argument0: (u32, u32),
    __argument1: u8,
    c: u32,
    r#in: u32,
) -> ::durably::TaskCall<'durably, u32> {
    static __SPEC: ::durably::__private::TaskSpec = ::durably::__private::TaskSpec::new(
        "sum",
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
                    .push::<(u32, u32)>("argument0", &__argument0);
                let __arguments = __arguments.push::<u8>("argument1", &__argument1);
                let __arguments = __arguments.push::<u32>("c", &c);
                let __arguments = __arguments.push::<u32>("in", &r#in);
                __arguments.finish()
            })
        } else {
            ::durably::__private::None
        },
        ::durably::__private::plain_codec::<u32>(),
        move || ::durably::__private::Body::once(async move {
            if let ::durably::__private::Some(__output) = ::durably::__private::None::<
                u32,
            > {
                #[allow(unreachable_code)] return __output;
            }
            let (a, b) = __argument0;
            let _ = __argument1;
            let mut c = c;
            let r#in = r#in;
            #[allow(unused_braces)]
            let __output: u32 = { a + b + c };
            #[allow(unreachable_code)] __output
        }),
    )
}
