// A look at some rows of a cache, for schema discovery.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_SAMPLE_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_SAMPLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "native/binary/describe.h"
#include "native/wire/connection.h"

namespace ignite_strategy {

struct Sample {
  Description key;
  Description val;                              // values that are no objects
  std::map<std::int32_t, Description> objects;  // values that are, by their types' ids
  std::int64_t rows = 0;
  std::int64_t bytes = 0;  // of those rows, on the wire
};

// Looks at the first rows of each partition of the list (-1 = of the whole cache).
Sample TakeSample(const Endpoint& endpoint, const Timeouts& timeouts, const std::string& cache, bool local,
                  const std::vector<std::int32_t>& partitions, const Wait& wait);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_SAMPLE_H_
