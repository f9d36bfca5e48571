// How a pass reaches the nodes.
#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "native/scan/watch.h"

namespace ignite_strategy {
namespace {

// A node's own addresses are tried no longer than this before its rows come through another node, and not
// again for a while: nodes may announce addresses that mean nothing here.
constexpr Millis kDirectLimit{1500};
constexpr std::chrono::seconds kAvoidFor{60};
constexpr std::size_t kMaxAvoided = 1024;

struct Avoided {
  std::mutex mutex;
  std::map<std::string, Clock::time_point> until;  // by node id
};

// Never destroyed: a pass may still end while the process exits.
Avoided& Unreachable() {
  static auto* avoided = new Avoided;
  return *avoided;
}

bool Avoid(const std::string& node) {
  Avoided& avoided = Unreachable();
  const std::lock_guard<std::mutex> lock(avoided.mutex);
  const auto found = avoided.until.find(node);
  return found != avoided.until.end() && Clock::now() < found->second;
}

void SetUnreachable(const std::string& node) {
  Avoided& avoided = Unreachable();
  const std::lock_guard<std::mutex> lock(avoided.mutex);
  if (avoided.until.size() >= kMaxAvoided) avoided.until.clear();
  avoided.until[node] = Clock::now() + kAvoidFor;
}

Lease Connect(const Endpoint& endpoint, const Timeouts& timeouts, bool fresh, const Wait& wait) {
  return fresh ? Pool::Process().Open(endpoint, timeouts, wait)
               : Pool::Process().Acquire(endpoint, timeouts, wait);
}

bool Retryable(const Error& error) {
  return error.code() == Code::kUnavailable || error.code() == Code::kDeadlineExceeded;
}

// A node announces addresses that its certificate need not have, and names that may be another's here. The
// server's own refusal of a user has a status.
bool WrongCertificate(const Error& error) {
  return error.code() == Code::kUnauthenticated && error.server_status() == 0;
}

}  // namespace

Lease AnyConnection(const ScanConfig& config, const CacheTopology* topology, std::size_t first, bool fresh,
                    const Wait& wait, std::size_t* answered) {
  std::optional<Error> failure;
  for (std::size_t i = 0; i < config.endpoints.size(); ++i) {
    const std::size_t at = (first + i) % config.endpoints.size();
    try {
      Lease lease = Connect(config.endpoints[at], config.timeouts, fresh, wait);
      *answered = at;
      return lease;
    } catch (const Error& error) {
      if (!Retryable(error)) throw;
      if (!failure) failure = error;
    }
  }
  if (topology != nullptr) {
    for (const CacheNode& node : topology->nodes) {
      if (Lease lease = DirectConnection(config, node, fresh, wait)) return lease;
    }
  }
  throw *failure;
}

Lease DirectConnection(const ScanConfig& config, const CacheNode& node, bool fresh, const Wait& wait) {
  if (node.endpoints.empty() || Avoid(node.id)) return Lease();
  // An address that the user gave is known to mean something here.
  std::vector<Endpoint> endpoints;
  for (const Endpoint& endpoint : node.endpoints)
    endpoints.push_back(config.endpoints.front().At(endpoint.host, endpoint.port));
  std::stable_partition(endpoints.begin(), endpoints.end(), [&](const Endpoint& endpoint) {
    return std::find(config.endpoints.begin(), config.endpoints.end(), endpoint) != config.endpoints.end();
  });
  Timeouts timeouts = config.timeouts;
  timeouts.connect = std::min(timeouts.connect, kDirectLimit);
  const auto deadline = Clock::now() + kDirectLimit;
  for (const Endpoint& endpoint : endpoints) {
    if (Clock::now() >= deadline) break;
    try {
      Lease lease = Connect(endpoint, timeouts, fresh, wait);
      const auto& id = lease->node_id();
      // Its address may mean another node here: every host has a 127.0.0.1.
      if (id && id->ToString() != node.id && node.id.find(':') == std::string::npos) continue;
      return lease;
    } catch (const Error& error) {
      if (!Retryable(error) && !WrongCertificate(error)) throw;
    }
  }
  SetUnreachable(node.id);
  return Lease();
}

}  // namespace ignite_strategy
