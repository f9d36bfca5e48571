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
#include "native/wire/environment.h"

namespace ignite_strategy {

// Partition -> the node that owned it when it was lost.
using Losses = std::map<std::int32_t, std::string>;

struct Gone {
  Losses lost;  // for good: another node is primary now and has nothing of it
  Losses away;  // on the disk of a node that is not there; no node is primary
};

// Compares `now` with what was seen before, here or in `earlier` (from Remember, "" = nothing), and remembers
// `now`. Returns every partition whose data is known to be gone. `connection` answers questions.
Gone ObserveOwners(Connection& connection, const std::string& cache, const CacheTopology& now,
                   const std::string& earlier, const Wait& wait);

// Whether `error` is the server's own refusal to read partitions that it has lost.
bool LostByServer(const Error& error);

// That refusal, which names one partition, with all of them and the nodes that had them, as far as the server
// tells.
Error ExplainLoss(const Error& error, Connection& connection, const std::string& cache, const Wait& wait);

// "1,3-5", or the first of many.
std::string SomePartitions(const Partitions& partitions);

// The owners, and what is lost already, as bytes that travel with a dataset: what is lost before another
// process first looks is noticed there.
std::string Remember(const CacheTopology& topology, const Losses& lost);

// The nodes that Remember's bytes name, each by one address; none for "".
CacheTopology Recalled(const std::string& owners);

// Whoever calls this has loaded the data again, or goes on without it: what is there now counts as whole.
void ForgetOwners(const std::string& cache);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_LOSSES_H_
