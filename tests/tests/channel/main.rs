//! The WebSocket of agents on a real `serve`: its messages case by case, who is turned away, what the operator has run over it, and the whole life of a
//! machine whose agent speaks nothing else.

mod exec;
mod life;
mod messages;
mod refusals;
mod shop;
mod unwritten;
