#include "native/scan/watch.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "native/wire/environment.h"

namespace ignite_strategy {
namespace {

constexpr Millis kLookPause{100};
// While nodes come and go a server may fail to tell.
constexpr int kLooks = 5;
constexpr std::int32_t kFailed = 1;

}  // namespace

std::shared_ptr<const CacheTopology> Watch::Begin(Connection& connection) {
  const std::lock_guard<std::mutex> lock(looking_);
  Look(connection);
  return topology();
}

std::shared_ptr<const CacheTopology> Watch::topology() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return topology_;
}

void Watch::Look(Connection& connection) {
  // A statement need not say which cache it reads.
  auto now = std::make_shared<CacheTopology>(
      config_.cache.empty() ? CacheTopology() : TakeTopology(connection, config_.cache, wait_));
  if (now->known) Check(*now, connection);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (noticed_ < now->version) noticed_ = now->version;
  topology_ = std::move(now);
}

void Watch::Check(const CacheTopology& now, Connection& connection) const {
  const Gone gone = ObserveOwners(connection, config_.cache, now, config_.owners, wait_);
  if (config_.local) return;
  Partitions partitions;
  const std::string nodes = Wanted(gone.lost, partitions);
  if (!partitions.empty()) {
    throw Error(Code::kDataLoss,
                "cache '" + config_.cache + "' has lost data: partitions " + SomePartitions(partitions) +
                    " were on " + nodes +
                    ", which left the cluster, and no copy is sure to be there (backups " +
                    std::to_string(now.backups) +
                    "). Load the rows again and say so with ignite_strategy.accept_data_loss('" +
                    config_.cache + "'), or keep backups");
  }
  const std::string keepers = Wanted(gone.away, partitions);
  if (partitions.empty()) return;
  throw Error(Code::kDataLoss, "cache '" + config_.cache + "' has no node with partitions " +
                                   SomePartitions(partitions) + ": they are on the disk of " + keepers +
                                   ", which is not in the cluster (backups " + std::to_string(now.backups) +
                                   "). Start it and run control.sh --cache reset_lost_partitions " +
                                   config_.cache);
}

std::string Watch::Wanted(const Losses& losses, Partitions& partitions) const {
  std::set<std::string> nodes;
  Partitions mine;
  if (config_.partitions) mine = *config_.partitions;
  std::sort(mine.begin(), mine.end());
  for (const auto& [partition, node] : losses) {
    if (config_.partitions && !std::binary_search(mine.begin(), mine.end(), partition)) continue;
    partitions.push_back(partition);
    nodes.insert(*node);
  }
  std::string names;
  for (const std::string& node : nodes) names += (names.empty() ? "" : ", ") + node;
  return names;
}

void Watch::Notice(const TopologyVersion& seen) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!topology_ || !topology_->known || !(noticed_ < seen)) return;
  }
  Refresh();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (noticed_ < seen) noticed_ = seen;
}

void Watch::Refresh() {
  const std::lock_guard<std::mutex> lock(looking_);
  const std::shared_ptr<const CacheTopology> before = topology();
  if (before && !before->known) return;
  for (int attempt = 1;; ++attempt) {
    try {
      std::size_t answered = 0;
      // A connection from the pool may have died with its node.
      const Lease lease = AnyConnection(config_, before.get(), 0, attempt > 1, wait_, &answered);
      return Look(*lease);
    } catch (const Error& error) {
      const bool passing = error.code() == Code::kUnavailable || error.server_status() == kFailed;
      if (!passing || attempt >= kLooks) throw;
    }
    wait_.NextSlice("asking who owns the partitions");
    std::this_thread::sleep_for(kLookPause);
  }
}

bool Watch::AwaitChange(const Unit& unit, Millis limit) {
  const auto deadline = Clock::now() + limit;
  while (true) {
    try {
      Refresh();
      if (Moved(unit)) return true;
    } catch (const Error& error) {
      const bool passing = error.code() == Code::kUnavailable || error.server_status() == kFailed;
      if (!passing || Clock::now() >= deadline) throw;
    }
    if (Clock::now() >= deadline) return false;
    wait_.NextSlice("waiting for the cluster to notice that a node has left");
    std::this_thread::sleep_for(kLookPause);
  }
}

Error Watch::Explained(const Error& error) {
  try {
    std::size_t answered = 0;
    const std::shared_ptr<const CacheTopology> now = topology();
    const Lease lease = AnyConnection(config_, now.get(), 0, false, wait_, &answered);
    return ExplainLoss(error, *lease, config_.cache, wait_);
  } catch (const Error&) {
    return error;
  }
}

bool Watch::Moved(const Unit& unit) const {
  if (unit.node.empty()) return false;
  const std::shared_ptr<const CacheTopology> now = topology();
  return std::any_of(unit.partitions.begin(), unit.partitions.end(), [&](std::int32_t partition) {
    const CacheNode* node = now->Primary(partition);
    return node == nullptr || node->id != unit.node;
  });
}

bool Watch::Exact(const Unit& unit) const {
  const std::shared_ptr<const CacheTopology> now = topology();
  return now->HasExactly(now->Find(unit.node), unit.partitions);
}

}  // namespace ignite_strategy
