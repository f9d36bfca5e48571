#include "native/wire/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "native/wire/error.h"
#include "native/wire/tls_errors.h"

namespace ignite_strategy {
namespace {

// OpenSSL's own socket BIO writes with write(), which raises SIGPIPE when the peer is gone.
int SendBio(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  const ssize_t sent = send(fd, data, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int ReceiveBio(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
  const ssize_t got = recv(fd, data, static_cast<std::size_t>(size), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long ControlBio(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO* NewBio(int fd) {
  static BIO_METHOD* method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    BIO_meth_set_write(made, SendBio);
    BIO_meth_set_read(made, ReceiveBio);
    BIO_meth_set_ctrl(made, ControlBio);
    return made;
  }();
  BIO* bio = BIO_new(method);
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(bio, 1);
  return bio;
}

// The name that certificates are compared with: no zone of an IPv6 address, no dot at the end.
std::string NameOf(std::string host) {
  if (host.find(':') != std::string::npos) return host.substr(0, host.find('%'));
  if (host.size() > 1 && host.back() == '.') host.pop_back();
  return host;
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 || inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

struct TlsSession::Inspection {
  CertificateProblem problem;

  static int Index() {
    static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
  }
  // Called for every certificate of the chain, and for each fault. Notes the first and changes nothing.
  static int Verify(int good, X509_STORE_CTX* store) {
    if (good == 1) return 1;
    const auto* ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* self = static_cast<Inspection*>(SSL_get_ex_data(ssl, Index()));
    if (self->problem.code == X509_V_OK) self->problem = Inspect(store);
    return 0;
  }
};

TlsSession::TlsSession(int fd, const Security& security, const std::string& host)
    : context_(security.Context()),
      inspection_(std::make_unique<Inspection>()),
      host_(NameOf(host)),
      has_certificate_(!security.tls().certfile.empty()) {
  ERR_clear_error();
  ssl_ = SSL_new(context_.get());
  if (ssl_ == nullptr) throw Error(Code::kInternal, "OpenSSL cannot make a session");
  SSL_set_ex_data(ssl_, Inspection::Index(), inspection_.get());
  BIO* bio = NewBio(fd);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_connect_state(ssl_);
  const TlsOptions& options = security.tls();
  SSL_set_verify(ssl_, options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
                 options.verify ? &Inspection::Verify : nullptr);
  const bool address = IsAddress(host_);
  if (!address) SSL_set_tlsext_host_name(ssl_, host_.c_str());
  if (!options.verify || !options.check_hostname) return;
  X509_VERIFY_PARAM* parameters = SSL_get0_param(ssl_);
  X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const int set = address ? X509_VERIFY_PARAM_set1_ip_asc(parameters, host_.c_str())
                          : X509_VERIFY_PARAM_set1_host(parameters, host_.c_str(), host_.size());
  if (set != 1) {
    SSL_free(std::exchange(ssl_, nullptr));
    throw Error(Code::kInvalidArgument, "'" + host_ + "' is no name that a certificate can have");
  }
}

TlsSession::~TlsSession() { SSL_free(ssl_); }

TlsSession::Need TlsSession::Handshake() {
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(ssl_);
  if (result == 1) {
    established_ = true;
    return Need::kNothing;
  }
  return After(result, "in the TLS handshake");
}

TlsSession::Need TlsSession::Read(void* data, std::size_t size, std::size_t* done) {
  ERR_clear_error();
  errno = 0;
  *done = 0;
  const int result = SSL_read_ex(ssl_, data, size, done);
  if (result == 1) {
    heard_ = true;
    return Need::kNothing;
  }
  return After(result, "reading");
}

TlsSession::Need TlsSession::Write(const void* data, std::size_t size, std::size_t* done) {
  ERR_clear_error();
  errno = 0;
  *done = 0;
  const int result = SSL_write_ex(ssl_, data, size, done);
  return result == 1 ? Need::kNothing : After(result, "writing");
}

bool TlsSession::Quiet() {
  ERR_clear_error();
  errno = 0;
  char byte;
  std::size_t got = 0;
  // Takes what the library itself has to read, such as the tickets that follow a handshake.
  if (SSL_peek_ex(ssl_, &byte, 1, &got) == 1) return false;
  return SSL_get_error(ssl_, 0) == SSL_ERROR_WANT_READ;
}

void TlsSession::Shutdown() noexcept {
  if (!established_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);
  ERR_clear_error();
}

TlsSession::Need TlsSession::After(int result, const char* doing) {
  const int system_error = errno;
  switch (SSL_get_error(ssl_, result)) {
    case SSL_ERROR_WANT_READ:
      return Need::kReadable;
    case SSL_ERROR_WANT_WRITE:
      return Need::kWritable;
    case SSL_ERROR_ZERO_RETURN:
      established_ = false;
      throw Error(Code::kUnavailable, "the peer closed the connection");
    default: {
      const unsigned long error = ERR_peek_error();
      ERR_clear_error();
      Fail(error, system_error, doing);
    }
  }
}

void TlsSession::Fail(unsigned long error, int system_error, const char* doing) {
  const bool in_handshake = !established_;
  established_ = false;  // nothing more can be said to this peer
  if (inspection_->problem.code != X509_V_OK) throw Explain(inspection_->problem, host_);
  const bool closed =
      ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
  if (error == 0 || closed) {
    const std::string what = closed || system_error == 0 ? "the peer closed the connection"
                                                         : std::string(std::strerror(system_error));
    if (!in_handshake) {
      // A server that does not like the client's certificate may close after a TLS 1.3 handshake.
      throw Error(
          Code::kUnavailable,
          what + (heard_ ? "" : " right after the TLS handshake" + CertificateHint(has_certificate_)));
    }
    throw Error(
        Code::kUnavailable,
        what + " " + doing +
            " (an Ignite client port without TLS closes like this: leave TLS off, or set sslEnabled=true "
            "in the node's client connector; a node that still starts does too)");
  }
  throw ExplainAlert(error, in_handshake || !heard_, has_certificate_, doing);
}

}  // namespace ignite_strategy
