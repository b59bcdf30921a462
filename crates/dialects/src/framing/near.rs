//! The closest known name: for faults about a method, a route or an agent that does not exist.

/// How like a known name must be to be proposed: of 1, which is the same.
const LIKE_ENOUGH: f64 = 0.6;

/// Methods that mean the same in another generation, which no likeness of letters tells.
const SAME: &[[&str; 3]] = &[
    ["SendMessage", "message/send", "tasks/send"],
    ["SendStreamingMessage", "message/stream", "tasks/sendSubscribe"],
    ["GetTask", "tasks/get", "tasks/get"],
    ["ListTasks", "tasks/list", "tasks/list"],
    ["CancelTask", "tasks/cancel", "tasks/cancel"],
    ["SubscribeToTask", "tasks/resubscribe", "tasks/resubscribe"],
    ["CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set", "tasks/pushNotification/set"],
    ["GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get", "tasks/pushNotification/get"],
    ["GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard", "agent/getAuthenticatedExtendedCard"],
];

/// The known name that looks most like `wrong`, if one looks like it at all.
pub fn nearest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // A name is short; what is longer is no slip.
    if wrong.len() > 128 {
        return None;
    }
    let wrong = wrong.to_lowercase();
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(&wrong, &name.to_lowercase());
    let all = known.into_iter().map(|name| (name, likeness(name)));
    let best = all.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (best.1 >= LIKE_ENOUGH).then_some(best.0)
}

/// `; did you mean NAME?`, or nothing.
pub fn advice<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    nearest(wrong, known).map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// The same for a method among those of a dialect: one that means the same elsewhere goes before one that looks alike.
pub fn method_advice(wrong: &str, known: &[&str]) -> String {
    let is_it = |name: &&&str| name.eq_ignore_ascii_case(wrong);
    let row = SAME.iter().find(|row| row.iter().any(|name| is_it(&name)));
    match row {
        // A dialect without that operation has nothing like it.
        Some(row) => {
            let here = row.iter().find(|name| known.contains(name));
            here.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
        }
        None => advice(wrong, known.iter().copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_anything_else_is_not() {
        let agents = ["echo", "scripted", "store"];
        for (wrong, meant) in [
            ("ehco", Some("echo")),
            ("Echo", Some("echo")),
            ("script", Some("scripted")),
            ("stores", Some("store")),
            ("billing", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, agents), meant, "{wrong}");
        }
        assert_eq!(nearest(&"e".repeat(1_000), agents), None);
    }

    #[test]
    fn a_method_of_another_generation_is_told_by_its_meaning() {
        let (newest, older) = (crate::a2a_v1::METHODS, crate::a2a_v0_3::METHODS);
        for (wrong, known, says) in [
            ("message/send", newest, "; did you mean SendMessage?"),
            ("tasks/get", newest, "; did you mean GetTask?"),
            ("sendMessage", newest, "; did you mean SendMessage?"),
            ("SendMesage", newest, "; did you mean SendMessage?"),
            ("message/sned", older, "; did you mean message/send?"),
            ("SendMessage", older, "; did you mean message/send?"),
            ("tasks/send", older, "; did you mean message/send?"),
            ("Sing", newest, ""),
            ("tasks/resubscribe", &["tasks/send", "tasks/get"], ""),
        ] {
            assert_eq!(method_advice(wrong, known), says, "{wrong}");
        }
    }
}
