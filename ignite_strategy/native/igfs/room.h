// Keeps writers from filling the nodes' memory: an Ignite node whose data region is full ends, and with it
// what only that node had.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_ROOM_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_ROOM_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "native/igfs/store.h"
#include "native/scan/topology.h"

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

  void Look(const Wait& wait);
  std::vector<CacheNode> SomeNodes(Connection& connection, const Wait& wait);
  std::optional<Region> AskNode(const CacheNode& node, const Wait& wait);
  std::optional<Region> Ask(Connection& connection, const Wait& wait);
  const std::string& RegionName(Connection& connection, const Wait& wait);

  Store& store_;
  std::mutex mutex_;
  Clock::time_point until_;                   // what follows counts until then
  std::optional<std::uint64_t> allowed_ = 0;  // bytes; nothing = any number
  std::string region_;                        // the caches' data region; empty = not asked for yet
  Region fullest_;
  std::string fullest_node_;
  std::map<std::string, Way> ways_;  // by node id
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_ROOM_H_
