//! Names in records: borrowed from the program when they are made, shared between records when they are read.

use std::{borrow::Cow, fmt, ops::Deref, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many names a reader remembers: as many as the records of one loop have.
const KNOWN: usize = 16;

/// A name in a record.
#[derive(Clone)]
pub(crate) enum Text {
    /// It stands in the program.
    Static(&'static str),
    /// It was read, or made.
    Shared(Arc<str>),
}

/// The names that were read last, so that a name that comes again is not allocated again.
#[derive(Debug, Default)]
pub(crate) struct Names {
    known: Vec<Arc<str>>,
    /// Where the next new one goes.
    next: usize,
}

impl Names {
    /// The name as a text, shared if it is known.
    pub(crate) fn text(&mut self, name: &str) -> Text {
        if let Some(known) = self.known.iter().find(|known| &***known == name) {
            return Text::Shared(known.clone());
        }
        let new: Arc<str> = name.into();
        match self.known.get_mut(self.next) {
            Some(known) => *known = new.clone(),
            None => self.known.push(new.clone()),
        }
        self.next = (self.next + 1) % KNOWN;
        Text::Shared(new)
    }
}

impl Text {
    /// The text as a string of its own.
    pub(crate) fn into_owned(self) -> String {
        (*self).to_owned()
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<Cow<'static, str>> for Text {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Static(text),
            Cow::Owned(text) => Self::Shared(text.into()),
        }
    }
}

impl From<&'static str> for Text {
    fn from(text: &'static str) -> Self {
        Self::Static(text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl PartialEq<Cow<'static, str>> for Text {
    fn eq(&self, other: &Cow<'static, str>) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(String::deserialize(deserializer)?.into())
    }
}
