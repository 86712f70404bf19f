//! A bounded-memory, compressed exchange for Apache DataFusion.
