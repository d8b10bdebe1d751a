//! refusals_agents
