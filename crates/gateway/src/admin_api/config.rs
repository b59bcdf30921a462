//! The config in force.

use web::body::Response;

use super::problem::ApiProblem;
use super::{ApiContext, ok};

pub(super) async fn show(context: &ApiContext<'_>) -> Result<Response, ApiProblem> {
    ok(&*context.server.settings.effective)
}
