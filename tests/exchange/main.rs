//! The exchange, driven through plans: one behaviour per file.

mod support;

mod hash_exchange_keeps_every_row;
