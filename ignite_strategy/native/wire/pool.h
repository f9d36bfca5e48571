// Connections of this process, kept for reuse: a scan or a file pays the handshake once per node, not once
// per call.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_POOL_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_POOL_H_

#include <memory>

#include "native/wire/connection.h"

namespace ignite_strategy {

class Pool;

// Exclusive use of one connection. Returned to the pool on destruction unless it is broken, has a request
// outstanding, or Discard() was called.
class Lease {
 public:
  Lease() = default;
  Lease(Pool* pool, std::unique_ptr<Connection> connection);
  ~Lease();
  Lease(Lease&&) noexcept;
  Lease& operator=(Lease&&) noexcept;

  Connection* operator->() const { return connection_.get(); }
  Connection& operator*() const { return *connection_; }
  explicit operator bool() const { return connection_ != nullptr; }
  void Discard();

 private:
  Pool* pool_ = nullptr;
  std::unique_ptr<Connection> connection_;
};

// Thread-safe. Idle connections are bounded in number and age; a child process after fork() never uses its
// parent's.
class Pool {
 public:
  static Pool& Process();
  // An idle connection to `endpoint` that is still open, else a new one.
  Lease Acquire(const Endpoint& endpoint, const Timeouts& timeouts, const Wait& wait);
  // Always a new connection: after an idle one turned out to be dead.
  Lease Open(const Endpoint& endpoint, const Timeouts& timeouts, const Wait& wait);
  void Return(std::unique_ptr<Connection> connection);
  void Clear();

 private:
  Pool();
  ~Pool();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_POOL_H_
