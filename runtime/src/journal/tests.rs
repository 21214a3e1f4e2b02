//! The state machine on its own.
