//! refusals_callers
