// A look at some rows of a cache, for schema discovery.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_SAMPLE_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_SAMPLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "native/binary/describe.h"
#include "native/scan/topology.h"
#include "native/wire/connection.h"

namespace ignite_strategy {

struct Sample {
  Description key;
  Description val;                              // values that are no objects
  std::map<std::int32_t, Description> objects;  // values that are, by their types' ids
  std::int64_t rows = 0;
  std::int64_t bytes = 0;  // of those rows, on the wire
};

// Where to look at the first rows of each partition of a list.
struct LooksAt {
  // There if it can be reached directly; nothing = at the address that is asked.
  std::optional<CacheNode> node;
  bool local = false;                    // what the node itself holds, and nothing else
  std::vector<std::int32_t> partitions;  // -1 = all of the cache, or of the node
};

// Rows come from the nodes that have them: on its way through another node a row of 100 MB takes more memory
// than many a node has.
Sample TakeSample(const Endpoint& endpoint, const Timeouts& timeouts, const std::string& cache,
                  const std::vector<LooksAt>& looks, const Wait& wait);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_SAMPLE_H_
