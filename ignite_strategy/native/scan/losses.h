// What this process knows about the owners of partitions, and which partitions have lost their data.
//
// A server that lost a node may answer a scan without its rows and without an error (loss policy IGNORE, the
// default). So the owners are remembered from pass to pass and compared, whatever the server says.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_LOSSES_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_LOSSES_H_

#include <cstdint>
#include <map>
#include <string>

#include "native/scan/topology.h"

namespace ignite_strategy {

// Partition -> the node that owned it when it was lost.
using Losses = std::map<std::int32_t, std::string>;

// Compares `now` with what was seen before, here or in `earlier` (from Remember, "" = nothing), and remembers
// `now`. Returns every partition whose data is known to be gone. `connection` answers questions.
Losses ObserveOwners(Connection& connection, const std::string& cache, const CacheTopology& now,
                     const std::string& earlier, const Wait& wait);

// The owners, and what is lost already, as bytes that travel with a dataset: what is lost before another
// process first looks is noticed there.
std::string Remember(const CacheTopology& topology, const Losses& lost);

// The nodes that Remember's bytes name, each by one address; none for "".
CacheTopology Recalled(const std::string& owners);

// Whoever calls this has loaded the data again, or goes on without it: what is there now counts as whole.
void ForgetOwners(const std::string& cache);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_LOSSES_H_
