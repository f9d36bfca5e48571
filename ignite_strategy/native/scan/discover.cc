#include "native/scan/discover.h"

#include <algorithm>
#include <set>

#include "native/binary/types.h"
#include "native/scan/fetcher.h"
#include "native/scan/losses.h"
#include "native/scan/sql_request.h"
#include "native/wire/partition.h"
#include "native/wire/pool.h"

namespace ignite_strategy {
namespace {

// Of the caches that a message names.
constexpr std::size_t kMostNames = 50, kLongestName = 80;

constexpr std::int16_t kCacheGetNames = 1050, kCacheGetConfiguration = 1055, kCacheNodePartitions = 1100;
constexpr std::int32_t kCacheDoesNotExist = 1000;
// Partitions that the sample looks into, beside the start of the whole cache.
constexpr std::int32_t kSampledPartitions = 8;

std::string Text(Reader& reader) { return reader.TypedString().value_or(std::string()); }

// For a message: whoever made a cache chose its name.
std::string Readable(const std::string& name) {
  std::string shown;
  for (const char c : name) shown += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  if (shown.size() > kLongestName) shown = shown.substr(0, kLongestName) + "...";
  return shown;
}

[[noreturn]] void NoSuchCache(Connection& connection, const std::string& cache, const Wait& wait) {
  const Response response = connection.Call(kCacheGetNames, Writer(), "listing the caches", wait);
  Reader reader = response.payload();
  std::vector<std::string> names(reader.Count(1));
  for (std::string& name : names) name = Text(reader);
  std::sort(names.begin(), names.end());
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kMostNames; ++i)
    list += (i == 0 ? "" : ", ") + Readable(names[i]);
  if (names.size() > kMostNames) list += ", and " + std::to_string(names.size() - kMostNames) + " more";
  throw Error(Code::kNotFound,
              connection.endpoint().ToString() + ": cache '" + Readable(cache) + "' does not exist; " +
                  (names.empty() ? "there is no cache yet" : "there are: " + list) +
                  " (a table T made by CREATE TABLE is the cache SQL_PUBLIC_T)",
              kCacheDoesNotExist);
}

std::vector<QueryEntity> Entities(Connection& connection, const std::string& cache, const Wait& wait) {
  const std::string doing = "asking for the configuration of cache '" + cache + "'";
  Response response;
  try {
    response = connection.Call(kCacheGetConfiguration, CachePrefix(cache), doing, wait);
  } catch (const Error& error) {
    if (error.server_status() == kCacheDoesNotExist) NoSuchCache(connection, cache, wait);
    throw;
  }
  try {
    Reader reader = response.payload();
    return ParseQueryEntities(reader, connection.version());
  } catch (const Error& error) {
    throw Error(error.code(), connection.endpoint().ToString() + ": unreadable answer while " + doing + ": " +
                                  error.message());
  }
}

// What SQL's system views say of the cache's tables. Nothing where there is no SQL, or none that has them.
std::vector<TableColumn> Columns(Connection& connection, const std::string& cache, const Wait& wait) {
  SqlQuery sql;
  sql.schema = "PUBLIC";
  sql.text =
      "SELECT t.VALUE_TYPE_NAME, c.COLUMN_NAME, c.TYPE FROM SYS.TABLES t JOIN SYS.TABLE_COLUMNS c ON "
      "c.SCHEMA_NAME = t.SCHEMA_NAME AND c.TABLE_NAME = t.TABLE_NAME WHERE t.CACHE_NAME = ? AND "
      "c.COLUMN_NAME NOT IN ('_KEY', '_VAL')";
  Writer argument;
  argument.PutTypedString(cache);
  sql.argument_count = 1;
  sql.arguments.assign(argument.bytes().begin(), argument.bytes().end());
  const std::vector<std::string> texts =
      SqlTexts(connection, "", sql, 3, "asking for the columns of cache '" + cache + "'", wait);
  std::vector<TableColumn> columns(texts.size() / 3);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].value_type = texts[3 * i];
    columns[i].name = texts[3 * i + 1];
    columns[i].java_type = texts[3 * i + 2];
  }
  return columns;
}

std::int32_t PartitionCount(Connection& connection, const std::string& cache, const Wait& wait) {
  const std::string doing = "asking for the partitions of cache '" + cache + "'";
  const Response response = connection.Call(kCacheNodePartitions, CachePrefix(cache), doing, wait);
  Reader reader = response.payload();
  std::int32_t last = -1;
  const std::size_t nodes = reader.Count(12);
  for (std::size_t node = 0; node < nodes; ++node) {
    reader.Skip(4);  // port
    const std::size_t addresses = reader.Count(1);
    for (std::size_t i = 0; i < addresses; ++i) reader.TypedString();
    const std::size_t partitions = reader.Count(4);
    for (std::size_t i = 0; i < partitions; ++i) last = std::max(last, GetPartition(reader));
  }
  return last < 0 ? SearchPartitionCount(connection, cache, wait) : last + 1;
}

// The whole cache first, then partitions from all over the range: some, or everyone.
std::vector<std::int32_t> Looks(std::int32_t partitions, bool everywhere) {
  std::vector<std::int32_t> looks{-1};
  const std::int32_t count = everywhere ? partitions : std::min(partitions, kSampledPartitions);
  for (std::int32_t i = 0; i < count; ++i) {
    looks.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) * partitions / count));
  }
  return looks;
}

// The looks, by the nodes that have what is looked at. `topology`: known = false if that is not known.
std::vector<LooksAt> LooksByNode(const CacheTopology& topology, std::int32_t partitions, bool everywhere,
                                 bool local) {
  // A node that is asked for what it holds itself refuses the partitions of others.
  if (local) return {{std::nullopt, true, {-1}}};
  std::vector<std::int32_t> all = Looks(partitions, everywhere);
  if (!topology.known || topology.replicated || topology.nodes.size() < 2)
    return {{std::nullopt, false, std::move(all)}};
  std::vector<LooksAt> by_node;
  for (const CacheNode& node : topology.nodes) by_node.push_back({node, true, {-1}});
  // A partition's own query needs no `local`, and finds it where it is by then.
  for (const CacheNode& node : topology.nodes) by_node.push_back({node, false, {}});
  by_node.push_back({std::nullopt, false, {}});
  for (const std::int32_t partition : all) {
    if (partition < 0) continue;
    const CacheNode* node = topology.Primary(partition);
    const std::size_t at = node == nullptr
                               ? by_node.size() - 1
                               : topology.nodes.size() + static_cast<std::size_t>(topology.Find(node->id));
    by_node[at].partitions.push_back(partition);
  }
  by_node.erase(std::remove_if(by_node.begin(), by_node.end(),
                               [](const LooksAt& looks) { return looks.partitions.empty(); }),
                by_node.end());
  return by_node;
}

}  // namespace

CacheFacts Discover(const Endpoint& endpoint, const Timeouts& timeouts, const std::string& cache, bool local,
                    const std::string& type, bool everywhere, const Wait& wait) {
  CacheFacts facts;
  CacheTopology topology;
  {
    const Lease lease = Pool::Process().Acquire(endpoint, timeouts, wait);
    facts.entities = Entities(*lease, cache, wait);
    if (!facts.entities.empty()) facts.columns = Columns(*lease, cache, wait);
    facts.partitions = PartitionCount(*lease, cache, wait);
    topology = TakeTopology(*lease, cache, wait);
  }
  std::set<std::string> names;
  if (!type.empty()) names.insert(type);
  for (const QueryEntity& entity : facts.entities) {
    names.insert(entity.key_type);
    names.insert(entity.value_type);
  }
  for (const std::string& name : names) {
    const auto found = FetchType(endpoint, timeouts, JavaLowerHash(name), wait);
    if (found) facts.types[name] = *found;
  }
  try {
    facts.sample = TakeSample(endpoint, timeouts, cache,
                              LooksByNode(topology, facts.partitions, everywhere, local), wait);
  } catch (const Error& error) {
    if (!LostByServer(error)) throw;
    const Lease lease = Pool::Process().Acquire(endpoint, timeouts, wait);
    throw ExplainLoss(error, *lease, cache, wait);
  }
  return facts;
}

}  // namespace ignite_strategy
