// Connections to one file system of IGFS: kept for reuse, found again on another node, retried.
#ifndef IGNITE_STRATEGY_NATIVE_ENDPOINT_CLIENT_H_
#define IGNITE_STRATEGY_NATIVE_ENDPOINT_CLIENT_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "native/endpoint/connection.h"

namespace ignite_strategy {
namespace endpoint {

class Client;

// Exclusive use of one connection, which goes back to its client if it is fit for the next user.
class Lease {
 public:
  Lease() = default;
  Lease(Client* client, std::unique_ptr<Connection> connection)
      : client_(client), connection_(std::move(connection)) {}
  ~Lease();
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&& other) noexcept;

  Connection* operator->() const { return connection_.get(); }
  Connection& operator*() const { return *connection_; }
  explicit operator bool() const { return connection_ != nullptr; }
  // Closes the connection, and with it its streams on the server.
  void Discard() { connection_.reset(); }

 private:
  Client* client_ = nullptr;
  std::unique_ptr<Connection> connection_;
};

// Thread-safe; outlives its leases. Idle connections are bounded in number and age; a child process after
// fork() never uses its parent's.
class Client {
 public:
  Client(std::vector<Endpoint> endpoints, std::string file_system);

  // The node that answered last is asked first; a node that does not answer is passed over. `fresh`: not a
  // connection that was idle.
  Lease Connect(const Wait& wait, bool fresh = false);

  // Runs `body(Connection&, bool again)`, and again on a new connection if the first one broke: one that died
  // while it was idle is not the caller's concern. What `body` asks for may then have been done already. Also
  // again, a bounded number of times, while others change the same entries, and while the server fails for a
  // reason that may pass.
  // Returns the connection, for those who go on with it.
  template <typename Body>
  Lease Keep(const Wait& wait, Body body) {
    int collisions = 0, failures = 0;
    for (int attempt = 1;; ++attempt) {
      Lease lease = Connect(wait, attempt > 1);
      try {
        body(*lease, attempt > 1 || failures > 0);
        return lease;
      } catch (const ServerError& error) {
        if (error.MayPass()) {
          if (++failures > kMostFailures) throw;
          // Longer from one to the next: 1.5 s for all.
          wait.Sleep(Millis(25 << failures), "waiting for the server to recover");
        } else if (!error.IsConcurrent() || ++collisions > kMostCollisions) {
          throw;
        }
        --attempt;
      } catch (const Error& error) {
        lease.Discard();
        if (attempt >= kAttempts || error.code() != Code::kUnavailable) throw;
      }
    }
  }

  // The same for a single request; returns what `body` does.
  template <typename Body>
  auto Run(const Wait& wait, Body body) -> decltype(body(std::declval<Connection&>(), false)) {
    using Result = decltype(body(std::declval<Connection&>(), false));
    if constexpr (std::is_void_v<Result>) {
      Keep(wait, body);
    } else {
      std::optional<Result> result;
      Keep(wait, [&](Connection& connection, bool again) { result.emplace(body(connection, again)); });
      return std::move(*result);
    }
  }

  // Called by Lease.
  void Return(std::unique_ptr<Connection> connection);

 private:
  static constexpr int kAttempts = 2;
  static constexpr int kMostCollisions = 50;
  static constexpr int kMostFailures = 5;

  struct Idle {
    std::unique_ptr<Connection> connection;
    Clock::time_point since;
  };

  std::vector<Idle> TakeStale();

  const std::vector<Endpoint> endpoints_;
  const std::string file_system_;
  const Timeouts timeouts_;
  std::atomic<std::size_t> preferred_{0};
  unsigned long generation_;  // of the process that opened the idle ones
  std::vector<Idle> idle_;    // oldest first
};

}  // namespace endpoint
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_ENDPOINT_CLIENT_H_
