//! Composition.
