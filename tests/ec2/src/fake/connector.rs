//! The SDK's HTTP layer, answered by the fake.

use super::faults::Loss;
use super::{FakeEc2, Reply};
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;

impl HttpClient for FakeEc2 {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for FakeEc2 {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let fake = self.clone();
        HttpConnectorFuture::new(async move {
            let body = request.body().bytes().unwrap_or_default().to_vec();
            let Reply { status, body, lost } = fake.serve(&body).await;
            match lost {
                Some(Loss::TimedOut) => Err(ConnectorError::timeout("the fake let it time out".into())),
                Some(Loss::Cut) => Err(ConnectorError::io("the fake cut the connection".into())),
                Some(Loss::Garbled) => response(200, "this is no XML".to_owned()),
                Some(Loss::ServerError) => {
                    response(500, super::xml::error("InternalError", "An internal error has occurred"))
                }
                None => response(status, body),
            }
        })
    }
}

fn response(status: u16, body: String) -> Result<HttpResponse, ConnectorError> {
    let status = status.try_into().map_err(|error| ConnectorError::other(Box::new(error), None))?;
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    response.headers_mut().insert("content-type", "text/xml;charset=UTF-8");
    Ok(response)
}
