#include "native/wire/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "native/wire/error.h"
#include "native/wire/resolve.h"
#include "native/wire/security.h"
#include "native/wire/tls.h"

namespace ignite_strategy {
namespace {

// The descriptors of all open sockets. A child closes its copies at fork(): otherwise the server would not
// notice when the parent closes a connection, and would keep its cursors.
class OpenSockets {
 public:
  static OpenSockets& Process() {
    static OpenSockets* process = new OpenSockets;  // never destroyed: threads may outlive static destructors
    return *process;
  }
  void Add(int fd) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fds_.insert(fd);
  }
  void Close(int fd) {
    const std::lock_guard<std::mutex> lock(mutex_);
    fds_.erase(fd);
    close(fd);
  }
  unsigned long generation() const noexcept { return generation_.load(std::memory_order_relaxed); }

 private:
  OpenSockets() {
    pthread_atfork([] { Process().mutex_.lock(); }, [] { Process().mutex_.unlock(); },
                   [] { Process().InChild(); });
  }
  void InChild() {
    for (const int fd : fds_) close(fd);
    fds_.clear();
    generation_.fetch_add(1, std::memory_order_relaxed);
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::set<int> fds_;
  std::atomic<unsigned long> generation_{0};
};

// Closes a descriptor that has not become a Socket.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {
    if (fd_ >= 0) OpenSockets::Process().Add(fd_);
  }
  ~Descriptor() {
    if (fd_ >= 0) OpenSockets::Process().Close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Waits for `events` until something happened or `slice` is over; true if something happened.
bool Poll(int fd, short events, Millis slice) {
  pollfd entry{fd, events, 0};
  const int ready = poll(&entry, 1, static_cast<int>(slice.count()));
  if (ready >= 0) return ready > 0;
  if (errno == EINTR || errno == EAGAIN) return false;  // the next slice's check sees the signal
  throw Error(Code::kInternal, std::string("poll: ") + std::strerror(errno));
}

// A loopback port with no listener can connect to itself, when the kernel picks that very port as the local
// one.
bool ConnectedToItself(int fd, const Address& address) {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0 || size != address.size) return false;
  if (address.family == AF_INET) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(local);
    const auto& b = reinterpret_cast<const sockaddr_in&>(address.storage);
    return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  const auto& a = reinterpret_cast<const sockaddr_in6&>(local);
  const auto& b = reinterpret_cast<const sockaddr_in6&>(address.storage);
  return a.sin6_port == b.sin6_port && std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
}

void SetOptions(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);  // a peer that lost its power is noticed some day
}

// Connects to one address. Returns the errno of a failure, 0 on success; throws only what `wait` throws.
int ConnectOne(int fd, const Address& address, const Wait& wait) {
  SetOptions(fd);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    while (!Poll(fd, POLLOUT, wait.NextSlice("connecting"))) {
    }
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    if (error != 0) return error;
  }
  return ConnectedToItself(fd, address) ? ECONNREFUSED : 0;
}

std::string Because(int error) { return std::strerror(error); }

}  // namespace

std::string FormatEndpoint(const std::string& host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

unsigned long ForkGeneration() noexcept { return OpenSockets::Process().generation(); }

Socket Socket::Connect(const std::string& host, std::uint16_t port, const Wait& wait) {
  const std::string where = FormatEndpoint(host, port);
  std::vector<Address> addresses;
  try {
    addresses = Resolve(host, port, wait);
  } catch (const Error& error) {
    if (error.code() != Code::kDeadlineExceeded) throw;
    throw Error(error.code(), where + ": " + error.message());
  }
  std::string failures;
  bool all_late = true;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const Address& address = addresses[i];
    Descriptor descriptor(socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    int error = descriptor.get() < 0 ? errno : 0;
    if (error == EMFILE || error == ENFILE) {
      throw Error(Code::kResourceExhausted, where + ": cannot connect: " + Because(error));
    }
    // An address that swallows packets must not use up the time of those after it.
    Wait share = wait;
    const auto left = std::chrono::duration_cast<Millis>(wait.deadline - Clock::now());
    if (i + 1 < addresses.size()) share = wait.Within(left / static_cast<int>(addresses.size() - i));
    if (error == 0) {
      try {
        error = ConnectOne(descriptor.get(), address, share);
      } catch (const Error& late) {
        if (late.code() != Code::kDeadlineExceeded) throw;
        error = ETIMEDOUT;
      }
    }
    if (error == 0) {
      Socket socket;
      socket.fd_ = descriptor.Release();
      socket.generation_ = ForkGeneration();
      socket.where_ = where;
      socket.peer_ = address.ToString();
      return socket;
    }
    all_late = all_late && error == ETIMEDOUT;
    const std::string name = address.ToString();
    failures += (failures.empty() ? "" : "; ") + (name == where ? "" : name + ": ") + Because(error);
  }
  throw Error(all_late ? Code::kDeadlineExceeded : Code::kUnavailable,
              where + ": cannot connect: " + failures);
}

Socket::Socket() = default;
Socket::~Socket() { Close(); }

Socket::Socket(Socket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      generation_(other.generation_),
      where_(std::move(other.where_)),
      peer_(std::move(other.peer_)),
      tls_(std::move(other.tls_)),
      read_needs_write_(other.read_needs_write_) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
    generation_ = other.generation_;
    where_ = std::move(other.where_);
    peer_ = std::move(other.peer_);
    tls_ = std::move(other.tls_);
    read_needs_write_ = other.read_needs_write_;
  }
  return *this;
}

void Socket::Close() noexcept {
  const int fd = std::exchange(fd_, -1);
  // After a fork the number may already be another file's.
  const bool ours = fd >= 0 && generation_ == ForkGeneration();
  if (ours && tls_) tls_->Shutdown();
  tls_.reset();
  if (ours) OpenSockets::Process().Close(fd);
}

void Socket::NeedUsable(const char* doing) const {
  if (fd_ < 0) throw Error(Code::kUnavailable, where_ + ": the connection is closed, while " + doing);
  if (generation_ != ForkGeneration()) {
    throw Error(Code::kUnavailable,
                where_ +
                    ": the connection belongs to the parent process, open a new one after fork(), while " +
                    doing);
  }
}

// The next slice of `wait`, with the endpoint in the text of what it throws.
Millis Socket::Slice(const Wait& wait, const char* doing) const {
  try {
    return wait.NextSlice(doing);
  } catch (const Error& error) {
    throw Error(error.code(), where_ + ": " + error.message());
  }
}

template <typename Step>
auto Socket::Encrypted(const char* doing, Step step) const {
  try {
    return step(*tls_);
  } catch (const Error& error) {
    throw Error(error.code(), where_ + ": " + error.message() + ", while " + doing);
  }
}

void Socket::StartTls(const Security& security, const std::string& host, const Wait& wait) {
  constexpr const char* kDoing = "doing the TLS handshake";
  NeedUsable(kDoing);
  try {
    tls_ = std::make_unique<TlsSession>(fd_, security, host);
  } catch (const Error& error) {
    throw Error(error.code(), where_ + ": TLS cannot be used: " + error.message());
  }
  while (true) {
    const TlsSession::Need need = Encrypted(kDoing, [](TlsSession& tls) { return tls.Handshake(); });
    if (need == TlsSession::Need::kNothing) return;
    Poll(fd_, need == TlsSession::Need::kWritable ? POLLOUT : POLLIN, Slice(wait, kDoing));
  }
}

void Socket::WriteRecord(const std::uint8_t* data, std::size_t size, const Wait& wait, const char* doing) {
  while (size > 0) {
    std::size_t done = 0;
    const TlsSession::Need need =
        Encrypted(doing, [&](TlsSession& tls) { return tls.Write(data, size, &done); });
    data += done;
    size -= done;
    if (need == TlsSession::Need::kNothing) continue;
    Poll(fd_, need == TlsSession::Need::kWritable ? POLLOUT : POLLIN, Slice(wait, doing));
  }
}

// Whole records: a short request is one, whatever parts it was handed over in.
void Socket::WriteEncrypted(const iovec* parts, int count, const Wait& wait, const char* doing) {
  constexpr std::size_t kRecord = 16 << 10;
  std::vector<std::uint8_t> record;
  for (int i = 0; i < count; ++i) {
    const auto* data = static_cast<const std::uint8_t*>(parts[i].iov_base);
    std::size_t left = parts[i].iov_len;
    while (left > 0) {
      const std::size_t step = std::min(left, kRecord - record.size());
      record.insert(record.end(), data, data + step);
      data += step;
      left -= step;
      if (record.size() < kRecord) continue;
      WriteRecord(record.data(), record.size(), wait, doing);
      record.clear();
    }
  }
  WriteRecord(record.data(), record.size(), wait, doing);
}

void Socket::Write(const iovec* parts, int count, const Wait& wait, const char* doing) {
  NeedUsable(doing);
  if (tls_) return WriteEncrypted(parts, count, wait, doing);
  std::vector<iovec> rest(parts, parts + count);
  msghdr message{};
  message.msg_iov = rest.data();
  message.msg_iovlen = rest.size();
  while (message.msg_iovlen > 0) {
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) {
        throw Error(Code::kUnavailable, where_ + ": " + Because(errno) + " while " + doing);
      }
      Poll(fd_, POLLOUT, Slice(wait, doing));
      continue;
    }
    auto done = static_cast<std::size_t>(sent);
    while (message.msg_iovlen > 0 && done >= message.msg_iov->iov_len) {
      done -= message.msg_iov->iov_len;
      ++message.msg_iov;
      --message.msg_iovlen;
    }
    if (message.msg_iovlen > 0) {
      message.msg_iov->iov_base = static_cast<char*>(message.msg_iov->iov_base) + done;
      message.msg_iov->iov_len -= done;
    }
  }
}

std::size_t Socket::TryRead(void* data, std::size_t size, const char* doing) {
  NeedUsable(doing);
  if (tls_) {
    std::size_t got = 0;
    const TlsSession::Need need =
        Encrypted(doing, [&](TlsSession& tls) { return tls.Read(data, size, &got); });
    read_needs_write_ = need == TlsSession::Need::kWritable;
    return got;
  }
  while (true) {
    const ssize_t got = recv(fd_, data, size, 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) throw Error(Code::kUnavailable, where_ + ": the peer closed the connection while " + doing);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) throw Error(Code::kUnavailable, where_ + ": " + Because(errno) + " while " + doing);
  }
}

void Socket::AwaitReadable(const Wait& wait, const char* doing) {
  Poll(fd_, read_needs_write_ ? POLLOUT : POLLIN, Slice(wait, doing));
}

bool Socket::Quiet() const {
  if (fd_ < 0 || generation_ != ForkGeneration()) return false;
  if (tls_) return tls_->Quiet();
  pollfd entry{fd_, POLLIN | POLLRDHUP, 0};
  return poll(&entry, 1, 0) == 0;
}

}  // namespace ignite_strategy
