#include "native/scan/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace ignite_strategy {
namespace {

// Where a query of its own costs a partition less than some percents of the time that its rows take: one
// connection waits for each answer, several hide that.
constexpr double kWorthAQuery = 1 << 20;
constexpr double kWorthAQueryInParallel = 16 << 10;

Unit Partition(const CacheTopology& topology, std::int32_t partition) {
  const CacheNode* node = topology.replicated ? nullptr : topology.Primary(partition);
  return {Unit::Kind::kPartition, node == nullptr ? std::string() : node->id, {partition}};
}

std::vector<std::int32_t> Wanted(const ScanConfig& config, const CacheTopology& topology) {
  if (config.partitions) return *config.partitions;
  std::vector<std::int32_t> all(topology.primary.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The wanted partitions by node, in the order in which the nodes are first met.
using Shares = std::vector<std::pair<std::int32_t, std::vector<std::int32_t>>>;

Shares Share(const ScanConfig& config, const CacheTopology& topology) {
  Shares shares;
  std::map<std::int32_t, std::size_t> places;
  for (const std::int32_t partition : Wanted(config, topology)) {
    const auto at = static_cast<std::size_t>(partition);
    const std::int32_t node = at < topology.primary.size() ? topology.primary[at] : -1;
    const auto [place, fresh] = places.emplace(node, shares.size());
    if (fresh) shares.push_back({node, {}});
    shares[place->second].second.push_back(partition);
  }
  return shares;
}

bool ReadsAllOf(const CacheTopology& topology, std::int32_t node, const std::vector<std::int32_t>& share) {
  return share.size() > kFewPartitions && topology.HasExactly(node, share);
}

bool ByPartition(const ScanConfig& config, double partition_bytes) {
  return partition_bytes >= (config.parallel_reads > 1 ? kWorthAQueryInParallel : kWorthAQuery);
}

std::vector<Unit> WithoutMap(const ScanConfig& config) {
  if (!config.partitions) return {Unit{}};
  std::vector<Unit> units;
  for (const std::int32_t partition : *config.partitions)
    units.push_back({Unit::Kind::kPartition, "", {partition}});
  return units;
}

}  // namespace

bool NeedsSize(const ScanConfig& config, const CacheTopology& topology) {
  if (config.sql) return false;
  if (!topology.known || config.local) return false;
  if (topology.replicated) return !config.partitions && config.parallel_reads > 1;
  const Shares shares = Share(config, topology);
  return std::any_of(shares.begin(), shares.end(),
                     [&](const auto& share) { return ReadsAllOf(topology, share.first, share.second); });
}

std::vector<Unit> MakePlan(const ScanConfig& config, const CacheTopology& topology, double partition_bytes) {
  if (config.sql) return {Unit{}};
  if (!topology.known || config.local) return WithoutMap(config);
  if (topology.replicated && !config.partitions &&
      (config.parallel_reads == 1 || !ByPartition(config, partition_bytes))) {
    return {Unit{}};
  }
  std::vector<std::vector<Unit>> by_node;
  for (const auto& [node, share] : Share(config, topology)) {
    std::vector<Unit> units;
    if (!topology.replicated && ReadsAllOf(topology, node, share) && !ByPartition(config, partition_bytes)) {
      units.push_back({Unit::Kind::kNode, topology.nodes[static_cast<std::size_t>(node)].id, share});
    } else {
      for (const std::int32_t partition : share) units.push_back(Partition(topology, partition));
    }
    by_node.push_back(std::move(units));
  }
  std::vector<Unit> plan;
  if (config.parallel_reads == 1) {
    for (std::vector<Unit>& units : by_node) plan.insert(plan.end(), units.begin(), units.end());
    return plan;
  }
  // In turns, so that the connections keep all nodes busy.
  for (std::size_t turn = 0;; ++turn) {
    bool any = false;
    for (std::vector<Unit>& units : by_node) {
      if (turn >= units.size()) continue;
      plan.push_back(std::move(units[turn]));
      any = true;
    }
    if (!any) return plan;
  }
}

}  // namespace ignite_strategy
