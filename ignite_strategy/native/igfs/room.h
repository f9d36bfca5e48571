// Keeps writers from filling the nodes' memory: an Ignite node whose data region is full ends, and with it
// what only that node had.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_ROOM_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_ROOM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "native/igfs/store.h"
#include "native/scan/topology.h"
#include "native/wire/socket.h"

namespace ignite_strategy {
namespace igfs {

// Looks at the memory of the nodes now and then, the more often the less is left: each look allows a part of
// what is free, for a short time, because others write too. Where the nodes do not tell (before Ignite 2.11,
// a user who may not ask), and where data goes to disk, everything is allowed.
//
// Thread-safe.
class Room {
 public:
  explicit Room(Store& store) : store_(store) {}

  // Whether there is room for so many bytes more. Any node may get all of them.
  bool Take(std::uint64_t bytes, const Wait& wait);
  // What the last look saw, for an error: "node 10.0.0.5:10800 has 3 of 128 MiB left".
  std::string Describe();

 private:
  struct Region {
    std::uint64_t size = 0, used = 0;
    std::uint64_t Left() const;
  };
  // How a node is reached.
  struct Way {
    std::optional<Endpoint> endpoint;  // that has answered for it
    Clock::time_point again;           // not before this, because none did
  };

  struct Known {
    const unsigned long generation = ForkGeneration();
    std::mutex mutex;                          // held while looking; guards the rest
    Clock::time_point until;                   // what follows counts until then
    std::optional<std::uint64_t> allowed = 0;  // bytes; nothing = any number
    std::string region;                        // the caches' data region; empty = not asked for yet
    Region fullest;
    std::string fullest_node;
    std::map<std::string, Way> ways;  // by node id
  };

  // This process's own: a parent may have been looking when it forked, and would hold the lock for ever.
  std::shared_ptr<Known> Mine();
  void Look(Known& known, const Wait& wait);
  std::optional<Region> AskNode(Known& known, const CacheNode& node, const Wait& wait);
  std::optional<Region> Ask(Known& known, Connection& connection, const Wait& wait);
  const std::string& RegionName(Known& known, Connection& connection, const Wait& wait);

  Store& store_;
  std::shared_ptr<Known> known_ = std::make_shared<Known>();  // by atomic functions only
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_ROOM_H_
