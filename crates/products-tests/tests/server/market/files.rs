//! Files of purchases, over the socket.

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use super::{BUYER, House, SELLER, house, house_in, refusal, told};

impl House {
    async fn accepted(&self) -> String {
        let capability = self.sold("0", json!({})).await;
        let order = self.done(BUYER, "/transactions", json!({ "capability_id": capability })).await;
        let id = order["id"].as_str().unwrap().to_owned();
        self.done(BUYER, &format!("/transactions/{id}/freeze"), json!({})).await;
        self.done(SELLER, &format!("/transactions/{id}/accept"), json!({})).await;
        id
    }

    fn upload(&self, user: &str, id: &str, name: &str) -> RequestBuilder {
        let query = [("transaction_id", id), ("filename", name)];
        self.by(user, Method::POST, "/deliverables/upload").query(&query)
    }

    async fn uploaded(&self, id: &str, name: &str, bytes: impl Into<reqwest::Body>) -> Value {
        let request = self.upload(SELLER, id, name).header("content-type", "text/html; charset=utf-8").body(bytes);
        let (status, mut answer) = told(request).await;
        assert_eq!(status, 200, "{answer}");
        answer["data"].take()
    }

    async fn granted(&self, user: &str, access_id: &Value, wanted: Value) -> Value {
        self.done(user, &format!("/deliverables/{}/grant-access", access_id.as_str().unwrap()), wanted).await
    }

    fn fetch(&self, granted: &Value) -> RequestBuilder {
        self.http.get(granted["download_url"].as_str().unwrap())
    }
}

async fn reason(answer: Response) -> (u16, i64, Value) {
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    (status, body["code"].as_i64().unwrap(), body["data"]["reason"].clone())
}

#[tokio::test]
async fn a_file_is_uploaded_delivered_and_downloaded() {
    let house = house().await;
    let id = house.accepted().await;
    let bytes = "<script>alert(1)</script>".repeat(8_000);
    let kept = house.uploaded(&id, "Rechnung März.html", bytes.clone()).await;
    assert_eq!(
        (&kept["size"], &kept["file_name"], &kept["transaction_id"]),
        (&json!(bytes.len()), &json!("Rechnung März.html"), &json!(id))
    );
    assert_eq!(house.uploaded(&id, "Rechnung März.html", bytes.clone()).await, kept, "the same again is the same");
    let early = house
        .post(BUYER, &format!("/deliverables/{}/grant-access", kept["access_id"].as_str().unwrap()), json!({}))
        .await;
    assert_eq!(refusal(&early), (422, 1008));
    let delivery = json!({ "deliverables": [{ "access_id": kept["access_id"] }] });
    let delivered = house.done(SELLER, &format!("/transactions/{id}/deliver"), delivery).await;
    let named = json!({ "deliverable_id": kept["deliverable_id"], "access_id": kept["access_id"], "file_name": "Rechnung März.html" });
    assert_eq!(delivered["deliverables"], json!([named]));
    // The seed's file artifact, as A2A shows it.
    house.done(BUYER, &format!("/transactions/{id}/confirm"), json!({})).await;
    let get = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": id } });
    let task = house.http.post(house.running.url("/uumit/a2a")).header("X-Api-Key", super::key(BUYER));
    let task: Value = task.header("X-Platform-User-Id", BUYER).json(&get).send().await.unwrap().json().await.unwrap();
    let shown = &task["result"]["artifacts"][1];
    assert_eq!((&shown["name"], &shown["parts"][0]["data"]), (&json!("Rechnung März.html"), &named));

    let granted = house.granted(BUYER, &kept["access_id"], json!({ "max_downloads": 3, "expires_in": 60 })).await;
    assert_eq!((&granted["max_downloads"], &granted["remaining_downloads"]), (&json!(3), &json!(3)));
    // Asking uses nothing up, in whichever way.
    let (status, told_of) = told(house.fetch(&granted).query(&[("redirect", "0")])).await;
    assert_eq!((status, &told_of["data"]["remaining_downloads"]), (200, &json!(3)));
    assert_eq!((&told_of["data"]["file"], &told_of["data"]["download_url"]), (&kept, &granted["download_url"]));
    let head = house.http.head(granted["download_url"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(
        (head.status().as_u16(), head.headers()["content-length"].to_str().unwrap()),
        (200, &*bytes.len().to_string())
    );
    let tag = format!("\"{}\"", kept["sha256"].as_str().unwrap());
    let known = house.fetch(&granted).header("if-none-match", &tag).send().await.unwrap();
    assert_eq!(known.status().as_u16(), 304);

    let answer = house.fetch(&granted).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        (
            "content-disposition",
            "attachment; filename=\"Rechnung M_rz.html\"; filename*=UTF-8''Rechnung%20M%C3%A4rz.html",
        ),
        ("etag", &tag),
        ("content-length", &bytes.len().to_string()),
        ("x-remaining-downloads", "2"),
    ] {
        assert_eq!(answer.headers()[name], value, "{name}");
    }
    assert_eq!(answer.text().await.unwrap(), bytes);
    let part = house.fetch(&granted).header("range", "bytes=1-6").send().await.unwrap();
    assert_eq!(
        (part.status().as_u16(), &part.headers()["content-range"]),
        (206, &format!("bytes 1-6/{}", bytes.len()).parse().unwrap())
    );
    assert_eq!(part.text().await.unwrap(), "script");
    assert_eq!(house.fetch(&granted).query(&[("redirect", "1")]).send().await.unwrap().status().as_u16(), 200);
    let over = reason(house.fetch(&granted).send().await.unwrap()).await;
    assert_eq!(over, (410, 4502, json!("DOWNLOADS_USED_UP")));
    let over = reason(house.fetch(&granted).query(&[("redirect", "0")]).send().await.unwrap()).await;
    assert_eq!(over, (410, 4502, json!("DOWNLOADS_USED_UP")));
    assert_eq!(refusal(&told(house.at(Method::GET, "/deliverables/dl_guess/download")).await), (404, 1004));
    assert_eq!(refusal(&told(house.fetch(&granted).query(&[("redirect", "2")])).await), (400, 1001));
}

#[tokio::test]
async fn another_sites_page_gets_no_file() {
    let mut settings = gateway::Settings::test(&["echo"]);
    settings.cors_origins = vec!["https://shop.example".to_owned()];
    let house = house_in(settings, |uumit| uumit).await;
    let id = house.accepted().await;
    let kept = house.uploaded(&id, "a.txt", "bytes").await;
    let granted = house.granted(SELLER, &kept["access_id"], json!({})).await;
    for foreign in ["https://elsewhere.example/page", "http://127.0.0.1:1/x", "nonsense"] {
        let answer = house.fetch(&granted).header("referer", foreign).send().await.unwrap();
        assert_eq!(reason(answer).await, (403, 1003, json!("HOTLINK_REJECTED")), "{foreign}");
    }
    let own = house.running.url("/page");
    for (n, own) in [&*own, "https://shop.example/cart", ""].into_iter().enumerate() {
        let answer = house.fetch(&granted).header("referer", own).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["x-remaining-downloads"]),
            (200, &(4 - n).into()),
            "{own}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_uploaded_is_refused_in_words() {
    let house = house().await;
    let id = house.accepted().await;
    let upload = |user: &str| house.upload(user, &id, "a.txt").body("bytes");
    assert_eq!(refusal(&told(upload(BUYER)).await), (403, 1003), "the seller's part");
    for (kind, body) in [
        ("multipart/form-data; boundary=x", "--x--\r\n"),
        ("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nhalf"),
        ("multipart/form-data", "--x--"),
    ] {
        let form = house.upload(SELLER, &id, "a").header("content-type", kind).body(body);
        assert_eq!(refusal(&told(form).await), (400, 1001), "{kind} {body}");
    }
    assert_eq!(refusal(&told(house.upload(SELLER, &id, "a").body("")).await), (400, 1001));
    let bare = house.by(SELLER, Method::POST, "/deliverables/upload").body("bytes");
    assert_eq!(refusal(&told(bare).await), (400, 1001));
    let nothing = house.upload(SELLER, "tx_00000000000000000000000000", "a").body("bytes");
    assert_eq!(refusal(&told(nothing).await), (404, 1004));
    let large = vec![0; usize::try_from(market::service::DeliverableLimits::default().file_bytes).unwrap() + 1];
    assert_eq!(refusal(&told(house.upload(SELLER, &id, "a").body(large)).await), (413, 1001));
    assert_eq!(refusal(&told(house.at(Method::POST, "/deliverables/upload").body("bytes")).await), (401, 1002));
    let foreign = json!({ "deliverables": [{ "access_id": "acc_00000000000000000000000000000000" }] });
    let foreign = house.post(SELLER, &format!("/transactions/{id}/deliver"), foreign).await;
    assert_eq!((refusal(&foreign), &foreign.1["data"]["details"][0]["field"]), ((422, 1008), &json!("deliverables")));
    // A media type that the client only guessed is not kept.
    let plain = house.upload(SELLER, &id, "b").header("content-type", "application/x-www-form-urlencoded").body("x=1");
    assert_eq!(told(plain).await.1["data"]["media_type"], "application/octet-stream");
    assert_eq!(refusal(&house.post(BUYER, "/deliverables/acc_0/grant-access", json!({})).await), (404, 1004));

    let kept = house.uploaded(&id, "c", "bytes").await;
    let job = json!({ "action": "deliver", "job_id": id, "deliverables": [{ "access_id": kept["access_id"] }] });
    let done = house.done(SELLER, "/agent-runtime/act", job).await;
    assert_eq!(done["transaction"]["deliverables"][0]["file_name"], "c");
}

#[tokio::test]
async fn a_file_may_come_in_a_form() {
    let house = house().await;
    let id = house.accepted().await;
    let form = |fields: &[(&str, &str)]| {
        let mut body = String::new();
        for (head, value) in fields {
            body.push_str(&format!("--x\r\nContent-Disposition: form-data; {head}\r\n\r\n{value}\r\n"));
        }
        let request = house.by(SELLER, Method::POST, "/deliverables/upload");
        request.header("content-type", "multipart/form-data; boundary=x").body(format!("{body}--x--\r\n"))
    };
    let file = ("name=\"file\"; filename=\"a b.txt\"\r\nContent-Type: text/plain", "bytes\r\nof it");
    let (status, answer) = told(form(&[("name=\"transaction_id\"", &id), file, ("name=\"other\"", "x")])).await;
    assert_eq!(status, 200, "{answer}");
    let kept = &answer["data"];
    assert_eq!(
        (&kept["file_name"], &kept["media_type"], &kept["size"]),
        (&json!("a b.txt"), &json!("text/plain"), &json!(12))
    );
    let granted = house.granted(SELLER, &kept["access_id"], json!({})).await;
    assert_eq!(house.fetch(&granted).send().await.unwrap().text().await.unwrap(), "bytes\r\nof it");
    assert_eq!(refusal(&told(form(&[file])).await), (400, 1001), "of which purchase?");
    let named = ("name=\"filename\"", "c.txt");
    let (_, answer) = told(form(&[named, file]).query(&[("transaction_id", &id)])).await;
    assert_eq!(answer["data"]["file_name"], "c.txt");
    assert_eq!(refusal(&told(form(&[file, file]).query(&[("transaction_id", &id)])).await), (400, 1001));
}
