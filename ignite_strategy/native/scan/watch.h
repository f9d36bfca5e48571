// Looks after the cluster while a pass runs: who is primary now, and is data gone that the pass wants.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_WATCH_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_WATCH_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "native/scan/config.h"
#include "native/scan/losses.h"
#include "native/scan/plan.h"
#include "native/scan/topology.h"
#include "native/wire/pool.h"

namespace ignite_strategy {

// Shared by the connections of a pass.
class Watch {
 public:
  // `config` must outlive this. `wait` has no deadline of its own; requests have theirs.
  Watch(const ScanConfig& config, Wait wait) : config_(config), wait_(std::move(wait)) {}

  // The first look. Throws Error(kDataLoss) as Refresh does.
  std::shared_ptr<const CacheTopology> Begin(Connection& connection);
  // As of the last look; never null after Begin.
  std::shared_ptr<const CacheTopology> topology() const;
  // Looks again if a response told a newer version. Call it before the rows of that response are used.
  void Notice(const TopologyVersion& seen);
  // Looks again. Throws Error(kDataLoss) naming cache, partitions and nodes if data is gone that the pass
  // wants, in this pass or an earlier one; Error(kUnavailable) if nobody answers.
  void Refresh();
  // Looks again and again, until the unit's primary has left or is another; false if `limit` passes first.
  bool AwaitChange(const Unit& unit, Millis limit);
  // A server's refusal to read what it has lost, with what more it tells.
  Error Explained(const Error& error);
  // Whether another node than the unit's has become primary for one of its partitions.
  bool Moved(const Unit& unit) const;
  // Whether the unit's node is primary for its partitions and no others: a query of all that a node has reads
  // what it has when the query begins.
  bool Exact(const Unit& unit) const;

 private:
  void Look(Connection& connection);
  void Check(const CacheTopology& now, Connection& connection) const;
  // Those of `losses` that the pass wants, and the nodes that had them.
  std::string Wanted(const Losses& losses, Partitions& partitions) const;

  const ScanConfig& config_;
  const Wait wait_;
  std::mutex looking_;  // one look at a time
  mutable std::mutex mutex_;
  std::shared_ptr<const CacheTopology> topology_;
  TopologyVersion noticed_;
};

// A connection to any node that answers: the configured addresses in turn from `first` on, then those that
// the topology (may be null) names. Throws the first failure if none does; `*answered` is the index of a
// configured address, or unchanged.
Lease AnyConnection(const ScanConfig& config, const CacheTopology* topology, std::size_t first, bool fresh,
                    const Wait& wait, std::size_t* answered);
// A connection to that very node, whichever of its addresses lead there; empty if none does.
Lease DirectConnection(const ScanConfig& config, const CacheNode& node, bool fresh, const Wait& wait);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_WATCH_H_
