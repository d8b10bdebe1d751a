//! Whole operations over the API of the model, by the driver: as they should go, with each answer lost, with the driver killed at each call,
//! and with what ends them early.

mod cut_off;
mod ends;
mod machines;
mod many;
mod stage;
