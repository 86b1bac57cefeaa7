//! Enums whose values have names, a row each.

/// Defines such an enum, with all its values in order and their names.
macro_rules! named {
    ($(#[$of:meta])* pub enum $kind:ident { $($(#[$is:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$of])*
        pub enum $kind { $($(#[$is])* $value,)* }

        impl $kind {
            /// All of them.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)* }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

/// The schema of an enum that is written by its names.
macro_rules! schema_of_names {
    ($kind:ident, $what:literal) => {
        impl schemars::JsonSchema for $kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "description": $what, "type": "string", "enum": Self::ALL.map(Self::name) })
            }
        }
    };
}

pub(crate) use named;
pub(crate) use schema_of_names;
