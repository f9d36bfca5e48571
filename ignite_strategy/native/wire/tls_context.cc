// The part of TLS that reads files.
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "native/wire/crypto.h"
#include "native/wire/error.h"
#include "native/wire/tls.h"

namespace ignite_strategy {
namespace {

constexpr const char* kWhere =
    " (files are looked for on the host of the process that reads: in a task, name that host's file in its "
    "environment)";

// Where distributions keep the certificates they trust; the OpenSSL inside our objects was built for one of
// them only.
constexpr const char* kStoreFiles[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // newer RHEL
    "/etc/ssl/ca-bundle.pem",                             // SUSE
    "/etc/ssl/cert.pem",
};

[[noreturn]] void Invalid(const std::string& what) { throw Error(Code::kInvalidArgument, what); }

std::string LastReason() {
  const unsigned long error = ERR_peek_last_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  ERR_clear_error();
  return reason == nullptr ? "" : std::string(" (OpenSSL: ") + reason + ")";
}

void NeedReadable(const char* name, const std::string& path) {
  if (access(path.c_str(), R_OK) == 0) return;
  Invalid(std::string(name) + " " + path + " cannot be read: " + std::strerror(errno) + kWhere);
}

// Answers OpenSSL's question for a password, and notes that it was asked; it would ask the terminal
// otherwise.
struct Password {
  const std::optional<std::string>& text;
  bool asked = false;

  static int Answer(char* out, int size, int, void* self) {
    auto& password = *static_cast<Password*>(self);
    password.asked = true;
    if (!password.text || password.text->size() > static_cast<std::size_t>(size)) return -1;
    std::memcpy(out, password.text->data(), password.text->size());
    return static_cast<int>(password.text->size());
  }
};

void LoadTrusted(SSL_CTX* context, const TlsOptions& options) {
  if (!options.cafile.empty()) {
    NeedReadable("cafile", options.cafile);
    struct stat status{};
    const bool folder = stat(options.cafile.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
    const int loaded = folder ? SSL_CTX_load_verify_dir(context, options.cafile.c_str())
                              : SSL_CTX_load_verify_file(context, options.cafile.c_str());
    if (loaded != 1) Invalid("cafile " + options.cafile + " has no certificate in PEM format" + LastReason());
    return;
  }
  if (!options.verify) return;
  // SSL_CERT_FILE and SSL_CERT_DIR are OpenSSL's own variables, and mean what they mean everywhere.
  if (std::getenv("SSL_CERT_FILE") != nullptr || std::getenv("SSL_CERT_DIR") != nullptr) {
    SSL_CTX_set_default_verify_paths(context);
    return;
  }
  for (const char* path : kStoreFiles) {
    if (access(path, R_OK) == 0 && SSL_CTX_load_verify_file(context, path) == 1) return;
    ERR_clear_error();
  }
  // No bundle of a distribution that we know; this looks for folders too.
  SSL_CTX_set_default_verify_paths(context);
  ERR_clear_error();
}

void LoadOwn(SSL_CTX* context, const TlsOptions& options, const std::optional<std::string>& cert_password) {
  if (options.certfile.empty()) return;
  NeedReadable("certfile", options.certfile);
  if (SSL_CTX_use_certificate_chain_file(context, options.certfile.c_str()) != 1) {
    Invalid("certfile " + options.certfile + " has no usable certificate in PEM format" + LastReason());
  }
  const std::string& keyfile = options.keyfile.empty() ? options.certfile : options.keyfile;
  NeedReadable("keyfile", keyfile);
  Password password{cert_password};
  SSL_CTX_set_default_passwd_cb(context, &Password::Answer);
  SSL_CTX_set_default_passwd_cb_userdata(context, &password);
  const bool loaded = SSL_CTX_use_PrivateKey_file(context, keyfile.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb(context, nullptr);
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  if (!loaded) {
    const unsigned long error = ERR_peek_error();
    if (ERR_GET_LIB(error) == ERR_LIB_X509 && ERR_GET_REASON(error) == X509_R_KEY_VALUES_MISMATCH) {
      Invalid("the key in " + keyfile + " is not the one of the certificate in " + options.certfile);
    }
    if (password.asked && !cert_password) {
      Invalid("the key in " + keyfile + " is encrypted: give its cert_password (CERT_PASSWORD)");
    }
    if (password.asked) {
      Invalid("the key in " + keyfile + " cannot be decrypted: wrong cert_password, or an old cipher" +
              LastReason());
    }
    Invalid("keyfile " + keyfile + " has no private key in PEM format" + LastReason());
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    Invalid("the key in " + keyfile + " is not the one of the certificate in " + options.certfile +
            LastReason());
  }
}

}  // namespace

std::shared_ptr<ssl_ctx_st> MakeTlsContext(const TlsOptions& options,
                                           const std::optional<std::string>& cert_password) {
  InitOpenssl();
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (!context) throw Error(Code::kInternal, "OpenSSL cannot be set up" + LastReason());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // One system call may bring several records.
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX_set_default_read_buffer_len(context.get(), 128 << 10);
  LoadTrusted(context.get(), options);
  LoadOwn(context.get(), options, cert_password);
  return context;
}

}  // namespace ignite_strategy
