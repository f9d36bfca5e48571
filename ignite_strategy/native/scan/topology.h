// Which node is primary for each partition of a cache, and what the cluster guarantees about lost nodes.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_TOPOLOGY_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_TOPOLOGY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "native/wire/buffer.h"
#include "native/wire/connection.h"

namespace ignite_strategy {

// Ignite's topology version: grows when a node joins or leaves (major) and when partitions move (minor).
struct TopologyVersion {
  std::int64_t major = 0;
  std::int32_t minor = 0;
  bool operator==(const TopologyVersion& other) const { return major == other.major && minor == other.minor; }
  bool operator<(const TopologyVersion& other) const {
    return major != other.major ? major < other.major : minor < other.minor;
  }
};

struct CacheNode {
  std::string id;                   // as Ignite prints it; "host:port" where the server tells no ids
  std::vector<Endpoint> endpoints;  // every address it announces; empty = it has no client connector
  std::string Describe() const;     // "node <id> (host:port)"
};

struct CacheTopology {
  enum Loss : std::int32_t {
    kReadOnlySafe = 0,
    kReadOnlyAll = 1,
    kReadWriteSafe = 2,
    kReadWriteAll = 3,
    kIgnore = 4
  };

  TopologyVersion version;
  bool known = false;  // the server told; else nothing below means anything
  bool replicated = false;
  std::int32_t backups = 0;
  std::int32_t loss_policy = kIgnore;
  std::string region;                 // the cache's data region; empty = the default one
  std::vector<CacheNode> nodes;       // the server nodes that the answers name
  std::vector<std::int32_t> primary;  // per partition an index into nodes, -1 = none

  std::int32_t Find(const std::string& node_id) const;  // index into nodes, -1 = not there
  const CacheNode* Primary(std::int32_t partition) const;
  std::vector<std::int32_t> PartitionsOf(std::int32_t node) const;  // sorted
  // Whether the node, if there is one, is primary for these and no others.
  bool HasExactly(std::int32_t node, std::vector<std::int32_t> partitions) const;
};

// Whether the cache has a partition of this number: a scan of it is possible then.
bool HasPartition(Connection& connection, const std::string& cache, std::int32_t partition, const Wait& wait);

// How many partitions the cache has, by looking for them; for a server that does not tell: Ignite 2.7 names
// none of a cache that was made since a node joined.
std::int32_t SearchPartitionCount(Connection& connection, const std::string& cache, const Wait& wait);

// Asks `connection` (three requests at once). A server that does not know the operations gives known = false.
// Throws Error(kNotFound) naming the cache if it does not exist.
CacheTopology TakeTopology(Connection& connection, const std::string& cache, const Wait& wait);

// The nodes and their addresses, sorted as the server has them; empty if it cannot tell (before Ignite 2.9).
std::vector<CacheNode> ListNodes(Connection& connection, const Wait& wait);

// The nodes that were in the cluster at version `since` and are not any more; empty if the server cannot
// tell.
std::vector<std::string> NodesGoneSince(Connection& connection, std::int64_t since, const Wait& wait);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_TOPOLOGY_H_
