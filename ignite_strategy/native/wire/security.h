// How a connection is protected and who it is for: TLS, user and password.
//
// Two forms. SecuritySettings is what a graph may hold: switches, file names and the key of an entry in this
// process's table of secrets. Security is what a connection uses, secrets included; it never leaves the
// process.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_SECURITY_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_SECURITY_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "native/wire/buffer.h"

struct ssl_ctx_st;

namespace ignite_strategy {

struct TlsOptions {
  bool on = false;
  bool verify = true;          // the chain; without it the name is not checked either
  bool check_hostname = true;  // the name, or the address, that was connected to
  std::string cafile;          // PEM, or a folder of hashed certificates; empty = the system's store
  std::string certfile;        // PEM, the client's certificate and its chain; empty = none
  std::string keyfile;         // PEM; empty = the key is in certfile

  auto Tie() const { return std::tie(on, verify, check_hostname, cafile, certfile, keyfile); }
};

struct Secrets {
  std::optional<std::string> username, password;
  std::optional<std::string> cert_password;  // of an encrypted key

  auto Tie() const { return std::tie(username, password, cert_password); }
};

// Throws Error(kInvalidArgument) for what contradicts itself: a key without a certificate, a user without a
// password, a certificate with TLS switched off.
void CheckSecurity(const TlsOptions& tls, const Secrets& secrets);

// Resolved: immutable but for the cached context, shared by all connections with the same settings.
class Security {
 public:
  // The one object for these settings in this process; null for plain text without a user.
  static std::shared_ptr<const Security> Of(const TlsOptions& tls, const Secrets& secrets);
  Security(TlsOptions tls, Secrets secrets) : tls_(std::move(tls)), secrets_(std::move(secrets)) {}

  const TlsOptions& tls() const { return tls_; }
  const Secrets& secrets() const { return secrets_; }
  // OpenSSL's context; made anew when one of the files has changed. Throws Error(kInvalidArgument) naming the
  // file that cannot be used.
  std::shared_ptr<ssl_ctx_st> Context() const;

 private:
  const TlsOptions tls_;
  const Secrets secrets_;
  mutable std::shared_ptr<ssl_ctx_st> context_;  // guarded by the process's lock, see security.cc
  mutable std::string fingerprint_;              // of the files that the context was made from
};

// What the environment of this process says; a variable that is not set is nothing.
struct SecurityEnvironment {
  std::optional<bool> tls, verify, check_hostname;
  std::optional<std::string> cafile, certfile, keyfile;
  Secrets secrets;
};
// <PREFIX>TLS, _CAFILE, _CERTFILE, _KEYFILE, _CERT_PASSWORD, _VERIFY, _CHECK_HOSTNAME, _USERNAME, _PASSWORD;
// the first prefix that has a variable wins. Throws Error(kInvalidArgument) naming the variable, never the
// value of a secret.
SecurityEnvironment ReadSecurityEnvironment(const std::vector<std::string>& prefixes);
inline const std::vector<std::string> kDatasetPrefixes{"IGNITE_DATASET_", "IGNITE_"};
inline const std::vector<std::string> kFilesystemPrefixes{"IGFS_", "IGNITE_"};

struct SecuritySettings {
  TlsOptions tls;
  std::string key;  // of the entry with the secrets; empty = there are none
  bool has_credentials = false;
  bool has_cert_password = false;

  bool plain() const { return !tls.on && key.empty(); }
  std::string Serialize() const;  // "" if plain
  // Throws Error(kInvalidArgument) for bytes that Serialize of this version did not make.
  static SecuritySettings Parse(const std::string& bytes);
  // Each variable replaces the setting of its name. Throws Error(kUnauthenticated), naming the variables to
  // set, if secrets were given in another process and are not here.
  std::shared_ptr<const Security> Resolve(const SecurityEnvironment& environment) const;
};

// The table of secrets. Entries stay for the life of the process: a graph may refer to them at any time.
void PutSecrets(const std::string& key, const Secrets& secrets);
std::optional<Secrets> FindSecrets(const std::string& key);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_SECURITY_H_
