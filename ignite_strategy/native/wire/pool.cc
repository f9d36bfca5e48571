#include "native/wire/pool.h"

#include <pthread.h>

#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "native/wire/socket.h"

namespace ignite_strategy {
namespace {

constexpr std::size_t kMaxIdlePerEndpoint = 8;
constexpr std::size_t kMaxIdle = 64;
constexpr std::chrono::seconds kMaxIdleAge{60};

struct Idle {
  std::unique_ptr<Connection> connection;
  Clock::time_point since;
};

}  // namespace

struct Pool::State {
  std::mutex mutex;
  unsigned long generation = ForkGeneration();
  std::map<Endpoint, std::vector<Idle>> idle;  // per endpoint, oldest first
  std::size_t count = 0;

  // Takes what is too old, or all that a parent process has opened. The caller destroys it outside the lock.
  std::vector<Idle> TakeStale() {
    const bool forked = generation != ForkGeneration();
    generation = ForkGeneration();
    const auto oldest = Clock::now() - kMaxIdleAge;
    std::vector<Idle> stale;
    for (auto entry = idle.begin(); entry != idle.end();) {
      std::vector<Idle>& list = entry->second;
      auto keep = list.begin();
      while (keep != list.end() && (forked || keep->since < oldest)) stale.push_back(std::move(*keep++));
      list.erase(list.begin(), keep);
      entry = list.empty() ? idle.erase(entry) : std::next(entry);
    }
    count -= stale.size();
    return stale;
  }

  std::unique_ptr<Connection> TakeNewest(const Endpoint& endpoint) {
    const auto entry = idle.find(endpoint);
    if (entry == idle.end()) return nullptr;
    std::unique_ptr<Connection> connection = std::move(entry->second.back().connection);
    entry->second.pop_back();
    if (entry->second.empty()) idle.erase(entry);
    --count;
    return connection;
  }
};

Lease::Lease(Pool* pool, std::unique_ptr<Connection> connection)
    : pool_(pool), connection_(std::move(connection)) {}
Lease::Lease(Lease&&) noexcept = default;

Lease::~Lease() {
  if (connection_) pool_->Return(std::move(connection_));
}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    if (connection_) pool_->Return(std::move(connection_));
    pool_ = other.pool_;
    connection_ = std::move(other.connection_);
  }
  return *this;
}

void Lease::Discard() { connection_.reset(); }

Pool::Pool() : state_(std::make_unique<State>()) {}
Pool::~Pool() = default;

Pool& Pool::Process() {
  // Never destroyed: TensorFlow's threads may outlive static destructors. A child must not inherit a held
  // lock.
  static Pool* process = [] {
    pthread_atfork([] { Process().state_->mutex.lock(); }, [] { Process().state_->mutex.unlock(); },
                   [] { Process().state_->mutex.unlock(); });
    return new Pool;
  }();
  return *process;
}

Lease Pool::Acquire(const Endpoint& endpoint, const Timeouts& timeouts, const Wait& wait) {
  while (true) {
    std::vector<Idle> stale;
    std::unique_ptr<Connection> connection;
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      stale = state_->TakeStale();
      connection = state_->TakeNewest(endpoint);
    }
    if (!connection) return Open(endpoint, timeouts, wait);
    if (!connection->Idle()) continue;  // the peer closed it meanwhile
    connection->set_timeouts(timeouts);
    return Lease(this, std::move(connection));
  }
}

Lease Pool::Open(const Endpoint& endpoint, const Timeouts& timeouts, const Wait& wait) {
  return Lease(this, Connection::Open(endpoint, timeouts, wait));
}

void Pool::Return(std::unique_ptr<Connection> connection) {
  if (!connection->Idle()) return;
  std::vector<Idle> stale;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  stale = state_->TakeStale();
  if (state_->count >= kMaxIdle) return;
  std::vector<Idle>& list = state_->idle[connection->endpoint()];
  if (list.size() >= kMaxIdlePerEndpoint) return;
  list.push_back({std::move(connection), Clock::now()});
  ++state_->count;
}

void Pool::Clear() {
  std::map<Endpoint, std::vector<Idle>> idle;
  const std::lock_guard<std::mutex> lock(state_->mutex);
  idle.swap(state_->idle);
  state_->count = 0;
}

}  // namespace ignite_strategy
