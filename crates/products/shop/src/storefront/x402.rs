//! The response to a client that wants to pay over HTTP (x402, version 1): the accepted payments, and how to buy without
//! one. Rialto settles no such payments, so `accepts` is empty, and the message says so.

use http::StatusCode;
use serde_json::{Value, json};
use shop_rules::cart::MAX_QUANTITY;
use shop_rules::{Error as RuleError, VariantChoice, VariantId};

use super::Reply;
use super::catalogue::product_id;
use super::context::ShopRequest;
use super::routes::ShopHandlerFuture;

pub(super) fn pay<'a>(request: &'a ShopRequest<'a>) -> ShopHandlerFuture<'a> {
    Box::pin(async move {
        let site = request.site(Some(request.http.path_param(0))).await?;
        let goods = request.shop.product(&site.slug, &product_id(request.http.path_param(1))?).await?;
        let quantity = request.number("quantity", 1, i64::from(MAX_QUANTITY))?.unwrap_or(1);
        request.param("email")?.map(shop_rules::cart::email).transpose()?;
        let id = request.param("variant_id")?.map(VariantId::check).transpose()?;
        let product = &goods.product;
        // If there are several variants, the buyer chooses one in the cart.
        let chosen = match (&id, &*product.variants) {
            (Some(_), _) | (None, [_]) => Some(product.variant(&VariantChoice { id, options: Vec::new() })?),
            (None, _) => None,
        };
        let place = chosen.and_then(|chosen| product.variants.iter().position(|known| known.id == chosen.id));
        if let Some(Some(left)) = place.and_then(|place| goods.left.get(place).copied())
            && i64::try_from(left).unwrap_or(i64::MAX) < quantity
        {
            return Err(RuleError::OutOfStock { what: product.name.to_string(), left }.into());
        }
        let carts = request.absolute("/api/storefront/v1/carts");
        let error = format!(
            "{} takes no payment over HTTP, and none was taken. To buy this, create a cart (POST {carts} with site_slug {:?}), \
             add {quantity} of product_id {:?} (POST {carts}/{{token}}/items), begin its checkout (POST {carts}/{{token}}/checkout) \
             and complete it at the complete_url.",
            site.title,
            site.slug.as_str(),
            product.id.as_str(),
        );
        let accepts: [Value; 0] = [];
        let body = json!({ "x402Version": 1, "error": error, "accepts": accepts });
        Ok(Reply { status: StatusCode::PAYMENT_REQUIRED, body })
    })
}
