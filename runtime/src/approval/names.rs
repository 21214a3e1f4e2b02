//! Who and what: tenants, actions, their revisions, and the people and programs that deal with them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest name of ours, in bytes.
const MAX_BYTES: usize = 256;

/// A text is no name: it is empty, longer than 256 bytes, or has control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// What it should be the name of.
    pub what: &'static str,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not the name of {}: give it 1 to {MAX_BYTES} bytes without control characters", self.what)
    }
}

impl std::error::Error for NameError {}

fn name(what: &'static str, name: &str) -> Result<String, NameError> {
    let is_name = (1..=MAX_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    if is_name { Ok(name.to_owned()) } else { Err(NameError { what }) }
}

macro_rules! names {
    ($($(#[$doc:meta])* $type:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Takes a text as a name: 1 to 256 bytes without control characters, compared byte by byte.
            ///
            /// # Errors
            ///
            /// [`NameError`] if it is none.
            pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
                name($what, text.as_ref()).map(Self)
            }

            /// The name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $type {
            type Error = NameError;

            fn try_from(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }
    )*};
}

names! {
    /// Whose actions they are. Nobody sees or touches those of another tenant.
    TenantId = "a tenant";
    /// One concrete action of a tenant, such as the number of an order.
    ActionId = "an action";
    /// Somebody's or some program's account.
    Account = "an account";
}

/// One revision of an action. What was proposed under it never changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevisionId {
    /// The tenant.
    pub tenant: TenantId,
    /// The action.
    pub action: ActionId,
    /// The revision; the first is 1.
    pub revision: u32,
}

impl RevisionId {
    /// A revision of an action.
    ///
    /// # Errors
    ///
    /// [`NameError`] if a name is none.
    pub fn new(tenant: impl AsRef<str>, action: impl AsRef<str>, revision: u32) -> Result<Self, NameError> {
        Ok(Self { tenant: TenantId::new(tenant)?, action: ActionId::new(action)?, revision })
    }

    /// Another revision of the same action.
    #[must_use]
    pub fn at(&self, revision: u32) -> Self {
        Self { revision, ..self.clone() }
    }
}

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant, self.action, self.revision)
    }
}

/// Who does something, as the application knows it: a person or a program, in a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// The tenant in which it acts.
    pub tenant: TenantId,
    /// The account.
    pub account: Account,
}

impl Principal {
    /// A principal.
    ///
    /// # Errors
    ///
    /// [`NameError`] if a name is none.
    pub fn new(tenant: impl AsRef<str>, account: impl AsRef<str>) -> Result<Self, NameError> {
        Ok(Self { tenant: TenantId::new(tenant)?, account: Account::new(account)? })
    }
}

/// A principal whose session the application has checked. It is made by the server, never read from what a client sends.
///
/// ```
/// use durably::approval::{Authenticated, Principal};
///
/// let session = Principal::new("acme", "ada")?; // from the session, not from the request's body
/// let who = Authenticated::by(session, "passkey");
/// assert_eq!(who.method(), "passkey");
/// # Ok::<(), durably::approval::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub(super) principal: Principal,
    pub(super) method: String,
}

impl Authenticated {
    /// Says that this principal was authenticated, and how: `"passkey"`, `"oidc"`.
    pub fn by(principal: Principal, method: impl Into<String>) -> Self {
        Self { principal, method: method.into() }
    }

    /// Who it is.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// How it was authenticated.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }
}
