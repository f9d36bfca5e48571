#include "native/scan/topology.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "native/scan/cursor.h"
#include "native/wire/partition.h"

namespace ignite_strategy {
namespace {

constexpr std::int32_t kUsualPartitions = 1024;  // Ignite's default
constexpr std::int16_t kCacheGetConfiguration = 1055, kCacheNodePartitions = 1100, kCachePartitions = 1101,
                       kNodesEndpoints = 5102, kQueryScan = 2000, kResourceClose = 0;
constexpr std::int32_t kInvalidOperation = 2, kCacheDoesNotExist = 1000;
constexpr std::int32_t kReplicatedMode = 1;
// After a node has left, the nodes take seconds to agree on the partitions; the pauses add up to 17 s.
constexpr int kAttempts = 40;
constexpr Millis kFirstPause{5}, kLongestPause{500};

using Answers = std::map<std::int64_t, Response>;

Uuid RawUuid(Reader& reader) {
  Uuid uuid;
  uuid.most = reader.Get<std::uint64_t>();
  uuid.least = reader.Get<std::uint64_t>();
  return uuid;
}

std::vector<std::string> Names(Reader& reader) {
  std::vector<std::string> names;
  const std::size_t count = reader.Count(1);
  for (std::size_t i = 0; i < count; ++i) {
    const std::optional<std::string> name = reader.TypedString();
    if (name && !name->empty() && std::find(names.begin(), names.end(), *name) == names.end())
      names.push_back(*name);
  }
  return names;
}

std::vector<std::int32_t> PartitionList(Reader& reader) {
  std::vector<std::int32_t> partitions(reader.Count(4));
  for (std::int32_t& partition : partitions) partition = GetPartition(reader);
  return partitions;
}

std::vector<Endpoint> Endpoints(const std::vector<std::string>& names, std::int32_t port) {
  std::vector<Endpoint> endpoints;
  if (port < 1 || port > 65535) return endpoints;
  for (const std::string& name : names) endpoints.push_back({name, static_cast<std::uint16_t>(port)});
  return endpoints;
}

// The head of the answer to operation 1055.
void ParseConfiguration(Reader reader, CacheTopology& topology) {
  reader.Skip(4 + 4);  // length, atomicity
  topology.backups = reader.Get<std::int32_t>();
  topology.replicated = reader.Get<std::int32_t>() == kReplicatedMode;
  reader.GetBool();  // copy on read
  topology.region = reader.TypedString().value_or(std::string());
  reader.Skip(1 + 1);      // eager expiry, statistics
  reader.TypedString();    // group
  reader.Skip(8 + 4 + 4);  // lock timeout, concurrent operations, query iterators
  reader.TypedString();    // name
  reader.GetBool();        // on-heap
  topology.loss_policy = reader.Get<std::int32_t>();
}

struct Listing {
  std::int64_t version = 0;
  std::vector<CacheNode> nodes;
  std::vector<std::string> gone;
};

// Operation 5102.
Listing ParseNodes(Reader reader) {
  Listing listing;
  listing.version = reader.Get<std::int64_t>();
  const std::size_t added = reader.Count(24);
  for (std::size_t i = 0; i < added; ++i) {
    CacheNode node;
    node.id = RawUuid(reader).ToString();
    const auto port = reader.Get<std::int32_t>();
    node.endpoints = Endpoints(Names(reader), port);
    listing.nodes.push_back(std::move(node));
  }
  const std::size_t removed = reader.Count(16);
  for (std::size_t i = 0; i < removed; ++i) listing.gone.push_back(RawUuid(reader).ToString());
  return listing;
}

struct Owned {
  std::string node;
  std::vector<std::int32_t> partitions;
};

// Operation 1101; nothing where it does not apply: REPLICATED caches, custom affinity.
std::optional<std::vector<Owned>> ParsePartitions(Reader reader, std::int32_t cache_id,
                                                  TopologyVersion* version) {
  version->major = reader.Get<std::int64_t>();
  version->minor = reader.Get<std::int32_t>();
  const std::size_t groups = reader.Count(5);
  for (std::size_t group = 0; group < groups; ++group) {
    const bool applicable = reader.GetBool();
    bool ours = false;
    const std::size_t caches = reader.Count(4);
    for (std::size_t i = 0; i < caches; ++i) {
      ours = reader.Get<std::int32_t>() == cache_id || ours;
      if (applicable) reader.Skip(8 * reader.Count(8));
    }
    if (!applicable) continue;
    std::vector<Owned> owned(reader.Count(5));
    for (Owned& one : owned) {
      const std::optional<Uuid> id = reader.TypedUuid();
      one.node = id ? id->ToString() : std::string();
      one.partitions = PartitionList(reader);
    }
    if (ours) return owned;
  }
  return std::nullopt;
}

// Operation 1100, which names nodes by port and addresses. Where the node list is there too, they are joined
// by both; a description that fits several nodes or none is a node of its own.
std::vector<Owned> ParseNodePartitions(Reader reader, CacheTopology& topology) {
  std::vector<Owned> owned;
  const std::size_t count = reader.Count(12);
  for (std::size_t i = 0; i < count; ++i) {
    const auto port = reader.Get<std::int32_t>();
    const std::vector<std::string> names = Names(reader);
    const std::vector<Endpoint> endpoints = Endpoints(names, port);
    std::vector<std::string> fit;
    for (const CacheNode& node : topology.nodes) {
      const bool all =
          !endpoints.empty() && std::all_of(endpoints.begin(), endpoints.end(), [&](const Endpoint& one) {
            return std::find(node.endpoints.begin(), node.endpoints.end(), one) != node.endpoints.end();
          });
      if (all) fit.push_back(node.id);
    }
    Owned one;
    if (fit.size() == 1) {
      one.node = fit.front();
    } else {
      for (const std::string& name : names) one.node += (one.node.empty() ? "" : ",") + name;
      one.node += ":" + std::to_string(port);
      if (topology.Find(one.node) < 0) topology.nodes.push_back({one.node, endpoints});
    }
    one.partitions = PartitionList(reader);
    owned.push_back(std::move(one));
  }
  return owned;
}

void Place(const std::vector<Owned>& owned, CacheTopology& topology) {
  std::int32_t last = -1;
  for (const Owned& one : owned) {
    for (const std::int32_t partition : one.partitions) last = std::max(last, partition);
  }
  topology.primary.assign(static_cast<std::size_t>(last + 1), -1);
  for (const Owned& one : owned) {
    std::int32_t node = topology.Find(one.node);
    if (node < 0) {  // it has no client connector, or joined between two answers
      node = static_cast<std::int32_t>(topology.nodes.size());
      topology.nodes.push_back({one.node, {}});
    }
    for (const std::int32_t partition : one.partitions)
      topology.primary[static_cast<std::size_t>(partition)] = node;
  }
}

// The answers to requests that were sent together, in whatever order they come.
Response Take(Connection& connection, Answers& answers, std::int64_t id, const Wait& wait) {
  while (answers.count(id) == 0) {
    Response response = connection.Receive(wait);
    const std::int64_t got = response.request_id;
    answers[got] = std::move(response);
  }
  Response response = std::move(answers[id]);
  answers.erase(id);
  return response;
}

// False if the answers do not belong together, because a node joined or left in between.
bool Attempt(Connection& connection, const std::string& cache, const Wait& wait, CacheTopology& topology) {
  const std::string doing = "asking for the partitions of cache '" + cache + "'";
  const Writer prefix = CachePrefix(cache);
  const std::int32_t cache_id = JavaHash(cache);
  const bool ids = connection.version().AtLeast(1, 4);
  const bool lists = connection.Has(Feature::kNodeEndpoints);
  const std::int64_t configuration = connection.Send(kCacheGetConfiguration, prefix, wait);
  std::int64_t nodes = 0, partitions = 0;
  if (lists)
    nodes = connection.Send(kNodesEndpoints, Writer().Put<std::int64_t>(-1).Put<std::int64_t>(-1), wait);
  if (ids && lists)
    partitions = connection.Send(kCachePartitions, Writer().Put<std::int32_t>(1).Put(cache_id), wait);
  Answers answers;
  topology = CacheTopology();
  const auto next = [&](std::int64_t id) {
    Response response = Take(connection, answers, id, wait);
    const TopologyVersion seen{response.topology_version, response.topology_minor};
    if (response.topology_changed && topology.version < seen) topology.version = seen;
    return response;
  };
  const Response about = next(configuration);
  const Response listed = lists ? next(nodes) : Response{};
  const Response placed = partitions != 0 ? next(partitions) : Response{};
  for (const Response* response : {&about, &listed, &placed}) {
    if (response->status == kInvalidOperation) return true;  // known stays false
    if (response->status == kCacheDoesNotExist)
      throw Error(Code::kNotFound,
                  connection.endpoint().ToString() + ": cache '" + cache + "' does not exist",
                  kCacheDoesNotExist);
    if (response->status != 0) throw connection.ServerError(*response, doing);
  }
  try {
    ParseConfiguration(about.payload(), topology);
    Listing listing;
    if (lists) listing = ParseNodes(listed.payload());
    topology.nodes = std::move(listing.nodes);
    TopologyVersion version;
    std::optional<std::vector<Owned>> owned;
    if (partitions != 0) owned = ParsePartitions(placed.payload(), cache_id, &version);
    if (owned && version.major != listing.version) return false;
    if (!owned) {
      const Response response = connection.Call(kCacheNodePartitions, prefix, doing, wait);
      owned = ParseNodePartitions(response.payload(), topology);
    }
    // Ignite 2.7 names no node for a cache that was made since a node joined last: then nothing is known.
    const bool placed_somewhere =
        std::any_of(owned->begin(), owned->end(), [](const Owned& one) { return !one.partitions.empty(); });
    if (!placed_somewhere) return true;
    if (topology.version < version) topology.version = version;
    if (topology.version.major < listing.version) topology.version = {listing.version, 0};
    Place(*owned, topology);
    topology.known = true;
    return true;
  } catch (const Error& error) {
    if (error.code() != Code::kDataLoss) throw;
    throw Error(error.code(), connection.endpoint().ToString() + ": unreadable answer while " + doing + ": " +
                                  error.message());
  }
}

}  // namespace

std::string CacheNode::Describe() const {
  if (endpoints.empty() || id.find(':') != std::string::npos) return "node " + id;
  return "node " + id + " (" + endpoints.front().ToString() + ")";
}

std::int32_t CacheTopology::Find(const std::string& node_id) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].id == node_id) return static_cast<std::int32_t>(i);
  }
  return -1;
}

const CacheNode* CacheTopology::Primary(std::int32_t partition) const {
  if (partition < 0 || static_cast<std::size_t>(partition) >= primary.size()) return nullptr;
  const std::int32_t node = primary[static_cast<std::size_t>(partition)];
  return node < 0 ? nullptr : &nodes[static_cast<std::size_t>(node)];
}

std::vector<std::int32_t> CacheTopology::PartitionsOf(std::int32_t node) const {
  std::vector<std::int32_t> partitions;
  for (std::size_t i = 0; i < primary.size(); ++i) {
    if (primary[i] == node) partitions.push_back(static_cast<std::int32_t>(i));
  }
  return partitions;
}

bool CacheTopology::HasExactly(std::int32_t node, std::vector<std::int32_t> partitions) const {
  if (node < 0) return false;
  std::sort(partitions.begin(), partitions.end());
  return partitions == PartitionsOf(node);
}

CacheTopology TakeTopology(Connection& connection, const std::string& cache, const Wait& wait) {
  CacheTopology topology;
  Millis pause = kFirstPause;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (attempt > 0) {
      wait.Sleep(pause, "waiting for the nodes to agree on who is primary for each partition");
      pause = std::min(2 * pause, kLongestPause);
    }
    try {
      if (Attempt(connection, cache, wait, topology)) return topology;
    } catch (const Error& error) {
      if (error.message().find(cache) != std::string::npos) throw;
      throw Error(error.code(), error.message() + " (asking for the partitions of cache '" + cache + "')",
                  error.server_status());
    }
  }
  throw Error(Code::kUnavailable,
              connection.endpoint().ToString() +
                  ": nodes kept joining or leaving while asking for the partitions of cache '" + cache + "'");
}

std::vector<CacheNode> ListNodes(Connection& connection, const Wait& wait) {
  if (!connection.Has(Feature::kNodeEndpoints)) return {};
  const Writer everything = Writer().Put<std::int64_t>(-1).Put<std::int64_t>(-1);
  return ParseNodes(connection.Call(kNodesEndpoints, everything, "listing the nodes", wait).payload()).nodes;
}

std::vector<std::string> NodesGoneSince(Connection& connection, std::int64_t since, const Wait& wait) {
  if (!connection.Has(Feature::kNodeEndpoints) || since < 1) return {};
  try {
    const Response response = connection.Call(kNodesEndpoints, Writer().Put(since).Put<std::int64_t>(-1),
                                              "asking which nodes have left", wait);
    return ParseNodes(response.payload()).gone;
  } catch (const Error& error) {
    // A version that this cluster does not remember, or never had, tells nothing.
    if (error.server_status() != 0 || error.code() == Code::kDataLoss) return {};
    throw;
  }
}

bool HasPartition(Connection& connection, const std::string& cache, std::int32_t partition,
                  const Wait& wait) {
  Writer request = CachePrefix(cache);
  request.PutNull().Put<std::int32_t>(1).Put(partition).PutBool(false);
  const std::string doing =
      "looking for partition " + std::to_string(partition) + " of cache '" + cache + "'";
  Response response;
  try {
    response = connection.Call(kQueryScan, request, doing, wait);
  } catch (const Error& error) {
    const bool invalid = error.message().find("Invalid partition number") != std::string::npos;
    if (error.server_status() == 0 || !invalid) throw;
    return false;
  }
  Reader reader = response.payload();
  const auto cursor = reader.Get<std::int64_t>();
  const std::uint8_t more = response.frame.empty() ? 0 : response.frame.back();
  if (more != 0) connection.Call(kResourceClose, Writer().Put(cursor), "closing a cursor", wait);
  return true;
}

std::int32_t SearchPartitionCount(Connection& connection, const std::string& cache, const Wait& wait) {
  std::int32_t there = 0, beyond = kMaxPartition + 1;  // partition 0 is always there
  for (const std::int32_t usual : {kUsualPartitions - 1, kUsualPartitions}) {
    (HasPartition(connection, cache, usual, wait) ? there : beyond) = usual;
    if (beyond <= kUsualPartitions - 1) break;
  }
  while (beyond - there > 1) {
    const std::int32_t middle = there + (beyond - there) / 2;
    (HasPartition(connection, cache, middle, wait) ? there : beyond) = middle;
  }
  return there + 1;
}

}  // namespace ignite_strategy
