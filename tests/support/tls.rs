//! Certificates for brokers and clients, made by the test itself.

use std::path::{Path, PathBuf};

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::symm::Cipher;
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name, X509NameBuilder};

use super::workspace;

const DAY_S: i64 = 24 * 60 * 60;

/// A certificate authority.
pub struct Authority {
    name: X509Name,
    key: PKey<Private>,
    certificate: X509,
}

/// What a certificate says.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The common name; `User:CN=<name>` for Kafka.
    pub name: &'a str,
    /// Of a broker: a further name. The address 127.0.0.1 if empty.
    pub host: &'a str,
    /// Whether its time is over.
    pub expired: bool,
}

impl<'a> Subject<'a> {
    /// A valid certificate of the broker at 127.0.0.1, or of a client.
    pub fn new(name: &'a str) -> Self {
        Self { name, host: "", expired: false }
    }
}

/// A certificate with its key, as PEM.
pub struct Identity {
    certificate: X509,
    key: PKey<Private>,
}

impl Authority {
    /// A new one, which nobody trusts yet.
    pub fn new(name: &str) -> Self {
        let (name, key) = (common_name(name), new_key());
        let mut builder = unsigned(&name, &name, &key, false);
        let basic = BasicConstraints::new().critical().ca().build().expect("an extension");
        let usage = KeyUsage::new().key_cert_sign().crl_sign().build().expect("an extension");
        builder.append_extension(basic).expect("an extension");
        builder.append_extension(usage).expect("an extension");
        builder.sign(&key, MessageDigest::sha256()).expect("a signature");
        let certificate = builder.build();
        Self { name, key, certificate }
    }

    /// A certificate signed by this authority.
    pub fn issue(&self, subject: Subject<'_>) -> Identity {
        let key = new_key();
        let mut builder = unsigned(&common_name(subject.name), &self.name, &key, subject.expired);
        let mut names = SubjectAlternativeName::new();
        match subject.host {
            "" => names.ip("127.0.0.1"),
            host => names.dns(host),
        };
        let names = names.build(&builder.x509v3_context(Some(&self.certificate), None));
        builder.append_extension(names.expect("an extension")).expect("an extension");
        builder.sign(&self.key, MessageDigest::sha256()).expect("a signature");
        Identity { certificate: builder.build(), key }
    }

    /// A file with its certificate.
    pub fn file(&self) -> PathBuf {
        file("ca.pem", &[self.certificate.to_pem().expect("PEM")])
    }
}

impl Identity {
    /// A file with the certificate.
    pub fn certificate_file(&self) -> PathBuf {
        file("certificate.pem", &[self.certificate.to_pem().expect("PEM")])
    }

    /// A file with the key, encrypted if there is a password.
    pub fn key_file(&self, password: Option<&str>) -> PathBuf {
        file("key.pem", &[self.key_pem(password)])
    }

    /// A file with both, as Kafka wants a key store.
    pub fn store_file(&self) -> PathBuf {
        let certificate = self.certificate.to_pem().expect("PEM");
        file("store.pem", &[self.key_pem(None), certificate])
    }

    fn key_pem(&self, password: Option<&str>) -> Vec<u8> {
        let pem = match password {
            None => self.key.private_key_to_pem_pkcs8(),
            Some(password) => {
                let cipher = Cipher::aes_256_cbc();
                self.key.private_key_to_pem_pkcs8_passphrase(cipher, password.as_bytes())
            }
        };
        pem.expect("PEM")
    }
}

/// A new file of this test process.
pub fn file(name: &str, parts: &[Vec<u8>]) -> PathBuf {
    let path: &Path = &workspace::new_dir("tls").join(name);
    std::fs::write(path, parts.concat()).expect("target/tmp is writable");
    path.to_path_buf()
}

fn new_key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).expect("a known curve");
    PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key")
}

fn common_name(name: &str) -> X509Name {
    let mut builder = X509NameBuilder::new().expect("a name");
    builder.append_entry_by_text("CN", name).expect("a legal name");
    builder.build()
}

/// Valid from a month ago for two months, or expired yesterday.
fn unsigned(
    subject: &X509Name,
    issuer: &X509Name,
    key: &PKey<Private>,
    expired: bool,
) -> X509Builder {
    let now_s = super::now_ms() / 1_000;
    let end_s = if expired { now_s - DAY_S } else { now_s + 30 * DAY_S };
    let time = |seconds| Asn1Time::from_unix(seconds).expect("a time");
    let mut serial = BigNum::new().expect("a number");
    serial.rand(159, MsbOption::MAYBE_ZERO, false).expect("a number");
    let serial = serial.to_asn1_integer().expect("a number");
    let mut builder = X509::builder().expect("a builder");
    builder.set_version(2).expect("version 3");
    builder.set_serial_number(&serial).expect("a serial number");
    builder.set_subject_name(subject).expect("a subject");
    builder.set_issuer_name(issuer).expect("an issuer");
    builder.set_pubkey(key).expect("a key");
    builder.set_not_before(&time(now_s - 30 * DAY_S)).expect("a time");
    builder.set_not_after(&time(end_s)).expect("a time");
    builder
}
