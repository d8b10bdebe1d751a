//! What the tests share: the contract suites of the ports, the API as a stranger sees it, a real serve.
//! The tests themselves are in `tests/`.

pub mod api;
pub mod contracts;
pub mod serve;
pub mod wait;
