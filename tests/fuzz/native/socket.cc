// Sockets of the one peer there is; nothing ever waits.
#include "native/wire/socket.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "native/wire/error.h"
#include "native/wire/tls.h"
#include "tests/fuzz/native/peer.h"

namespace ignite_strategy {
namespace {

struct Stream {
  bool greeted = false;
  Bytes arrived;
  std::size_t taken = 0;
};

std::map<int, Stream>& Streams() {
  static auto* streams = new std::map<int, Stream>;
  return *streams;
}

int next_stream = 0;

[[noreturn]] void Gone(const std::string& where, const char* doing) {
  throw Error(Code::kUnavailable, where + ": the server closed the connection while " + doing);
}

}  // namespace

std::string FormatEndpoint(const std::string& host, std::uint16_t port) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

unsigned long ForkGeneration() noexcept { return 0; }

Socket Socket::Connect(const std::string& host, std::uint16_t port, const Wait& wait) {
  Socket socket;
  socket.where_ = socket.peer_ = FormatEndpoint(host, port);
  if (Peer::Current() == nullptr) Gone(socket.where_, "connecting");
  socket.fd_ = next_stream++;
  Streams()[socket.fd_];
  return socket;
}

Socket::Socket() = default;
Socket::~Socket() { Close(); }

Socket::Socket(Socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), where_(std::move(other.where_)), peer_(std::move(other.peer_)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
    where_ = std::move(other.where_);
    peer_ = std::move(other.peer_);
  }
  return *this;
}

void Socket::Close() noexcept {
  if (fd_ >= 0) Streams().erase(fd_);
  fd_ = -1;
}

void Socket::StartTls(const Security& security, const std::string& host, const Wait& wait) {
  throw Error(Code::kUnimplemented, "no TLS here");
}

void Socket::Write(const iovec* parts, int count, const Wait& wait, const char* doing) {
  if (fd_ < 0 || Peer::Current() == nullptr) Gone(where_, doing);
  Bytes request;
  for (int i = 0; i < count; ++i) {
    const auto* begin = static_cast<const std::uint8_t*>(parts[i].iov_base);
    request.insert(request.end(), begin, begin + parts[i].iov_len);
  }
  Stream& stream = Streams()[fd_];
  const Bytes response = Peer::Current()->Respond(request, !std::exchange(stream.greeted, true));
  stream.arrived.erase(stream.arrived.begin(),
                       stream.arrived.begin() + static_cast<std::ptrdiff_t>(std::exchange(stream.taken, 0)));
  stream.arrived.insert(stream.arrived.end(), response.begin(), response.end());
}

std::size_t Socket::TryRead(void* data, std::size_t size, const char* doing) {
  if (fd_ < 0) Gone(where_, doing);
  Stream& stream = Streams()[fd_];
  const std::size_t count = std::min(size, stream.arrived.size() - stream.taken);
  if (count == 0) Gone(where_, doing);
  std::memcpy(data, stream.arrived.data() + stream.taken, count);
  stream.taken += count;
  return count;
}

void Socket::AwaitReadable(const Wait& wait, const char* doing) { Gone(where_, doing); }

bool Socket::Quiet() const {
  const auto stream = Streams().find(fd_);
  return stream != Streams().end() && stream->second.taken == stream->second.arrived.size();
}

}  // namespace ignite_strategy
