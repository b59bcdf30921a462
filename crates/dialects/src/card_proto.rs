//! The agent's card in protobuf: [`v1`] is AgentCard of `lf.a2a.v1`, [`v0_3`] of `a2a.v1`. They say what
//! [`crate::card`] says in JSON.

use bytes::Bytes;
use model::ports::agent::{Extension, Skill};

use crate::card::{
    CardAuth, CardFacts, bearer_text, is_older, main_interface, older_interfaces, only_skill, openid_name, or,
};
use crate::protobuf::ProtoWriter;

/// Numbers of the fields that the packages number differently.
struct Numbers {
    version: u32,
    documentation_url: u32,
    capabilities: u32,
    schemes: u32,
    requirements: u32,
    input_modes: u32,
    output_modes: u32,
    skills: u32,
    icon_url: u32,
    /// In the capabilities; 0 where the package has it elsewhere.
    extended: u32,
}

static V1: Numbers = Numbers {
    version: 5,
    documentation_url: 6,
    capabilities: 7,
    schemes: 8,
    requirements: 9,
    input_modes: 10,
    output_modes: 11,
    skills: 12,
    icon_url: 14,
    extended: 4,
};
static V0_3: Numbers = Numbers { icon_url: 18, extended: 0, ..V1 };

/// AgentCard of 1.0.
pub(crate) fn v1(facts: &CardFacts<'_>) -> Bytes {
    let mut w = ProtoWriter::with_capacity(1_024);
    for interface in facts.interfaces.iter().filter(|one| !is_older(one)) {
        w.message(3, |w| {
            w.string(1, &interface.url);
            w.string(2, interface.binding.name());
            w.optional(3, interface.tenant.as_deref());
            w.string(4, &interface.protocol_version);
        });
    }
    common(&mut w, facts, &V1);
    w.finish().into()
}

/// AgentCard of 0.3.
pub(crate) fn v0_3(facts: &CardFacts<'_>) -> Bytes {
    let mut w = ProtoWriter::with_capacity(1_024);
    let older = older_interfaces(facts);
    if let Some(main) = main_interface(&older) {
        w.string(3, &main.url);
        w.string(14, main.binding.name());
        for one in std::iter::once(main).chain(older.iter().filter(|one| *one != main)) {
            w.message(15, |w| {
                w.string(1, &one.url);
                w.string(2, one.binding.name());
            });
        }
        w.string(16, "0.3.0");
    }
    common(&mut w, facts, &V0_3);
    w.bool(13, facts.extended);
    w.finish().into()
}

fn common(w: &mut ProtoWriter<'_>, facts: &CardFacts<'_>, numbers: &Numbers) {
    let profile = facts.profile;
    let name = or(&profile.title, &profile.name);
    w.string(1, name);
    w.string(2, or(&profile.description, name));
    if let Some(provider) = &facts.provider {
        w.message(4, |w| {
            w.string(1, &provider.url);
            w.string(2, &provider.organization);
        });
    }
    w.string(numbers.version, or(&profile.version, "1.0.0"));
    w.optional(numbers.documentation_url, facts.documentation_url.as_deref());
    w.message(numbers.capabilities, |w| capabilities(w, facts, numbers.extended));
    if let Some(auth) = &facts.auth {
        security_schemes(w, auth, numbers.schemes);
        if auth.required {
            requirements(w, auth, numbers.requirements);
        }
    }
    modes(w, numbers.input_modes, &profile.input_modes);
    modes(w, numbers.output_modes, &profile.output_modes);
    for one in &profile.skills {
        w.message(numbers.skills, |w| skill(w, one, facts));
    }
    if profile.skills.is_empty() {
        w.message(numbers.skills, |w| skill(w, &only_skill(profile, name), facts));
    }
    w.optional(numbers.icon_url, facts.icon_url.as_deref());
}

/// The flags have presence in 1.0: `false` is written, too.
fn capabilities(w: &mut ProtoWriter<'_>, facts: &CardFacts<'_>, extended: u32) {
    w.present_bool(1, facts.streaming);
    w.present_bool(2, facts.push);
    for one in facts.profile.extensions.iter().chain(&facts.extensions) {
        w.message(3, |w| extension(w, one));
    }
    if extended != 0 {
        w.present_bool(extended, facts.extended);
    }
}

fn extension(w: &mut ProtoWriter<'_>, extension: &Extension) {
    w.string(1, &extension.uri);
    w.string(2, &extension.description);
    w.bool(3, extension.required);
    w.optional_object(4, extension.params.as_ref());
}

fn security_schemes(w: &mut ProtoWriter<'_>, auth: &CardAuth, field: u32) {
    w.entry(field, "bearer", |w| {
        w.message(2, |w| {
            w.string(1, bearer_text(auth));
            w.string(2, "Bearer");
            w.string(3, if auth.tokens { "JWT" } else { "" });
        });
    });
    if auth.keys {
        w.entry(field, "apiKey", |w| {
            w.message(1, |w| {
                w.string(1, "The same key in a header of its own");
                w.string(2, "header");
                w.string(3, "X-Api-Key");
            });
        });
    }
    for (i, url) in auth.discovery.iter().enumerate() {
        w.entry(field, &openid_name(i + 1), |w| {
            w.message(4, |w| {
                w.string(1, "A token of this issuer in the Authorization header");
                w.string(2, url);
            });
        });
    }
}

/// Any of the schemes: the list is an OR.
fn requirements(w: &mut ProtoWriter<'_>, auth: &CardAuth, field: u32) {
    for scheme in auth.schemes() {
        w.message(field, |w| w.entry(1, &scheme, |_| {}));
    }
}

fn modes(w: &mut ProtoWriter<'_>, field: u32, modes: &[String]) {
    w.strings(field, modes);
    if modes.is_empty() {
        w.string(field, "*/*");
    }
}

fn skill(w: &mut ProtoWriter<'_>, skill: &Skill, facts: &CardFacts<'_>) {
    let name = or(&skill.name, &skill.id);
    w.string(1, or(&skill.id, name));
    w.string(2, name);
    w.string(3, or(&skill.description, name));
    w.strings(4, &skill.tags);
    if skill.tags.is_empty() {
        w.string(4, or(&skill.id, name));
    }
    w.strings(5, &skill.examples);
    modes(w, 6, &facts.profile.input_modes);
    modes(w, 7, &facts.profile.output_modes);
    if let Some(auth) = &facts.auth
        && facts.guarded.contains(&skill.id)
    {
        requirements(w, auth, 8);
    }
}
