//! How to reach a cluster: address and credentials, and the clients made from them.

use rdkafka::ClientConfig;

use super::{Admin, Producer, Reader};

/// Address and credentials of one user.
#[derive(Debug, Clone)]
pub struct Client {
    /// `host:port,host:port`
    pub bootstrap: String,
    /// User and password (SCRAM-SHA-512), when the cluster asks for them.
    pub credentials: Option<(String, String)>,
}

impl Client {
    /// librdkafka settings to build any client of one's own.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config.set("reconnect.backoff.max.ms", "500");
        if let Some((user, password)) = &self.credentials {
            config.set("security.protocol", "sasl_plaintext");
            config.set("sasl.mechanism", "SCRAM-SHA-512");
            config.set("sasl.username", user).set("sasl.password", password);
        }
        config
    }

    /// Topics, groups, access control lists.
    pub fn admin(&self) -> Admin {
        Admin::new(self)
    }

    /// Sends records.
    pub fn producer(&self) -> Producer {
        Producer::new(self)
    }

    /// Reads a topic from its beginning, outside of any group.
    pub fn reader(&self, topic: &str) -> Reader {
        Reader::new(self, topic)
    }
}
