#include "native/scan/losses.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "native/binary/types.h"
#include "native/scan/cursor.h"

namespace ignite_strategy {
namespace {

// Caches whose owners are remembered; the one that was looked at longest ago goes first.
constexpr std::size_t kMaxKnown = 512;
constexpr std::size_t kMaxNamed = 24;
// How many changes of the cluster ago a node may have left that is named.
constexpr std::int64_t kLookBack = 16;

struct Known {
  std::string cache;
  CacheTopology topology;
  Losses lost;
  Losses away;
};

struct Memory {
  std::mutex mutex;
  std::list<Known> known;          // the latest first
  std::set<std::string> accepted;  // caches whose datasets may remember what was accepted meanwhile
};

// Never destroyed: a pass may still end while the process exits.
Memory& Process() {
  static auto* memory = new Memory;
  return *memory;
}

void PutText(Writer& writer, const std::string& text) {
  writer.Put<std::int32_t>(static_cast<std::int32_t>(text.size())).PutBytes(text.data(), text.size());
}

std::string GetText(Reader& reader) {
  const std::size_t size = reader.Count(1);
  return std::string(reinterpret_cast<const char*>(reader.Bytes(size)), size);
}

Known Recall(const std::string& cache, const std::string& bytes, std::string* source = nullptr) {
  Reader reader(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  const std::string told_by = GetText(reader);
  if (source != nullptr) *source = told_by;
  Known known{cache, {}, {}, {}};
  CacheTopology& topology = known.topology;
  topology.known = true;
  topology.version.major = reader.Get<std::int64_t>();
  topology.version.minor = reader.Get<std::int32_t>();
  topology.nodes.resize(reader.Count(8));
  for (CacheNode& node : topology.nodes) {
    node.id = GetText(reader);
    const std::string host = GetText(reader);
    const auto port = reader.Get<std::uint16_t>();
    if (!host.empty()) node.endpoints.push_back({host, port});
  }
  topology.primary.resize(reader.Count(2));
  for (std::int32_t& node : topology.primary) {
    node = reader.Get<std::int16_t>();
    if (node >= static_cast<std::int32_t>(topology.nodes.size()) || node < -1)
      throw Error(Code::kInvalidArgument, "an owner that is not in the list");
  }
  const std::size_t lost = reader.Count(8);
  for (std::size_t i = 0; i < lost; ++i) {
    const auto partition = reader.Get<std::int32_t>();
    known.lost.Add(partition, std::make_shared<const std::string>(GetText(reader)));
  }
  return known;
}

bool SharesNode(const CacheTopology& one, const CacheTopology& other) {
  return std::any_of(one.nodes.begin(), one.nodes.end(),
                     [&](const CacheNode& node) { return other.Find(node.id) >= 0; });
}

// Whether `before` was the cluster that `now` is. Two clusters may have caches of one name.
bool SameCluster(Connection& connection, const CacheTopology& before, const CacheTopology& now,
                 const Wait& wait) {
  if (SharesNode(before, now)) return true;
  const std::vector<std::string> gone = NodesGoneSince(connection, before.version.major, wait);
  return std::any_of(gone.begin(), gone.end(), [&](const std::string& id) { return before.Find(id) >= 0; });
}

std::string Text(Reader& reader) {
  if (reader.left() > 0 && *reader.at() == code::kString) return reader.TypedString().value_or(std::string());
  SkipValue(reader);
  return std::string();
}

using Rows = std::vector<std::vector<std::string>>;

// The texts that a system view answers with; nothing if the server has no such view.
Rows Ask(Connection& connection, const std::string& text, std::size_t width, const Wait& wait,
         const std::string* argument = nullptr) {
  std::string arguments;
  if (argument != nullptr) {
    Writer writer;
    writer.PutTypedString(*argument);
    arguments.assign(writer.bytes().begin(), writer.bytes().end());
  }
  const SqlQuery sql{"SYS", text, argument == nullptr ? 0 : 1, arguments, {}, true};
  Query query;
  query.sql = &sql;
  Rows rows;
  try {
    Cursor cursor(&connection, query, wait);
    while (!cursor.finished()) {
      const PageData page = cursor.Receive(wait);
      Reader reader = page.Rows();
      for (std::int32_t row = 0; row < page.rows; ++row) {
        rows.emplace_back();
        for (std::size_t i = 0; i < width; ++i) rows.back().push_back(Text(reader));
      }
    }
  } catch (const Error& error) {
    if (error.server_status() == 0) throw;
    return {};
  }
  return rows;
}

// Whether the cache's data region is kept on disk, so that a node which returns brings its rows along. Until
// then such a cache's server refuses to read what is away, whatever its loss policy. False if the server
// cannot tell.
bool KeepsData(Connection& connection, const CacheTopology& topology, const Wait& wait) {
  std::map<std::string, std::string> settings;
  for (std::vector<std::string>& row :
       Ask(connection,
           "SELECT NAME, VALUE FROM SYS.CONFIGURATION WHERE NAME LIKE 'DataStorageConfiguration.%'", 2,
           wait)) {
    settings[row[0]] = std::move(row[1]);
  }
  for (const auto& [name, region] : settings) {
    const std::string end = ".Name";
    if (name.size() <= end.size() || name.compare(name.size() - end.size(), end.size(), end) != 0) continue;
    const std::string stem = name.substr(0, name.size() - end.size());
    const bool standard = stem == "DataStorageConfiguration.DefaultDataRegionConfiguration";
    if (topology.region.empty() ? !standard : region != topology.region) continue;
    return settings[stem + ".PersistenceEnabled"] == "true";
  }
  return false;
}

// The nodes that keep data on disk and are not in the cluster, by their consistent ids: "node-1, node-2".
std::string OfflineNodes(Connection& connection, const Wait& wait) {
  std::string names;
  for (const std::vector<std::string>& row :
       Ask(connection, "SELECT CAST(CONSISTENT_ID AS VARCHAR) FROM SYS.BASELINE_NODES WHERE ONLINE = FALSE",
           1, wait)) {
    names += (names.empty() ? "" : ", ") + row[0];
  }
  return names;
}

// The nodes that left lately, by their ids.
std::string NodesThatLeft(Connection& connection, std::int64_t major, const Wait& wait) {
  std::set<std::string> ids;
  for (std::int64_t since = major - 1; since > 0 && since > major - kLookBack; --since) {
    for (const std::string& id : NodesGoneSince(connection, since, wait)) ids.insert(id);
  }
  std::string names;
  for (const std::string& id : ids) names += (names.empty() ? "node " : ", node ") + id;
  return names;
}

// The nodes by which partitions are said to be lost.
class Names {
 public:
  const Losses::Node& operator[](const CacheNode* node) {
    Losses::Node& name = names_[node];
    if (!name) name = std::make_shared<const std::string>(node->Describe());
    return name;
  }

 private:
  std::map<const CacheNode*, Losses::Node> names_;
};

// The partitions whose owner has left between `before` and `now` with no copy that is sure to be there.
void AddLost(const CacheTopology& before, const CacheTopology& now, Losses& lost) {
  if (now.replicated) return;  // every node has a copy
  std::int32_t departed = 0;
  for (const CacheNode& node : before.nodes) departed += now.Find(node.id) < 0 ? 1 : 0;
  if (departed <= now.backups) return;
  // With copies and any policy but IGNORE the server refuses to read what it has lost.
  if (now.backups > 0 && now.loss_policy != CacheTopology::kIgnore) return;
  Names names;
  for (std::size_t i = 0; i < before.primary.size(); ++i) {
    const CacheNode* owner = before.Primary(static_cast<std::int32_t>(i));
    if (owner != nullptr && now.Find(owner->id) < 0) lost.Add(static_cast<std::int32_t>(i), names[owner]);
  }
}

// The partitions that no node is primary for, while a node that keeps data on disk is not there. `before` may
// know that it was theirs.
void AddAway(const CacheTopology* before, const CacheTopology& now, Connection& connection, const Wait& wait,
             Losses& away) {
  const std::size_t count = std::max(now.primary.size(), before == nullptr ? 0 : before->primary.size());
  Partitions without;
  for (std::size_t i = 0; i < count; ++i) {
    const auto partition = static_cast<std::int32_t>(i);
    if (now.Primary(partition) == nullptr && away.Find(partition) == nullptr) without.push_back(partition);
  }
  if (without.empty()) return;
  const std::string nodes = OfflineNodes(connection, wait);
  if (nodes.empty()) return;
  const auto any = std::make_shared<const std::string>("node " + nodes);
  Names names;
  for (const std::int32_t partition : without) {
    const CacheNode* owner = before == nullptr ? nullptr : before->Primary(partition);
    away.Add(partition, owner == nullptr ? any : names[owner]);
  }
}

}  // namespace

std::vector<Losses::Loss>::const_iterator Losses::Place(std::int32_t partition) const {
  return std::lower_bound(losses_.begin(), losses_.end(), partition,
                          [](const Loss& loss, std::int32_t than) { return loss.partition < than; });
}

void Losses::Add(std::int32_t partition, const Node& node) {
  const auto at = Place(partition);
  if (at == losses_.end() || at->partition != partition) losses_.insert(at, {partition, node});
}

void Losses::Add(const Losses& others) {
  std::vector<Loss> both;
  both.reserve(losses_.size() + others.losses_.size());
  std::set_union(losses_.begin(), losses_.end(), others.losses_.begin(), others.losses_.end(),
                 std::back_inserter(both),
                 [](const Loss& one, const Loss& other) { return one.partition < other.partition; });
  losses_ = std::move(both);
}

const std::string* Losses::Find(std::int32_t partition) const {
  const auto at = Place(partition);
  return at == losses_.end() || at->partition != partition ? nullptr : at->node.get();
}

std::string SomePartitions(const Partitions& partitions) {
  if (partitions.size() <= kMaxNamed) return FormatPartitions(partitions);
  const Partitions first(partitions.begin(), partitions.begin() + kMaxNamed);
  return FormatPartitions(first) + ",... (" + std::to_string(partitions.size()) + " in all)";
}

bool LostByServer(const Error& error) {
  const auto contains = [&](const char* text) { return error.message().find(text) != std::string::npos; };
  return error.server_status() != 0 && (contains("lostParts") || contains("partitions have been lost"));
}

Error ExplainLoss(const Error& error, Connection& connection, const std::string& cache, const Wait& wait) {
  const std::string end =
      "; where they are on disk, start their nodes and run control.sh --cache "
      "reset_lost_partitions " +
      cache + ", else drop the cache and load it again";
  std::string told;
  try {
    const CacheTopology now = TakeTopology(connection, cache, wait);
    std::set<std::int32_t> lost;
    for (std::size_t i = 0; i < now.primary.size(); ++i) {
      if (now.primary[i] < 0) lost.insert(static_cast<std::int32_t>(i));
    }
    for (const std::vector<std::string>& row :
         Ask(connection,
             "SELECT DISTINCT CAST(S.PARTITION_ID AS VARCHAR) FROM SYS.PARTITION_STATES S JOIN SYS.CACHES C "
             "ON "
             "C.CACHE_GROUP_ID = S.CACHE_GROUP_ID WHERE C.CACHE_NAME = ? AND S.STATE = 'LOST'",
             1, wait, &cache)) {
      lost.insert(static_cast<std::int32_t>(std::strtol(row[0].c_str(), nullptr, 10)));
    }
    if (!lost.empty())
      told += "; cache '" + cache + "' has lost partitions " + SomePartitions({lost.begin(), lost.end()});
    std::string nodes = OfflineNodes(connection, wait);
    if (nodes.empty()) nodes = NodesThatLeft(connection, now.version.major, wait);
    if (!nodes.empty()) told += "; not in the cluster any more: " + nodes;
  } catch (const Error&) {
    // What the server said first is enough.
  }
  return Error(Code::kDataLoss, error.message() + told + end, error.server_status());
}

std::string Remember(const CacheTopology& topology, const Losses& lost, const Endpoint& source) {
  if (!topology.known) return "";
  Writer writer;
  PutText(writer, source.ToString());
  writer.Put(topology.version.major).Put(topology.version.minor);
  writer.Put<std::int32_t>(static_cast<std::int32_t>(topology.nodes.size()));
  for (const CacheNode& node : topology.nodes) {
    PutText(writer, node.id);
    PutText(writer, node.endpoints.empty() ? "" : node.endpoints.front().host);
    writer.Put<std::uint16_t>(node.endpoints.empty() ? 0 : node.endpoints.front().port);
  }
  writer.Put<std::int32_t>(static_cast<std::int32_t>(topology.primary.size()));
  for (const std::int32_t node : topology.primary) writer.Put(static_cast<std::int16_t>(node));
  writer.Put<std::int32_t>(static_cast<std::int32_t>(lost.size()));
  for (const auto& [partition, node] : lost) {
    writer.Put(partition);
    PutText(writer, *node);
  }
  return std::string(writer.bytes().begin(), writer.bytes().end());
}

CacheTopology Recalled(const std::string& owners, const std::vector<Endpoint>& endpoints) {
  if (owners.empty()) return CacheTopology();
  std::string source;
  CacheTopology topology = Recall("", owners, &source).topology;
  const bool same = std::any_of(endpoints.begin(), endpoints.end(),
                                [&](const Endpoint& endpoint) { return endpoint.ToString() == source; });
  return same ? topology : CacheTopology();
}

Gone ObserveOwners(Connection& connection, const std::string& cache, const CacheTopology& now,
                   const std::string& earlier, const Wait& wait) {
  if (!now.known) return {};
  Memory& memory = Process();
  std::list<Known> candidates;
  bool accepted;
  {
    const std::lock_guard<std::mutex> lock(memory.mutex);
    accepted = memory.accepted.erase(cache) != 0;
    for (const Known& known : memory.known) {
      if (known.cache == cache) candidates.push_back(known);
    }
  }
  std::optional<Known> before;
  for (Known& known : candidates) {
    if (!SameCluster(connection, known.topology, now, wait)) continue;
    before = std::move(known);
    break;
  }
  Losses lost;
  if (before) AddLost(before->topology, now, lost);
  if (!earlier.empty() && !accepted) {
    const Known told = Recall(cache, earlier);
    const bool newer = !before || before->topology.version < told.topology.version;
    if (newer && SameCluster(connection, told.topology, now, wait)) {
      AddLost(told.topology, now, lost);
      lost.Add(told.lost);
    }
  }

  if (!lost.empty() && KeepsData(connection, now, wait)) lost.clear();
  Losses away;
  if (before) {
    for (const auto& [partition, node] : before->away) {
      if (now.Primary(partition) == nullptr) away.Add(partition, node);
    }
  }
  AddAway(before ? &before->topology : nullptr, now, connection, wait, away);

  const std::lock_guard<std::mutex> lock(memory.mutex);
  Known mine{cache, now, std::move(lost), std::move(away)};
  for (auto known = memory.known.begin(); known != memory.known.end();) {
    const bool same = known->cache == cache && (SharesNode(known->topology, now) ||
                                                (before && SharesNode(known->topology, before->topology)));
    if (!same) {
      ++known;
      continue;
    }
    mine.lost.Add(known->lost);
    // Somebody else may have looked later than the answer that `now` is.
    if (now.version < known->topology.version) mine.topology = known->topology;
    known = memory.known.erase(known);
  }
  memory.known.push_front(mine);
  if (memory.known.size() > kMaxKnown) memory.known.pop_back();
  return {mine.lost, mine.away};
}

void ForgetOwners(const std::string& cache) {
  Memory& memory = Process();
  const std::lock_guard<std::mutex> lock(memory.mutex);
  memory.known.remove_if([&](const Known& known) { return known.cache == cache; });
  if (memory.accepted.size() >= kMaxKnown) memory.accepted.clear();
  memory.accepted.insert(cache);
}

}  // namespace ignite_strategy
