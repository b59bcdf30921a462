//! The ids of assistants: some callers address an agent by a UUID instead of its name.

use uuid::Uuid;

/// The namespace in which graph servers name the assistants of their own graphs: a client's assistant id from there
/// finds the agent of the same name here.
const NAMESPACE: Uuid = Uuid::from_u128(0x6ba7_b821_9dad_11d1_80b4_00c0_4fd4_30c8);

/// The id of the agent of that name: a UUID of version 5, the same on every server.
///
/// ```
/// assert_eq!(agents::assistant::assistant_id("agent").to_string(), "fe096781-5601-53d2-b2f6-0d3403f7e9ca");
/// ```
pub fn assistant_id(name: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, name.as_bytes())
}
