// The one file that talks to the operating system's sockets.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_SOCKET_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_SOCKET_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "native/wire/wait.h"

namespace ignite_strategy {

// host:port, IPv6 in brackets.
std::string FormatEndpoint(const std::string& host, std::uint16_t port);

class Security;
class TlsSession;

// A connected TCP socket, IPv4 or IPv6, plain or with TLS, non-blocking underneath. Errors name the endpoint
// and what was being done. Moves only; a socket that a fork() carried into a child is closed there and
// refuses to work.
class Socket {
 public:
  // Tries every address of `host` in turn, each with its share of the time that is left. Errors:
  // kUnavailable, kDeadlineExceeded, kInvalidArgument (not a host name), kResourceExhausted (no more
  // descriptors).
  static Socket Connect(const std::string& host, std::uint16_t port, const Wait& wait);

  Socket();
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  // From here on everything is encrypted, once the peer has shown that it is `host`. Errors: see
  // TlsSession::Handshake.
  void StartTls(const Security& security, const std::string& host, const Wait& wait);
  // Writes everything with as few system calls as the kernel allows; throws if it cannot.
  void Write(const iovec* parts, int count, const Wait& wait, const char* doing);
  // Takes what has arrived, at most `size` bytes, without waiting; 0 = nothing yet. The peer's close is
  // kUnavailable.
  std::size_t TryRead(void* data, std::size_t size, const char* doing);
  // Waits for at most one slice until TryRead may succeed.
  void AwaitReadable(const Wait& wait, const char* doing);
  // Open, and nothing has arrived: an idle connection that can be used again.
  bool Quiet() const;
  void Close() noexcept;

  bool open() const { return fd_ >= 0; }
  bool encrypted() const { return tls_ != nullptr; }
  // The numeric address that answered, with port.
  const std::string& peer() const { return peer_; }

 private:
  void NeedUsable(const char* doing) const;
  Millis Slice(const Wait& wait, const char* doing) const;
  void WriteEncrypted(const iovec* parts, int count, const Wait& wait, const char* doing);
  void WriteRecord(const std::uint8_t* data, std::size_t size, const Wait& wait, const char* doing);
  // Runs `step` of the TLS session with the endpoint and `doing` in what it throws.
  template <typename Step>
  auto Encrypted(const char* doing, Step step) const;

  int fd_ = -1;
  unsigned long generation_ = 0;  // of the process that opened it, see socket.cc
  std::string where_;             // host:port as asked for
  std::string peer_;
  std::unique_ptr<TlsSession> tls_;
  bool read_needs_write_ = false;  // TLS has something to say before it can read on
};

// Counts fork()s up to this process; a resource opened under another count belongs to the parent.
unsigned long ForkGeneration() noexcept;

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_SOCKET_H_
