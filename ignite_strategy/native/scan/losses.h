// What this process knows about the owners of partitions, and which partitions have lost their data.
//
// A server that lost a node may answer a scan without its rows and without an error (loss policy IGNORE, the
// default). So the owners are remembered from pass to pass and compared, whatever the server says.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_LOSSES_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_LOSSES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "native/scan/topology.h"
#include "native/wire/environment.h"

namespace ignite_strategy {

// Partitions, and the nodes that owned them when they were lost. Of two nodes the one that was named first
// stays.
class Losses {
 public:
  using Node = std::shared_ptr<const std::string>;  // many partitions have one
  struct Loss {
    std::int32_t partition;
    Node node;
  };

  void Add(std::int32_t partition, const Node& node);
  void Add(const Losses& others);
  const std::string* Find(std::int32_t partition) const;
  void clear() { losses_.clear(); }
  bool empty() const { return losses_.empty(); }
  std::size_t size() const { return losses_.size(); }
  std::vector<Loss>::const_iterator begin() const { return losses_.begin(); }
  std::vector<Loss>::const_iterator end() const { return losses_.end(); }

 private:
  std::vector<Loss>::const_iterator Place(std::int32_t partition) const;  // of it, or of the next one

  std::vector<Loss> losses_;  // sorted
};

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
// process first looks is noticed there. `source`: the address that told it.
std::string Remember(const CacheTopology& topology, const Losses& lost, const Endpoint& source);

// The nodes that Remember's bytes name, each by one address; none for "", and none if nobody at `endpoints`
// told them: who names another cluster wants no rows of that one.
CacheTopology Recalled(const std::string& owners, const std::vector<Endpoint>& endpoints);

// Whoever calls this has loaded the data again, or goes on without it: what is there now counts as whole.
void ForgetOwners(const std::string& cache);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_LOSSES_H_
