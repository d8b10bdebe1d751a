//! Routes that are mounted, and their paths, which the metrics must know from the start.

use crate::App;
use crate::lane::Lane;
use axum::Router;
use axum::routing::MethodRouter;

#[derive(Debug, Default)]
pub(crate) struct Mounted {
    pub(crate) router: Router<App>,
    /// As axum and OpenAPI both write them: `/claims/{claim}`.
    pub(crate) paths: Vec<String>,
}

impl Mounted {
    pub(super) fn one(path: &str, methods: MethodRouter<App>) -> Self {
        Self::default().and(path, methods)
    }

    pub(super) fn and(mut self, path: &str, methods: MethodRouter<App>) -> Self {
        self.paths.push(path.to_owned());
        Self { router: self.router.route(path, methods), ..self }
    }

    pub(super) fn merge(mut self, other: Self) -> Self {
        self.paths.extend(other.paths);
        Self { router: self.router.merge(other.router), ..self }
    }

    /// All of them in this lane.
    pub(super) fn in_lane(self, lane: &Lane) -> Self {
        Self { router: self.router.layer(lane.clone()), ..self }
    }

    pub(super) fn under(self, prefix: &str) -> Self {
        let Self { router, paths } = self;
        let paths = paths.into_iter().map(|path| format!("{prefix}{path}")).collect();
        Self { router: Router::new().nest(prefix, router), paths }
    }
}
