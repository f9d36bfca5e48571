#include "native/endpoint/client.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>

namespace ignite_strategy {
namespace endpoint {
namespace {

// The server keeps a thread for each.
constexpr std::size_t kMaxIdle = 8;
constexpr std::chrono::seconds kMaxIdleAge{60};

// Guards what is idle, of all clients: a child must not inherit a held lock.
std::mutex& IdleMutex() {
  static std::mutex* mutex = [] {
    pthread_atfork([] { IdleMutex().lock(); }, [] { IdleMutex().unlock(); }, [] { IdleMutex().unlock(); });
    return new std::mutex;
  }();
  return *mutex;
}

}  // namespace

Lease::~Lease() {
  if (connection_) client_->Return(std::move(connection_));
}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    if (connection_) client_->Return(std::move(connection_));
    client_ = other.client_;
    connection_ = std::move(other.connection_);
  }
  return *this;
}

Client::Client(std::vector<Endpoint> endpoints, std::string file_system)
    : endpoints_(std::move(endpoints)), file_system_(std::move(file_system)), generation_(ForkGeneration()) {}

// Takes what is too old, or all that a parent process has opened. The caller destroys it outside the lock.
std::vector<Client::Idle> Client::TakeStale() {
  const bool forked = generation_ != ForkGeneration();
  generation_ = ForkGeneration();
  const auto oldest = Clock::now() - kMaxIdleAge;
  auto keep = idle_.begin();
  while (keep != idle_.end() && (forked || keep->since < oldest)) ++keep;
  std::vector<Idle> stale(std::make_move_iterator(idle_.begin()), std::make_move_iterator(keep));
  idle_.erase(idle_.begin(), keep);
  return stale;
}

Lease Client::Connect(const Wait& wait, bool fresh) {
  while (!fresh) {
    std::vector<Idle> stale;
    std::unique_ptr<Connection> connection;
    {
      const std::lock_guard<std::mutex> lock(IdleMutex());
      stale = TakeStale();
      if (idle_.empty()) break;
      connection = std::move(idle_.back().connection);
      idle_.pop_back();
    }
    if (connection->Idle()) return Lease(this, std::move(connection));  // else the peer closed it meanwhile
  }
  const std::size_t first = preferred_.load();
  std::string failures;
  for (std::size_t i = 0; i < endpoints_.size(); ++i) {
    const std::size_t at = (first + i) % endpoints_.size();
    try {
      Lease lease(this, Connection::Open(endpoints_[at], file_system_, timeouts_, wait));
      preferred_.store(at);
      return lease;
    } catch (const Error& error) {
      if (error.code() != Code::kUnavailable || endpoints_.size() == 1) throw;
      failures += (failures.empty() ? "" : "; ") + error.message();
    }
  }
  throw Error(Code::kUnavailable, "no node answers: " + failures);
}

void Client::Return(std::unique_ptr<Connection> connection) {
  if (!connection->Idle()) return;
  std::vector<Idle> stale;
  const std::lock_guard<std::mutex> lock(IdleMutex());
  stale = TakeStale();
  if (idle_.size() >= kMaxIdle) return;
  idle_.push_back({std::move(connection), Clock::now()});
}

}  // namespace endpoint
}  // namespace ignite_strategy
