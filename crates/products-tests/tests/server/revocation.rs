//! Codes, tokens and clients end with the key that they were made with, whatever kind of key it is and however it ends.

use gateway::Settings;
use gateway::admin::{AdminContext, AdminRequest, CoreRequest, RunningGateway as Operated};
use gateway::product::ProductKind as _;
use model::ports::store::{Commit, Outcome};
use model::{AccessKey, Expect, RecordChange};
use serde_json::{Value, json};
use shop::admin::{ShopOperation, request as shop_request};
use shop::{ShopProduct, ShopService};

use crate::aly::{key_of, open};
use crate::oauth::{agreed, exchange, is_good, post, public, register, renew};
use testkit::{Running, key, settings};

const WORKSPACE: &str = "acme-ws";

/// The kinds of keys that people have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Workspace,
    Operator,
    Config,
}

/// How a key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By an operator's command.
    Revoked,
    /// The key is gone, and the things made with it are still stored: after a crash, or in another process.
    Gone,
    /// Its time is over.
    Expired,
    /// The config has another secret under its name.
    Replaced,
}

const ENDS: [(Kind, End); 8] = [
    (Kind::Workspace, End::Revoked),
    (Kind::Workspace, End::Gone),
    (Kind::Workspace, End::Expired),
    (Kind::Operator, End::Revoked),
    (Kind::Operator, End::Gone),
    (Kind::Operator, End::Expired),
    (Kind::Config, End::Gone),
    (Kind::Config, End::Replaced),
];

fn operators() -> AccessKey {
    AccessKey {
        id: "made".into(),
        name: "joe".into(),
        tenant: WORKSPACE.into(),
        scopes: Vec::new(),
        hash: gateway::auth::hash("key-of-joe"),
        prefix: "rk_made".into(),
        created_at: model::Time(0),
        expires_at: None,
        revoked_at: None,
    }
}

async fn change(running: &Running, record: RecordChange) {
    let done = running.serving.now().engine().store().commit(Commit { records: vec![record], ..Commit::default() });
    assert!(matches!(done.await, Outcome::Done));
}

async fn key_made(running: &Running, kind: Kind) -> String {
    match kind {
        Kind::Workspace => key_of(running, WORKSPACE, &[]).await,
        Kind::Config => "key-of-house".into(),
        Kind::Operator => {
            let engine = running.serving.now().engine().clone();
            let kept = engine.store().commit(Commit { access: vec![operators()], ..Commit::default() }).await;
            assert!(matches!(kept, Outcome::Done));
            running.serving.now().callers().take(&operators());
            "key-of-joe".into()
        }
    }
}

async fn operate(running: &Running, request: impl Into<AdminRequest>) -> Value {
    let server = running.serving.now();
    let folder = tempfile::tempdir().unwrap();
    let (reloads, _) = tokio::sync::mpsc::channel(1);
    let operated = Operated { serving: &running.serving, reloads: &reloads };
    let context = AdminContext {
        engine: server.engine(),
        folder: folder.path(),
        products: &[&ShopProduct],
        running: Some(operated),
        requester: None,
    };
    gateway::admin::perform(&context, request.into()).await.unwrap()
}

async fn end(running: &Running, kind: Kind, how: End, secret: &str) {
    let hash: String = gateway::auth::hash(secret).iter().map(|byte| format!("{byte:02x}")).collect();
    let (record, name) = ("oauth/key".into(), hash.into());
    let with_keys = |keys: Vec<gateway::settings::KeySettings>| {
        let server = running.serving.now();
        let (products, product_scopes) = (server.products().to_vec(), ShopProduct.scopes());
        let settings = Settings { keys, products, product_scopes, ..settings() };
        running.serving.change(settings, server.engine().agents()).unwrap();
    };
    match (kind, how) {
        (Kind::Workspace, End::Revoked) => {
            let server = running.serving.now();
            let all = server.product::<ShopService>().unwrap().oauth().keys(WORKSPACE).await.unwrap();
            let id = all.last().unwrap().id.to_string();
            let wish = ShopOperation::KeyRevoke { workspace: WORKSPACE.into(), id };
            let done = operate(running, shop_request(wish).unwrap()).await;
            assert_eq!((&done["clients"], &done["grants"]), (&json!(1), &json!(2)), "{done}");
        }
        (Kind::Workspace, End::Gone) => {
            change(running, RecordChange::Remove { kind: record, key: name, expect: Expect::Any }).await;
        }
        (Kind::Workspace, End::Expired) => {
            let store = running.serving.now().engine().store().clone();
            let kept = store.record(record.clone(), name.clone()).await.unwrap().unwrap();
            let text = String::from_utf8(kept.body.to_vec()).unwrap();
            let body = text.replace("\"expires\":null", "\"expires\":1");
            assert_ne!(text, body);
            let lists = vec![model::Listed { list: format!("workspace {WORKSPACE}").into(), rank: 0 }];
            let expect = Expect::Any;
            change(running, RecordChange::Put { kind: record, key: name, expect, body: body.into(), lists }).await;
        }
        (Kind::Operator, End::Revoked) => {
            let done = operate(running, CoreRequest::KeysRevoke { id: "made".into() }).await;
            assert_eq!(done["state"], "revoked");
        }
        (Kind::Operator, End::Gone) => {
            let revoked = AccessKey { revoked_at: Some(model::Time(1)), ..operators() };
            running.serving.now().callers().take(&revoked);
        }
        (Kind::Operator, End::Expired) => {
            running.serving.now().callers().take(&AccessKey { expires_at: Some(model::Time(1)), ..operators() });
        }
        (Kind::Config, End::Gone) => with_keys(vec![key("other", WORKSPACE)]),
        (Kind::Config, End::Replaced) => {
            let mut other = key("house", WORKSPACE);
            other.secret = "another secret".into();
            with_keys(vec![other]);
        }
        (Kind::Config, End::Revoked | End::Expired) | (Kind::Workspace | Kind::Operator, End::Replaced) => {
            panic!("{kind:?} does not end by {how:?}")
        }
    }
}

/// The uses of a key.
struct Made {
    /// A client that asks people.
    client: String,
    code: String,
    person: Value,
    /// A client of the workspace, its secret, and a token of its own.
    own: (String, String),
    token: Value,
}

async fn own_token(running: &Running, own: &(String, String)) -> (u16, Value) {
    let form = [("grant_type", "client_credentials"), ("client_id", &*own.0), ("client_secret", &own.1)];
    post(running, "/oauth/token", &form).await
}

async fn make(running: &Running, secret: &str) -> Made {
    let client = public(running).await;
    let person = exchange(running, &client, &agreed(running, &client, secret).await).await.1;
    let code = agreed(running, &client, secret).await;
    let said = json!({ "grant_types": ["client_credentials"], "scope": "read:orders" });
    let (status, registered) = register(running, said, Some(secret)).await;
    assert_eq!(status, 201, "{registered}");
    let text = |name: &str| registered[name].as_str().unwrap().to_owned();
    let own = (text("client_id"), text("client_secret"));
    let token = own_token(running, &own).await.1["access_token"].clone();
    Made { client, code, person, own, token }
}

#[tokio::test]
async fn what_was_made_with_a_key_ends_with_it() {
    for (kind, how) in ENDS {
        let case = format!("{kind:?} {how:?}");
        let running = open(|_, _| {}).await;
        let secret = key_made(&running, kind).await;
        let made = make(&running, &secret).await;
        let others = make(&running, &key_of(&running, WORKSPACE, &[]).await).await;
        for good in [&made.person["access_token"], &made.token, &others.person["access_token"], &others.token] {
            assert!(is_good(&running, good).await, "{case}");
        }
        end(&running, kind, how, &secret).await;

        assert!(!is_good(&running, &made.person["access_token"]).await, "{case}: an access token");
        assert!(!is_good(&running, &made.token).await, "{case}: a client's own token");
        let renewed = renew(&running, &made.client, &made.person["refresh_token"]).await;
        assert_eq!((renewed.0, &renewed.1["error"]), (400, &json!("invalid_grant")), "{case}: a refresh token");
        let fetched = exchange(&running, &made.client, &made.code).await;
        assert_eq!((fetched.0, &fetched.1["error"]), (400, &json!("invalid_grant")), "{case}: a code");
        let own = own_token(&running, &made.own).await;
        assert_eq!((own.0, &own.1["error"]), (401, &json!("invalid_client")), "{case}: a client");
        let token = made.person["access_token"].as_str().unwrap();
        let (id, secret) = (&*others.own.0, &*others.own.1);
        let shown = [("token", token), ("client_id", id), ("client_secret", secret)];
        assert_eq!(post(&running, "/oauth/introspect", &shown).await.1, json!({ "active": false }), "{case}");

        assert!(is_good(&running, &others.person["access_token"]).await, "{case}: another key's");
        assert!(is_good(&running, &others.token).await, "{case}: another key's client");
        assert_eq!(renew(&running, &others.client, &others.person["refresh_token"]).await.0, 200, "{case}");
        assert_eq!(exchange(&running, &others.client, &others.code).await.0, 200, "{case}");
    }
}

#[tokio::test]
async fn operators_list_and_remove_clients_and_grants() {
    let running = open(|_, _| {}).await;
    let secret = key_of(&running, WORKSPACE, &[]).await;
    let made = make(&running, &secret).await;
    let ask = async |wish: ShopOperation| operate(&running, shop_request(wish).unwrap()).await;
    let of = |workspace: Option<&str>| ShopOperation::ClientList { workspace: workspace.map(str::to_owned) };
    let listed = ask(of(Some(WORKSPACE))).await;
    assert_eq!(listed["clients"].as_array().unwrap().len(), 1, "{listed}");
    let (client, key) = (
        &listed["clients"][0],
        running.serving.now().product::<ShopService>().unwrap().oauth().keys(WORKSPACE).await.unwrap(),
    );
    assert_eq!((&client["id"], &client["made_with"]), (&json!(made.own.0), &json!(&*key[0].id)), "{client}");
    assert_eq!(ask(of(None)).await["clients"][0]["id"], json!(made.client), "one that registered itself");
    assert_eq!(ask(of(Some("other-ws"))).await["clients"], json!([]));
    let grants = |workspace: &str, client: Option<&str>| ShopOperation::GrantList {
        workspace: Some(workspace.into()),
        client: client.map(str::to_owned),
    };
    let listed = ask(grants(WORKSPACE, None)).await;
    assert_eq!((listed["grants"].as_array().unwrap().len(), &listed["left_off"]), (2, &json!(0)), "{listed}");
    assert!(!listed.to_string().contains("hash") && !listed.to_string().contains("aly_"), "{listed}");
    assert_eq!(ask(grants("other-ws", None)).await["grants"], json!([]));
    let persons = ask(grants(WORKSPACE, Some(&made.client))).await["grants"][0]["id"].as_str().unwrap().to_owned();
    ask(ShopOperation::GrantRemove { id: persons }).await;
    assert!(!is_good(&running, &made.person["access_token"]).await);
    assert_eq!(renew(&running, &made.client, &made.person["refresh_token"]).await.0, 400);
    assert!(is_good(&running, &made.token).await);
    let removed = ask(ShopOperation::ClientRemove { id: made.own.0.clone() }).await;
    assert_eq!(removed["grants"], 1);
    assert!(!is_good(&running, &made.token).await);
    assert_eq!(own_token(&running, &made.own).await.0, 401);
    assert_eq!(ask(grants(WORKSPACE, None)).await["grants"], json!([]));
}
