//! What a wish comes to in its pool as the pool is now, or why it can't be had there.

use super::{Ask, Wish};
use crate::pool::{Dispatch, Pool};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotToBeHad {
    /// The pool's runners are handed out otherwise.
    Dispatched(Dispatch),
    Retired,
    Count {
        most: u32,
    },
    Runtime {
        most: Duration,
    },
}

pub fn ask(pool: &Pool, wish: &Wish) -> Result<Ask, NotToBeHad> {
    let Wish { count, want, max_runtime, idle_only } = wish;
    let rules = &pool.rules;
    match rules.dispatch {
        Dispatch::Claim => {}
        dispatch @ (Dispatch::Hook | Dispatch::Lease) => return Err(NotToBeHad::Dispatched(dispatch)),
    }
    if pool.retired {
        return Err(NotToBeHad::Retired);
    }
    if *count == 0 || *count > rules.max {
        return Err(NotToBeHad::Count { most: rules.max });
    }
    let most = rules.limits.max_runtime;
    let max_runtime = max_runtime.unwrap_or(most);
    if max_runtime.is_zero() || max_runtime > most {
        return Err(NotToBeHad::Runtime { most });
    }
    Ok(Ask { count: *count, want: want.clone(), max_runtime, idle_only: *idle_only })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Rules;
    use crate::samples::{pool, rules};
    use crate::spec::Want;

    #[test]
    fn a_wish_is_judged_by_what_its_pool_allows() {
        let wish = |count, max_runtime| Wish { count, want: Want::default(), max_runtime, idle_only: false };
        let minute = Duration::from_secs(60);
        let known = pool("small", rules());
        let most = known.rules.limits.max_runtime;
        let asked = ask(&known, &wish(1, None)).unwrap();
        assert_eq!((asked.count, asked.max_runtime), (1, most));
        assert_eq!(ask(&known, &wish(1, Some(minute))).unwrap().max_runtime, minute);
        let too_many = NotToBeHad::Count { most: known.rules.max };
        assert_eq!(ask(&known, &wish(0, None)), Err(too_many));
        assert_eq!(ask(&known, &wish(known.rules.max + 1, None)), Err(too_many));
        let too_long = NotToBeHad::Runtime { most };
        assert_eq!(ask(&known, &wish(1, Some(Duration::ZERO))), Err(too_long));
        assert_eq!(ask(&known, &wish(1, Some(most + minute))), Err(too_long));
        let retired = Pool { retired: true, ..known.clone() };
        assert_eq!(ask(&retired, &wish(1, None)), Err(NotToBeHad::Retired));
        let hooked = Pool { rules: Rules { dispatch: Dispatch::Hook, ..known.rules.clone() }, ..known };
        assert_eq!(ask(&hooked, &wish(1, None)), Err(NotToBeHad::Dispatched(Dispatch::Hook)));
    }
}
