// TLS, user and password for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "native/python/bindings.h"

namespace nb = nanobind;

namespace ignite_strategy {
namespace {

nb::bytes MakeSettings(bool tls, bool verify, bool check_hostname, const std::optional<std::string>& cafile,
                       const std::optional<std::string>& certfile, const std::optional<std::string>& keyfile,
                       const std::optional<std::string>& username, const std::optional<std::string>& password,
                       const std::optional<std::string>& cert_password, const std::string& key) {
  SecuritySettings settings;
  settings.tls = {
      tls, verify, check_hostname, cafile.value_or(""), certfile.value_or(""), keyfile.value_or("")};
  const Secrets secrets{username, password, cert_password};
  CheckSecurity(settings.tls, secrets);
  settings.has_credentials = username.has_value();
  settings.has_cert_password = cert_password.has_value();
  if (settings.has_credentials || settings.has_cert_password) {
    settings.key = key;
    PutSecrets(key, secrets);
  }
  const std::string bytes = settings.Serialize();
  return nb::bytes(bytes.data(), bytes.size());
}

// What other clients (pyignite) are given; holds secrets.
nb::object Resolved(const nb::bytes& settings, const std::vector<std::string>& prefixes) {
  const std::shared_ptr<const Security> security = ResolveSecurity(settings, prefixes);
  if (!security) return nb::none();
  const TlsOptions& tls = security->tls();
  nb::dict dict;
  dict["tls"] = tls.on;
  dict["verify"] = tls.verify;
  dict["check_hostname"] = tls.check_hostname;
  dict["cafile"] = tls.cafile;
  dict["certfile"] = tls.certfile;
  dict["keyfile"] = tls.keyfile;
  dict["cert_password"] = security->secrets().cert_password;
  dict["username"] = security->secrets().username;
  dict["password"] = security->secrets().password;
  return dict;
}

}  // namespace

std::shared_ptr<const Security> ResolveSecurity(const nb::bytes& settings,
                                                const std::vector<std::string>& prefixes) {
  return SecuritySettings::Parse(std::string(settings.c_str(), settings.size()))
      .Resolve(ReadSecurityEnvironment(prefixes));
}

void BindSecurity(nb::module_& module) {
  module.def("security_settings", &MakeSettings, nb::kw_only(), nb::arg("tls"), nb::arg("verify"),
             nb::arg("check_hostname"), nb::arg("cafile").none(), nb::arg("certfile").none(),
             nb::arg("keyfile").none(), nb::arg("username").none(), nb::arg("password").none(),
             nb::arg("cert_password").none(), nb::arg("key"),
             "Settings as they may be in a graph; the secrets go into this module's table under `key`.");
  module.def("resolve_security", &Resolved, nb::arg("settings"), nb::arg("prefixes"),
             "The settings with their secrets and the variables of `prefixes` applied; None = plain text.");
}

}  // namespace ignite_strategy
