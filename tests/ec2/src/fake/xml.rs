//! EC2's answers as XML. It writes; what stands in them is for others to know.

/// The inside of an element.
#[derive(Debug, Default)]
pub(super) struct Xml(String);

impl Xml {
    pub(super) fn text(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.0.push_str(&format!("<{name}>{}</{name}>", escaped(value.as_ref())));
        self
    }

    pub(super) fn within(mut self, name: &str, inside: Self) -> Self {
        self.0.push_str(&format!("<{name}>{}</{name}>", inside.0));
        self
    }

    /// Each as an `item`.
    pub(super) fn items(self, name: &str, items: impl IntoIterator<Item = Self>) -> Self {
        let all = items.into_iter().fold(Self::default(), |all, item| all.within("item", item));
        self.within(name, all)
    }

    /// Each text as an `item`.
    pub(super) fn texts<'a>(self, name: &str, texts: impl IntoIterator<Item = &'a str>) -> Self {
        let all = texts.into_iter().fold(Self::default(), |all, value| all.text("item", value));
        self.within(name, all)
    }

    /// As the answer to an action.
    pub(super) fn answer(self, action: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{action}Response \
             xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>fake</requestId>{}</{action}Response>",
            self.0
        )
    }
}

pub(super) fn error(code: &str, message: &str) -> String {
    let (code, message) = (escaped(code), escaped(message));
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{code}</Code>\
         <Message>{message}</Message></Error></Errors><RequestID>fake</RequestID></Response>"
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
