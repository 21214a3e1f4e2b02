//! What a panic says.

use std::any::Any;

/// A panic's message, where it has one.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "(the panic carried something that is not a text)".to_owned()
    }
}
