//! Files of purchases: `/deliverables`.

use std::convert::Infallible;

use crate::service::{Allowed, File, NotGiven, Upload};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, REFERER};
use http::{HeaderMap, Method};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::{Error, MarketCode};
use super::routes::{MarketFuture, MarketReply, MarketRequest, written};
use crate::{MarketService, MarketSettings};
use gateway::GatewayVersion;
use web::body::{room, with_room};
use web::file_response::{self, FileFacts};
use web::openapi::{ParamKind, QueryParam};

/// The path of uploads.
pub(super) const UPLOAD: &str = "/deliverables/upload";
pub(super) const MULTIPART: &str = "multipart/form-data";
/// Maximum number of fields of a form.
const MAX_FIELDS: usize = 32;
/// Maximum size of a form without its file.
const AROUND: usize = 64 << 10;

pub(super) const UPLOADED: [QueryParam; 2] = [
    QueryParam {
        name: "transaction_id",
        description: "The purchase it is for. Required, here or as a field of the form.",
        kind: ParamKind::Text { most: 200 },
    },
    QueryParam {
        name: "filename",
        description: "What it is called. Required, here or by the form.",
        kind: ParamKind::Text { most: 255 },
    },
];

pub(super) const DOWNLOAD: [QueryParam; 1] = [QueryParam {
    name: "redirect",
    description: "1, and what comes is the file; 0, and it is told where the file is, which uses nothing up.",
    kind: ParamKind::OneOf(|| vec!["0", "1"]),
}];

/// The size limit of the body, where it differs from the general limit.
pub(crate) fn body_bytes(server: &GatewayVersion, below: &str) -> Option<usize> {
    let uumit = MarketService::settings(server)?;
    (below == UPLOAD).then(|| largest_body(uumit).max(server.engine.limits().body_bytes))
}

/// The size of the largest file plus its form.
pub(crate) fn largest_body(uumit: &MarketSettings) -> usize {
    let most = usize::try_from(uumit.market.config().files.file_bytes).unwrap_or(usize::MAX);
    most.saturating_add(AROUND)
}

/// A file that is kept.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "File")]
pub(super) struct Kept {
    deliverable_id: String,
    /// Names it in a delivery, and for grant-access.
    access_id: String,
    transaction_id: String,
    file_name: String,
    media_type: String,
    size: u64,
    /// SHA-256 of the bytes, in hex.
    sha256: String,
    #[schemars(extend("format" = "date-time"))]
    created_at: String,
}

impl From<&File> for Kept {
    fn from(file: &File) -> Kept {
        Kept {
            deliverable_id: file.deliverable_id.to_string(),
            access_id: file.access_id.to_string(),
            transaction_id: file.transaction.tx(),
            file_name: file.name.to_string(),
            media_type: file.media_type.to_string(),
            size: file.len,
            sha256: file.hash.to_string(),
            created_at: file.made_at.to_string(),
        }
    }
}

/// How often a file may be fetched, and for how long.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct AccessWanted {
    /// Default 5.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000))]
    max_downloads: Option<u32>,
    /// Seconds. Default 3600.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2_592_000))]
    expires_in: Option<u32>,
}

/// A token for a file; shown once.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Access")]
pub(super) struct FileAccess {
    access_token: String,
    #[serde(flatten)]
    link: Link,
}

/// Where a file is, and what its token is good for.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Link {
    download_url: String,
    max_downloads: u32,
    remaining_downloads: u32,
    #[schemars(extend("format" = "date-time"))]
    expires_at: String,
    file: Kept,
}

fn link(ask: &MarketRequest<'_>, token: &str, allowed: &Allowed) -> Link {
    Link {
        download_url: format!("{}/api/v1/deliverables/{}/download", ask.base(), file_response::percent(token)),
        max_downloads: allowed.max_downloads,
        remaining_downloads: allowed.remaining,
        expires_at: allowed.expires_at.to_string(),
        file: Kept::from(&allowed.file),
    }
}

pub(super) fn upload<'a>(ask: &'a MarketRequest<'a>) -> MarketFuture<'a, MarketReply> {
    Box::pin(async move {
        let said =
            ask.http.head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default().trim();
        let bare = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let brought = match bare.as_str() {
            MULTIPART => of_form(said, ask.http.body.clone()).await?,
            // The default content types of HTTP clients.
            "" | super::FORM => UploadParts { bytes: ask.http.body.clone(), ..UploadParts::default() },
            _ => UploadParts {
                media_type: Some(said.to_owned()),
                bytes: ask.http.body.clone(),
                ..UploadParts::default()
            },
        };
        let required = |name: &'static str, in_form: Option<String>| {
            let missing = || Error::field(name, format!("is required: {UPLOAD}?transaction_id=…&filename=…"));
            ask.text(name).map(str::to_owned).or(in_form).ok_or_else(missing)
        };
        let id = required("transaction_id", brought.transaction_id)?;
        let name = required("filename", brought.filename)?;
        let id = id.parse().map_err(|_| crate::service::Error::Unknown(crate::service::MarketEntity::Transaction))?;
        let media_type = brought.media_type.as_deref().unwrap_or(crate::service::ANY_MEDIA).into();
        let upload = Upload { name: name.into(), media_type, bytes: brought.bytes };
        let file = ask.market.upload(ask.caller()?, id, upload).await?;
        written(&Kept::from(&file))
    })
}

/// The parts of an upload.
#[derive(Default)]
struct UploadParts {
    transaction_id: Option<String>,
    filename: Option<String>,
    media_type: Option<String>,
    bytes: Bytes,
}

/// Reads the file and the other fields of a form.
async fn of_form(media_type: &str, body: Bytes) -> Result<UploadParts, Error> {
    let unread = |error: multer::Error| Error::field("body", format!("is not a form: {error}"));
    let boundary = multer::parse_boundary(media_type).map_err(unread)?;
    let mut form = multer::Multipart::new(futures_util::stream::iter([Ok::<_, Infallible>(body)]), boundary);
    let (mut brought, mut has_file, mut fields) = (UploadParts::default(), false, 0);
    while let Some(field) = form.next_field().await.map_err(unread)? {
        fields += 1;
        if fields > MAX_FIELDS {
            return Err(Error::field("body", format!("must have at most {MAX_FIELDS} fields")));
        }
        match field.name().unwrap_or_default() {
            "transaction_id" => brought.transaction_id = Some(field.text().await.map_err(unread)?),
            "filename" => brought.filename = Some(field.text().await.map_err(unread)?),
            "file" if has_file => return Err(Error::field("file", "is there twice: send one file at a time")),
            "file" => {
                has_file = true;
                // The field `filename` takes precedence over the name of the file part.
                if brought.filename.is_none() {
                    brought.filename = field.file_name().map(str::to_owned);
                }
                brought.media_type = field.content_type().map(ToString::to_string);
                brought.bytes = field.bytes().await.map_err(unread)?;
            }
            _ => {}
        }
    }
    if has_file { Ok(brought) } else { Err(Error::field("file", "is required: the field of the form with the file")) }
}

pub(super) fn grant<'a>(ask: &'a MarketRequest<'a>, body: AccessWanted) -> MarketFuture<'a, FileAccess> {
    Box::pin(async move {
        let access_id = ask.http.id();
        let most = body.max_downloads.unwrap_or(crate::service::USUAL_DOWNLOADS);
        let expires = body.expires_in.unwrap_or(crate::service::USUAL_EXPIRES_S);
        let granted = ask.market.grant_access(ask.caller()?, access_id, most, expires).await?;
        let link = link(ask, &granted.token, &granted.allowed);
        Ok(FileAccess { access_token: granted.token, link })
    })
}

pub(super) fn download<'a>(ask: &'a MarketRequest<'a>) -> MarketFuture<'a, MarketReply> {
    Box::pin(async move {
        let token = ask.http.id();
        if is_foreign(ask) {
            let words = "HOTLINK_REJECTED: another site's page may not link to this file; open the address itself";
            return Err(Error::because("HOTLINK_REJECTED", MarketCode::DENIED, words));
        }
        if ask.text("redirect") == Some("0") {
            let allowed = ask.market.allowed(token).await.map_err(not_given)?;
            return written(&link(ask, token, &allowed));
        }
        let allowed = ask.market.allowed(token).await.map_err(not_given)?;
        // A response without the bytes does not count as a download.
        let known = facts(&allowed.file);
        if file_response::is_known(&ask.http.head.headers, known.hash) {
            return Ok(MarketReply::Whole(file_response::unchanged(&known)));
        }
        if ask.http.head.method == Method::HEAD {
            return Ok(MarketReply::Whole(file_response::head_only(&known)));
        }
        // Reserve memory before the download is counted: a refused response must not use one up.
        let share = room(&ask.server.answers, usize::try_from(allowed.file.len).unwrap_or(usize::MAX))?;
        let (allowed, bytes) = ask.market.download(token).await.map_err(not_given)?;
        let mut response = file_response::whole(ask.http.head, &facts(&allowed.file), with_room(bytes, share));
        response.headers_mut().insert("x-remaining-downloads", allowed.remaining.into());
        Ok(MarketReply::Whole(response))
    })
}

fn facts(file: &File) -> FileFacts<'_> {
    FileFacts { name: Some(&file.name), media_type: Some(&file.media_type), hash: &file.hash, len: file.len }
}

fn not_given(not_given: NotGiven) -> Error {
    let message = not_given.to_string();
    match not_given {
        NotGiven::Unknown => Error::missing(message),
        NotGiven::UsedUp(_) => Error::because("DOWNLOADS_USED_UP", MarketCode::GONE, message),
        NotGiven::Expired => Error::because("TOKEN_EXPIRED", MarketCode::GONE, message),
        NotGiven::Gone => Error::because("FILE_REMOVED", MarketCode::GONE, message),
        NotGiven::Error(refused) => refused.into(),
    }
}

/// Whether the request comes from a page of another site. The server's own pages and the permitted CORS origins are not
/// foreign.
fn is_foreign(ask: &MarketRequest<'_>) -> bool {
    let headers: &HeaderMap = &ask.http.head.headers;
    let Some(from) = headers.get(REFERER).filter(|from| !from.is_empty()) else { return false };
    let Some(from) = from.to_str().ok().and_then(|from| url::Url::parse(from).ok()) else { return true };
    let origin = from.origin().ascii_serialization();
    let own = url::Url::parse(&ask.base()).ok().map(|base| base.origin().ascii_serialization());
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let at_host = host.is_some_and(|host| origin.split_once("://").is_some_and(|(_, authority)| authority == host));
    let allowed = ask.server.settings.cors_origins.contains(&origin);
    own.as_ref() != Some(&origin) && !at_host && !allowed
}
