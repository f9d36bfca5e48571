// Which queries a pass runs, and where.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_PLAN_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/scan/config.h"
#include "native/scan/topology.h"

namespace ignite_strategy {

// What one query reads.
struct Unit {
  enum class Kind {
    kCache,      // everything, through whichever node is asked
    kNode,       // all partitions that a node is primary for, at that node
    kPartition,  // one partition
  };
  Kind kind = Kind::kCache;
  std::string node;                      // of kNode and kPartition: the primary; "" = not known
  std::vector<std::int32_t> partitions;  // of kNode all, of kPartition one

  std::int32_t partition() const { return kind == Kind::kPartition ? partitions.front() : -1; }
};

// A query costs some 0.12 ms however little it brings: a node with more partitions than this is read by one
// query if its partitions are small.
constexpr std::size_t kFewPartitions = 8;

// Whether MakePlan needs to know how large partitions are.
bool NeedsSize(const ScanConfig& config, const CacheTopology& topology);
// In the order in which they are read. `partition_bytes` is the mean size of a partition.
std::vector<Unit> MakePlan(const ScanConfig& config, const CacheTopology& topology, double partition_bytes);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_PLAN_H_
