//! One broker for all tests of encryption and logins, with a listener for each way to connect, and
//! the files that go with it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::rig::Rig;
use crate::support::tls::{Authority, Identity, Subject, file};
use crate::support::token::Issuer;
use crate::support::{Acl, Cluster, Operation, Options, Permit, Resource, heavy};

/// Who logs in with SCRAM or PLAIN.
pub const USER: &str = "daemon";
/// The password.
pub const PASSWORD: &str = "correct-horse-battery";
/// Audience of the tokens.
pub const AUDIENCE: &str = "kafka";

/// The broker and all that is trusted.
pub struct Secure {
    /// Listeners: `TLS`, `MUTUAL` (wants a client certificate), `STRANGER`, `ELSEWHERE` and
    /// `EXPIRED` (bad certificates), `LOGIN` (SCRAM and PLAIN over TLS), `TOKEN` (OAUTHBEARER over
    /// TLS); and the fixture's own for its super user.
    pub cluster: Cluster,
    /// Signed the broker's certificate and those of clients.
    pub authority: Authority,
    /// Its file.
    pub ca_file: PathBuf,
    /// Signs tokens.
    pub issuer: Issuer,
    _permit: Permit,
}

/// The broker, started by the first test that asks.
pub fn secure() -> &'static Secure {
    static SECURE: OnceLock<Secure> = OnceLock::new();
    SECURE.get_or_init(Secure::start)
}

/// A path as a setting.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path of this project")
}

impl Secure {
    fn start() -> Self {
        let authority = Authority::new("test authority");
        let issuer = Issuer::new();
        let stranger = Authority::new("nobody trusts this one");
        let ca_file = authority.file();
        let broker = |subject| authority.issue(subject);
        let named = Subject::new("broker");
        let good = broker(named);
        let elsewhere = broker(Subject { host: "kafka.example", ..named });
        let expired = broker(Subject { expired: true, ..named });
        let unknown = stranger.issue(named);

        let key_set = file("jwks.json", &[issuer.key_set().into_bytes()]);
        let key_set = format!("file://{}", text(&key_set));
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let plain = format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required \
             user_{USER}=\"{PASSWORD}\";"
        );
        let login = [
            ("sasl.enabled.mechanisms", "SCRAM-SHA-512,PLAIN"),
            ("scram-sha-512.sasl.jaas.config", scram),
            ("plain.sasl.jaas.config", plain.as_str()),
        ];
        let package = "org.apache.kafka.common.security.oauthbearer";
        let module = format!("{package}.OAuthBearerLoginModule required;");
        let validator = format!("{package}.OAuthBearerValidatorCallbackHandler");
        let token = [
            ("sasl.enabled.mechanisms", "OAUTHBEARER"),
            ("oauthbearer.sasl.jaas.config", module.as_str()),
            ("oauthbearer.sasl.server.callback.handler.class", validator.as_str()),
            ("oauthbearer.sasl.oauthbearer.jwks.endpoint.url", key_set.as_str()),
            ("oauthbearer.sasl.oauthbearer.expected.audience", AUDIENCE),
        ];
        let mutual = [
            ("ssl.client.auth", "required"),
            ("ssl.truststore.type", "PEM"),
            ("ssl.truststore.location", text(&ca_file)),
        ];
        let permit = heavy();
        let options = Options::one_node()
            .users(&[(USER, PASSWORD)])
            .system_property("org.apache.kafka.sasl.oauthbearer.allowed.urls", &key_set)
            .property("allow.everyone.if.no.acl.found", "false");
        let options = listener(options, "TLS", "SSL", &good, &[]);
        let options = listener(options, "MUTUAL", "SSL", &good, &mutual);
        let options = listener(options, "STRANGER", "SSL", &unknown, &[]);
        let options = listener(options, "ELSEWHERE", "SSL", &elsewhere, &[]);
        let options = listener(options, "EXPIRED", "SSL", &expired, &[]);
        let options = listener(options, "LOGIN", "SASL_SSL", &good, &login);
        let options = listener(options, "TOKEN", "SASL_SSL", &good, &token);
        let cluster = options.start(&permit);
        Self { cluster, authority, ca_file, issuer, _permit: permit }
    }

    /// A client certificate for `name`.
    pub fn certificate(&self, name: &str) -> Identity {
        self.authority.issue(Subject::new(name))
    }

    /// A delay topic and a daemon that connects to a listener and trusts its certificate.
    pub fn rig(&self, listener: &str, levels: &str) -> Rig {
        Rig::new(&self.cluster.client(), levels)
            .set("kafka.sasl.mechanism", "")
            .set("kafka.sasl.username", "")
            .set("kafka.sasl.password", "")
            .set("kafka.bootstrap_servers", &self.cluster.listener(listener))
            .set("kafka.tls.ca_file", text(&self.ca_file))
            .set("kafka.connect_timeout", "5s")
    }

    /// Lets a user do with the rig's topics what a daemon must, and write to `destination`.
    pub fn admit(&self, rig: &Rig, user: &str, destination: &str) {
        let describe = Operation::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS;
        let settings = |topic: &String| Acl::allow(user, describe, Resource::Topic(topic.clone()));
        rig.admin.add_acls(&[
            Acl::may_read(user, &rig.delay),
            Acl::may_write(user, &rig.dlq),
            Acl::may_join(user, &rig.config.group),
            Acl::may_write(user, destination),
            settings(&rig.delay),
            settings(&rig.dlq),
        ]);
    }
}

fn listener(
    options: Options,
    name: &str,
    protocol: &str,
    identity: &Identity,
    further: &[(&str, &str)],
) -> Options {
    let store = identity.store_file();
    let tls = [("ssl.keystore.type", "PEM"), ("ssl.keystore.location", text(&store))];
    options.listener(name, protocol, &[&tls[..], further].concat())
}
