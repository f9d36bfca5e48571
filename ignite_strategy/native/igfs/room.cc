#include "native/igfs/room.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>

#include "native/scan/sql_request.h"

namespace ignite_strategy {
namespace igfs {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
// Never given away: for the records of directories, for what others write meanwhile, for Ignite itself.
constexpr std::uint64_t kMostReserved = 64 * kMiB, kLeastReserved = 4 * kMiB;
constexpr std::uint64_t kReservedShare = 16;
// A look allows this part of what is left: so many processes may write at once.
constexpr std::uint64_t kAllowedShare = 8;
constexpr Millis kAllowedFor{2000};
// When the nodes did not tell.
constexpr Millis kAskAgainAfter{60'000};
// In a large cluster a look asks some nodes, others each time: partitions are spread evenly.
constexpr std::size_t kMostNodes = 8;
constexpr Timeouts kNodeTimeouts{Millis(1000), Millis(2000)};
constexpr Millis kLookLimit{5000};

std::uint64_t Number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

std::string Doing(const Store& store) { return "asking for the memory of " + store.target().ToString(); }

std::vector<CacheNode> SomeNodes(Connection& connection, const Wait& wait) {
  std::vector<CacheNode> nodes = ListNodes(connection, wait);
  thread_local std::minstd_rand random(std::random_device{}());
  if (nodes.size() > kMostNodes) {
    std::shuffle(nodes.begin(), nodes.end(), random);
    nodes.resize(kMostNodes);
  }
  return nodes;
}

}  // namespace

std::uint64_t Room::Region::Left() const {
  const std::uint64_t reserved = std::clamp(size / kReservedShare, kLeastReserved, kMostReserved);
  return size > used + reserved ? size - used - reserved : 0;
}

std::shared_ptr<Room::Known> Room::Mine() {
  std::shared_ptr<Known> known = std::atomic_load(&known_);
  while (known->generation != ForkGeneration()) {
    auto mine = std::make_shared<Known>();
    if (std::atomic_compare_exchange_strong(&known_, &known, mine)) known = std::move(mine);
  }
  return known;
}

bool Room::Take(std::uint64_t bytes, const Wait& wait) {
  const std::shared_ptr<Known> mine = Mine();
  Known& known = *mine;
  const std::lock_guard<std::mutex> lock(known.mutex);
  for (const bool looked : {false, true}) {
    if (Clock::now() < known.until) {
      if (!known.allowed) return true;
      if (*known.allowed >= bytes) {
        *known.allowed -= bytes;
        return true;
      }
    }
    if (looked) break;
    Look(known, wait);
    if (known.allowed)
      *known.allowed = std::max(known.fullest.Left() / kAllowedShare, std::min(bytes, known.fullest.Left()));
  }
  known.until = Clock::time_point();  // whoever asks next wants to know how it is then
  return false;
}

std::string Room::Describe() {
  const std::shared_ptr<Known> mine = Mine();
  Known& known = *mine;
  const std::lock_guard<std::mutex> lock(known.mutex);
  const std::uint64_t left = known.fullest.size - std::min(known.fullest.size, known.fullest.used);
  return known.fullest_node + " has " + std::to_string(left / kMiB) + " of " +
         std::to_string(known.fullest.size / kMiB) + " MiB left in its data region '" + known.region + "'";
}

void Room::Look(Known& known, const Wait& wait) {
  const Wait limited = wait.Within(kLookLimit);
  std::optional<Region> fullest;
  Millis count_for = kAllowedFor;
  try {
    store_.Run(limited, [&](Connection& connection) {
      fullest.reset();
      for (const CacheNode& node : SomeNodes(connection, limited)) {
        const bool at_hand = connection.node_id() && connection.node_id()->ToString() == node.id;
        const std::optional<Region> region =
            at_hand ? Ask(known, connection, limited) : AskNode(known, node, limited);
        if (!region || (fullest && fullest->Left() <= region->Left())) continue;
        fullest = region;
        known.fullest_node = node.Describe();
      }
    });
    if (!fullest) count_for = kAskAgainAfter;
  } catch (const Error& error) {
    if (wait.cancellation && wait.cancellation->cancelled()) throw;
    // Whoever writes will see what is wrong with the cluster, and say it better.
  }
  known.allowed.reset();
  if (fullest) known.allowed = 0;
  known.fullest = fullest.value_or(Region());
  known.until = Clock::now() + count_for;
}

// A node says what it knows of itself only.
std::optional<Room::Region> Room::AskNode(Known& known, const CacheNode& node, const Wait& wait) {
  if (known.ways.size() > 1024) known.ways.clear();  // of nodes that are gone, most of them
  Way& way = known.ways[node.id];
  if (Clock::now() < way.again) return std::nullopt;
  std::vector<Endpoint> endpoints = node.endpoints;
  if (way.endpoint) endpoints = {*way.endpoint};
  for (Endpoint endpoint : endpoints) {
    endpoint.security = store_.target().endpoints.front().security;  // all are of one cluster
    try {
      Lease lease = Pool::Process().Acquire(endpoint, kNodeTimeouts, wait.Within(2 * kNodeTimeouts.connect));
      // A loopback address may lead to another node than the one that announces it.
      if (!lease->node_id() || lease->node_id()->ToString() != node.id) continue;
      const std::optional<Region> region = Ask(known, *lease, wait);
      way.endpoint = endpoint;
      return region;
    } catch (const Error&) {
      if (Clock::now() >= wait.deadline) throw;
    }
  }
  way = {std::nullopt, Clock::now() + kAskAgainAfter};
  return std::nullopt;
}

std::optional<Room::Region> Room::Ask(Known& known, Connection& connection, const Wait& wait) {
  const std::string stem = "io.dataregion." + RegionName(known, connection, wait) + ".";
  SqlQuery sql;
  sql.schema = "PUBLIC";
  sql.text = "SELECT NAME, VALUE FROM SYS.METRICS WHERE NAME IN (?, ?, ?)";
  Writer arguments;
  for (const char* name : {"MaxSize", "TotalUsedSize", "CheckpointBufferSize"})
    arguments.PutTypedString(stem + name);
  sql.argument_count = 3;
  sql.arguments.assign(arguments.bytes().begin(), arguments.bytes().end());
  const std::vector<std::string> told = SqlTexts(connection, "", sql, 2, Doing(store_), wait);
  Region region;
  bool on_disk = false;
  for (std::size_t i = 0; i + 1 < told.size(); i += 2) {
    if (told[i] == stem + "MaxSize") region.size = Number(told[i + 1]);
    if (told[i] == stem + "TotalUsedSize") region.used = Number(told[i + 1]);
    if (told[i] == stem + "CheckpointBufferSize") on_disk = Number(told[i + 1]) > 0;
  }
  if (region.size == 0 || on_disk) return std::nullopt;
  return region;
}

const std::string& Room::RegionName(Known& known, Connection& connection, const Wait& wait) {
  if (!known.region.empty()) return known.region;
  SqlQuery sql;
  sql.schema = "PUBLIC";
  sql.text = "SELECT DATA_REGION_NAME FROM SYS.CACHES WHERE CACHE_NAME = ?";
  Writer argument;
  argument.PutTypedString(store_.blocks_cache());
  sql.argument_count = 1;
  sql.arguments.assign(argument.bytes().begin(), argument.bytes().end());
  const std::vector<std::string> told = SqlTexts(connection, "", sql, 1, Doing(store_), wait);
  known.region = told.empty() || told.front().empty() ? "default" : told.front();
  return known.region;
}

}  // namespace igfs
}  // namespace ignite_strategy
