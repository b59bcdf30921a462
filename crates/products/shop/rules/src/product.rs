//! Products, their variants and options.

use std::sync::Arc;

use model::Time;
use serde::{Deserialize, Serialize};

use crate::error::{link, not_negative, text};
use crate::{Error, Item, Minor, ProductId, Slug, VariantId};

pub const MAX_VARIANTS: usize = 100;
pub const MAX_OPTIONS: usize = 8;
pub const MAX_TAGS: usize = 32;
pub const MAX_MEDIA: usize = 32;
/// Largest stock of one variant.
pub const MAX_STOCK: u64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    pub site: Slug,
    pub id: ProductId,
    pub name: Arc<str>,
    pub slug: Slug,
    #[serde(default)]
    pub subtitle: Arc<str>,
    #[serde(default)]
    pub description: Arc<str>,
    pub price: Minor,
    #[serde(default)]
    pub media: Vec<Media>,
    /// At least one; a product without options has exactly one.
    pub variants: Vec<Variant>,
    #[serde(default)]
    pub tags: Vec<Arc<str>>,
    /// Digital goods are downloaded, not sent.
    #[serde(default)]
    pub digital: bool,
    /// Addresses of its downloads.
    #[serde(default)]
    pub downloads: Vec<Arc<str>>,
    pub created_at: Time,
    pub updated_at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Media {
    pub url: Arc<str>,
    #[serde(default)]
    pub alt: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    pub id: VariantId,
    /// Names and values of its options, such as Size and L.
    #[serde(default)]
    pub options: Vec<(Arc<str>, Arc<str>)>,
    /// Its own price, if it differs from the product's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Minor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<Arc<str>>,
    /// Whether its stock is counted; otherwise it is always available.
    pub counted: bool,
}

impl Variant {
    /// The only variant of a product without options.
    pub fn only(counted: bool) -> Variant {
        Variant { id: VariantId::ONLY.into(), options: Vec::new(), price: None, sku: None, counted }
    }

    /// Its options as text: `Size L, Colour red`; empty without options.
    pub fn words(&self) -> String {
        self.options.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    }
}

/// A choice among a product's variants: by id or by options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariantChoice {
    pub id: Option<VariantId>,
    pub options: Vec<(Arc<str>, Arc<str>)>,
}

impl Product {
    pub fn check(&self) -> Result<(), Error> {
        let field = |field, says: String| Err(Error::Field { field, says });
        ProductId::check(self.id.as_str())?;
        Slug::check(self.slug.as_str())?;
        if self.name.trim().is_empty() {
            return field("name", "must not be empty".to_owned());
        }
        text("name", &self.name, 200)?;
        text("subtitle", &self.subtitle, 400)?;
        text("description", &self.description, 20_000)?;
        not_negative("price", self.price)?;
        for (name, found, most) in [
            ("variants", self.variants.len(), MAX_VARIANTS),
            ("tags", self.tags.len(), MAX_TAGS),
            ("media", self.media.len(), MAX_MEDIA),
            ("downloads", self.downloads.len(), MAX_MEDIA),
        ] {
            if found > most {
                return field(name, format!("must be at most {most}"));
            }
        }
        for tag in &self.tags {
            text("tags", tag, 64)?;
        }
        for media in &self.media {
            link("media", &media.url)?;
            text("media", &media.alt, 400)?;
        }
        for download in &self.downloads {
            link("downloads", download)?;
        }
        if self.variants.is_empty() {
            return field("variants", "must be at least one".to_owned());
        }
        for (i, variant) in self.variants.iter().enumerate() {
            VariantId::check(variant.id.as_str())?;
            if self.variants[..i].iter().any(|other| other.id == variant.id) {
                return field("variants", format!("two have the id {:?}; give each its own", variant.id));
            }
            if self.variants[..i].iter().any(|other| same_options(&other.options, &variant.options)) {
                let ways = variant.words();
                return field("variants", format!("two have the same options ({ways}); say how they differ"));
            }
            if variant.options.len() > MAX_OPTIONS {
                return field("options", format!("must be at most {MAX_OPTIONS}"));
            }
            for (name, value) in &variant.options {
                text("options", name, 64)?;
                text("options", value, 64)?;
            }
            variant.price.map_or(Ok(()), |price| not_negative("price", price))?;
            variant.sku.as_deref().map_or(Ok(()), |sku| text("sku", sku, 64))?;
        }
        Ok(())
    }

    pub fn price_of(&self, variant: &Variant) -> Minor {
        variant.price.unwrap_or(self.price)
    }

    /// The chosen variant: by id, by options, or the only one.
    pub fn variant(&self, which: &VariantChoice) -> Result<&Variant, Error> {
        let ways = || {
            let told = |variant: &Variant| match variant.words() {
                words if words.is_empty() => variant.id.to_string(),
                words => format!("{words} (variant_id {})", variant.id),
            };
            let ways = self.variants.iter().take(10).map(told).collect::<Vec<_>>().join("; ");
            Error::WhichVariant { what: self.name.to_string(), ways }
        };
        if let Some(id) = &which.id {
            return self.variants.iter().find(|variant| variant.id == *id).ok_or_else(ways);
        }
        let fits = |variant: &&Variant| {
            which.options.iter().all(|(name, value)| {
                let mut own = variant.options.iter();
                own.any(|(n, v)| n.eq_ignore_ascii_case(name) && v.eq_ignore_ascii_case(value))
            })
        };
        let mut found = self.variants.iter().filter(fits);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) | (None, _) => Err(ways()),
        }
    }

    /// The cart item for a quantity of a variant.
    pub fn item(&self, variant: &Variant, quantity: u32) -> Item {
        Item {
            product: self.id.clone(),
            variant: variant.id.clone(),
            name: self.name.clone(),
            options: variant.options.clone(),
            price: self.price_of(variant),
            quantity,
            digital: self.digital,
            counted: variant.counted,
        }
    }

    /// Texts for the search index: name and subtitle, and all others.
    pub fn texts(&self) -> (String, String) {
        let title = format!("{} {}", self.name, self.subtitle);
        let mut body = self.description.to_string();
        for tag in &self.tags {
            body.push(' ');
            body.push_str(tag);
            body.push(' ');
            body.push_str(&crate::search::tag_word(tag));
        }
        for variant in &self.variants {
            for (_, value) in &variant.options {
                body.push(' ');
                body.push_str(value);
            }
            if let Some(sku) = &variant.sku {
                body.push(' ');
                body.push_str(sku);
            }
        }
        (title, body)
    }
}

fn same_options(a: &[(Arc<str>, Arc<str>)], b: &[(Arc<str>, Arc<str>)]) -> bool {
    a.len() == b.len() && a.iter().all(|option| b.contains(option))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hat, two_hats};

    #[test]
    fn the_variant_that_is_meant_is_found_or_asked_for() {
        let product = two_hats();
        let by = |name: &str, value: &str| VariantChoice { id: None, options: vec![(name.into(), value.into())] };
        assert_eq!(product.variant(&by("size", "L")).unwrap().id.as_str(), "l");
        let id = |id: &str| VariantChoice { id: Some(id.into()), options: Vec::new() };
        assert_eq!(product.variant(&id("s")).unwrap().id.as_str(), "s");
        for vague in [VariantChoice::default(), by("Size", "XXL"), id("xxl")] {
            let refused = product.variant(&vague).unwrap_err();
            assert!(refused.to_string().contains("Size S (variant_id s)"), "{refused}");
        }
        assert_eq!(hat().variant(&VariantChoice::default()).unwrap().id.as_str(), VariantId::ONLY);
    }

    #[test]
    fn what_cannot_be_sold_is_refused_with_words() {
        let refused = |change: fn(&mut Product)| {
            let mut product = two_hats();
            change(&mut product);
            product.check().unwrap_err().to_string()
        };
        assert!(two_hats().check().is_ok() && hat().check().is_ok());
        assert_eq!(refused(|p| p.name = " ".into()), "name must not be empty");
        assert_eq!(refused(|p| p.price = Minor(-1)), "price must be between 0 and 1000000000000");
        assert_eq!(refused(|p| p.variants.clear()), "variants must be at least one");
        assert_eq!(refused(|p| p.tags = vec!["t".into(); 33]), "tags must be at most 32");
        assert!(refused(|p| p.variants[1].id = "s".into()).contains("two have the id \"s\""));
        assert!(refused(|p| p.variants[1].options[0].1 = "S".into()).contains("the same options (Size S)"));
        let script = |p: &mut Product| p.media = vec![Media { url: "javascript:x".into(), alt: "".into() }];
        assert!(refused(script).contains("https://"));
    }
}
