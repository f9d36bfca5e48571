#include "native/wire/tls_errors.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>

namespace ignite_strategy {
namespace {

constexpr std::size_t kMaxNames = 400;

// Text of a certificate comes from the peer: no control characters reach a log.
std::string Clean(const char* data, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    const unsigned char byte = static_cast<unsigned char>(data[i]);
    text += byte < 0x20 || byte == 0x7F ? '?' : static_cast<char>(byte);
  }
  return text;
}

template <typename Print>
std::string Printed(Print print) {
  std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), &BIO_free);
  if (!out) return "";
  print(out.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(out.get(), &data);
  return size > 0 ? Clean(data, static_cast<std::size_t>(size)) : "";
}

std::string NameText(const X509_NAME* name) {
  return Printed(
      [&](BIO* out) { X509_NAME_print_ex(out, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB); });
}

std::string AddressText(const ASN1_OCTET_STRING* bytes) {
  char text[INET6_ADDRSTRLEN] = "";
  const int size = ASN1_STRING_length(bytes);
  inet_ntop(size == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(bytes), text, sizeof text);
  return size == 4 || size == 16 ? text : "";
}

std::string Names(X509* certificate) {
  std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  std::string list;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()) && list.size() < kMaxNames; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    std::string text;
    if (name->type == GEN_DNS) {
      text = Clean(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                   static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      text = AddressText(name->d.iPAddress);
    }
    if (!text.empty()) list += (list.empty() ? "" : ", ") + text;
  }
  return list;
}

}  // namespace

CertificateProblem Inspect(X509_STORE_CTX* store) {
  CertificateProblem problem;
  problem.code = X509_STORE_CTX_get_error(store);
  problem.depth = X509_STORE_CTX_get_error_depth(store);
  X509* certificate = X509_STORE_CTX_get_current_cert(store);
  if (certificate == nullptr) return problem;
  problem.subject = NameText(X509_get_subject_name(certificate));
  problem.issuer = NameText(X509_get_issuer_name(certificate));
  problem.names = Names(certificate);
  problem.from = Printed([&](BIO* out) { ASN1_TIME_print(out, X509_get0_notBefore(certificate)); });
  problem.until = Printed([&](BIO* out) { ASN1_TIME_print(out, X509_get0_notAfter(certificate)); });
  return problem;
}

Error Explain(const CertificateProblem& problem, const std::string& host) {
  std::string what = "the server's certificate is not accepted: ";
  const std::string whose = "\"" + problem.subject + "\"";
  switch (problem.code) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      what += whose + " has expired on " + problem.until + "; renew it (or set this host's clock)";
      break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      what += whose + " is not valid before " + problem.from + "; check the clocks of both hosts";
      break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      what += "wrong host: it is not for " + host + " but for " +
              (problem.names.empty() ? whose + " (it has no subject alternative name)" : problem.names) +
              "; connect by one of its names, or add " + host +
              " to it (check_hostname=False, CHECK_HOSTNAME=0, accepts any name)";
      break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      what +=
          "unknown CA: " + whose + " was issued by \"" + problem.issuer +
          "\", which is not trusted here; name the PEM file of that CA with cafile= (IGNITE_DATASET_CAFILE, "
          "IGFS_CAFILE or IGNITE_CAFILE)";
      break;
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      what += "unknown CA: the signature of " + whose +
              " was not made by the trusted CA of that name; check that cafile= is the right one";
      break;
    default:
      what += whose + ": " + X509_verify_cert_error_string(problem.code);
  }
  return Error(Code::kUnauthenticated, what);
}

std::string CertificateHint(bool has_certificate) {
  return has_certificate
             ? " (the server may not trust the CA of the client certificate: its trust store decides)"
             : " (the server may demand a client certificate, sslClientAuth: give certfile= and "
               "keyfile=)";
}

Error ExplainAlert(unsigned long error, bool early, bool has_certificate, const char* doing) {
  const char* text = ERR_reason_error_string(error);
  const std::string reason = text == nullptr ? "unknown error" : text;
  const int code = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  switch (code) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return Error(Code::kUnauthenticated,
                   "the server demands a client certificate: give certfile= and keyfile=");
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
      return Error(Code::kUnauthenticated,
                   has_certificate ? "the server refused the client certificate (" + reason +
                                         "): it must be valid and issued by a CA in the server's trust store"
                                   : "the server demands a client certificate (" + reason +
                                         "): give certfile= and keyfile=");
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
      if (!has_certificate && early) {
        return Error(
            Code::kUnauthenticated,
            "the server ended the TLS handshake (" + reason +
                "): it demands a client certificate (certfile=, keyfile=), or has no cipher in common");
      }
      break;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_LENGTH_MISMATCH:
      if (!early) break;
      return Error(Code::kFailedPrecondition,
                   "the server does not speak TLS on this port (" + reason +
                       "): leave TLS off, or set sslEnabled=true in the node's client connector");
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
      return Error(
          Code::kFailedPrecondition,
          "the server offers only versions of TLS older than 1.2, which are refused (" + reason + ")");
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_TLSV1_ALERT_INSUFFICIENT_SECURITY:
      break;
    default:
      break;
  }
  const Code status = early ? Code::kFailedPrecondition : Code::kUnavailable;
  return Error(status, "TLS failed " + std::string(doing) + ": " + reason);
}

}  // namespace ignite_strategy
