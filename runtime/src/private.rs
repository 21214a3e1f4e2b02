//! What expansions of the macros name, and nobody else. Not part of the public API.
#![allow(missing_docs)]

pub use std::{
    boxed::Box,
    clone::Clone,
    file, format, line, module_path,
    option::Option::{self, None, Some},
    result::Result::{self, Err, Ok},
    time::Duration,
};

pub use crate::{
    checkpoint::BoxFuture,
    entrypoint::{Definition, EntrypointCall, EntrypointSpec, Previous, Returned},
    output::OutputCodec,
    policy::RetryPolicy,
    task::{Body, TaskCall, TaskSpec, call, in_run},
    value::{Arguments, ValueError},
};
