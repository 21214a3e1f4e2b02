//! The attributes of `durably`.
