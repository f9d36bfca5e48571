// What a failed TLS handshake means and what to do about it.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_TLS_ERRORS_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_TLS_ERRORS_H_

#include <string>

#include "native/wire/error.h"

struct x509_store_ctx_st;

namespace ignite_strategy {

// The first fault that checking the peer's certificates found.
struct CertificateProblem {
  int code = 0;  // X509_V_...
  int depth = 0;
  std::string subject;
  std::string issuer;
  std::string names;  // that the certificate is for, with commas
  std::string from, until;
};

CertificateProblem Inspect(x509_store_ctx_st* store);
// `host` is what was connected to.
Error Explain(const CertificateProblem& problem, const std::string& host);
// For an error of OpenSSL's queue: an alert of the peer, or something that is no TLS. `early`: the peer's
// application has not answered yet.
Error ExplainAlert(unsigned long error, bool early, bool has_certificate, const char* doing);
// What a server that closes after the handshake may object to.
std::string CertificateHint(bool has_certificate);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_TLS_ERRORS_H_
