// Which partition a key belongs to, and which node is primary for it, for caches with the default affinity.
#ifndef IGNITE_STRATEGY_NATIVE_BULK_AFFINITY_H_
#define IGNITE_STRATEGY_NATIVE_BULK_AFFINITY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "native/wire/buffer.h"

namespace ignite_strategy {

// Where the partitions of a cache are, as the server tells clients.
struct PartitionMap {
  std::int32_t partitions = 0;
  std::map<Uuid, std::vector<std::int32_t>> primaries;
  bool key_field = false;  // a field of the key decides, not the whole key
};

// Reads the response of CACHE_PARTITIONS for one cache; nothing if clients cannot compute its partitions.
std::optional<PartitionMap> ParsePartitionMap(Reader& reader, std::int32_t cache_id);
// Java's hashCode of a typed key; nothing for a type whose hash this does not know.
std::optional<std::int32_t> KeyHash(Reader key);
// The partition of a key with this hash.
std::int32_t PartitionOf(std::int32_t hash, std::int32_t partitions);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BULK_AFFINITY_H_
