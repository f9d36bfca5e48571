// TLS 1.2 and 1.3 over a non-blocking socket, with the OpenSSL inside our shared objects. Knows nothing of
// waiting: whoever calls polls the socket and calls again.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_TLS_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_TLS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "native/wire/security.h"

struct ssl_st;

namespace ignite_strategy {

// Reads the files. Throws Error(kInvalidArgument) naming the file that cannot be used, and why.
std::shared_ptr<ssl_ctx_st> MakeTlsContext(const TlsOptions& options,
                                           const std::optional<std::string>& cert_password);

class TlsSession {
 public:
  enum class Need { kNothing, kReadable, kWritable };  // what the socket must be before the call is repeated

  // `fd` stays the caller's. `host` is what the peer's certificate must name.
  TlsSession(int fd, const Security& security, const std::string& host);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Errors: kUnauthenticated (a certificate was refused, by either side), kFailedPrecondition (no TLS there,
  // or none in common), kUnavailable (the peer is gone).
  Need Handshake();
  // Sets `*done`; 0 together with what is needed for more.
  Need Read(void* data, std::size_t size, std::size_t* done);
  Need Write(const void* data, std::size_t size, std::size_t* done);
  // Nothing of the application's has arrived and the peer has not closed.
  bool Quiet();
  // Tells the peer that nothing more comes, if the socket takes it at once.
  void Shutdown() noexcept;

 private:
  struct Inspection;  // what checking the peer's certificates found
  Need After(int result, const char* doing);
  [[noreturn]] void Fail(unsigned long error, int system_error, const char* doing);

  std::shared_ptr<ssl_ctx_st> context_;
  std::unique_ptr<Inspection> inspection_;
  ssl_st* ssl_ = nullptr;
  std::string host_;
  bool has_certificate_;
  bool established_ = false;
  bool heard_ = false;  // the peer's application has answered: no alert of a handshake can come any more
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_TLS_H_
