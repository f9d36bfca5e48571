#include "native/scan/discover.h"

#include <algorithm>

#include "native/binary/types.h"
#include "native/scan/cursor.h"
#include "native/scan/fetcher.h"
#include "native/wire/pool.h"

namespace ignite_strategy {
namespace {

constexpr std::int16_t kCacheGetNames = 1050, kCacheGetConfiguration = 1055, kCacheNodePartitions = 1100;
constexpr std::int32_t kCacheDoesNotExist = 1000;
// Partitions that the sample looks into, beside the start of the whole cache.
constexpr std::int32_t kSampledPartitions = 8;

std::string Text(Reader& reader) { return reader.TypedString().value_or(std::string()); }

void SkipTexts(Reader& reader, int count) {
  for (int i = 0; i < count; ++i) reader.TypedString();
}

QueryEntity ParseQueryEntity(Reader& reader, const Version& version) {
  QueryEntity entity;
  entity.key_type = Text(reader);
  entity.value_type = Text(reader);
  reader.TypedString();  // table
  entity.key_field = Text(reader);
  entity.value_field = Text(reader);
  const std::size_t fields = reader.Count(5);
  for (std::size_t i = 0; i < fields; ++i) {
    EntityField field;
    field.name = Text(reader);
    field.java_type = Text(reader);
    field.is_key = reader.GetBool();
    reader.GetBool();                           // not null
    SkipValue(reader);                          // default value
    if (version.AtLeast(1, 2)) reader.Skip(8);  // precision, scale
    entity.fields.push_back(std::move(field));
  }
  const std::size_t aliases = reader.Count(2);
  for (std::size_t i = 0; i < aliases; ++i) SkipTexts(reader, 2);
  const std::size_t indexes = reader.Count(10);
  for (std::size_t i = 0; i < indexes; ++i) {
    reader.TypedString();  // name
    reader.Skip(1 + 4);    // type, inline size
    const std::size_t columns = reader.Count(2);
    for (std::size_t column = 0; column < columns; ++column) {
      reader.TypedString();
      reader.GetBool();  // descending
    }
  }
  return entity;
}

[[noreturn]] void NoSuchCache(Connection& connection, const std::string& cache, const Wait& wait) {
  const Response response = connection.Call(kCacheGetNames, Writer(), "listing the caches", wait);
  Reader reader = response.payload();
  std::vector<std::string> names(reader.Count(1));
  for (std::string& name : names) name = Text(reader);
  std::sort(names.begin(), names.end());
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < 50; ++i) list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > 50) list += ", and " + std::to_string(names.size() - 50) + " more";
  throw Error(Code::kNotFound,
              connection.endpoint().ToString() + ": cache '" + cache + "' does not exist; " +
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
    for (std::size_t i = 0; i < partitions; ++i) last = std::max(last, reader.Get<std::int32_t>());
  }
  return last + 1;
}

// The whole cache first, then some partitions from all over the range.
std::vector<std::int32_t> Looks(std::int32_t partitions) {
  std::vector<std::int32_t> looks{-1};
  const std::int32_t count = std::min(partitions, kSampledPartitions);
  for (std::int32_t i = 0; i < count; ++i) {
    looks.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) * partitions / count));
  }
  return looks;
}

}  // namespace

std::vector<QueryEntity> ParseQueryEntities(Reader& reader, const Version& version) {
  reader.Skip(4 + 4 + 4 + 4 + 1);  // length, atomicity, backups, mode, copy on read
  SkipTexts(reader, 1);            // data region
  reader.Skip(1 + 1);              // eager expiry, statistics
  SkipTexts(reader, 1);            // group
  reader.Skip(8 + 4 + 4);          // lock timeout, concurrent operations, query iterators
  SkipTexts(reader, 1);            // name
  // on-heap, loss policy, query details and parallelism, read from backup, rebalancing (batch size, prefetch,
  // delay, mode, order, throttle, timeout), SQL escape all, inline size
  reader.Skip(1 + 4 + 4 + 4 + 1 + 4 + 8 + 8 + 4 + 4 + 8 + 8 + 1 + 4);
  SkipTexts(reader, 1);  // SQL schema
  reader.Skip(4);        // write synchronization
  const std::size_t keys = reader.Count(2);
  for (std::size_t i = 0; i < keys; ++i) SkipTexts(reader, 2);
  std::vector<QueryEntity> entities;
  const std::size_t count = reader.Count(17);
  for (std::size_t i = 0; i < count; ++i) entities.push_back(ParseQueryEntity(reader, version));
  return entities;
}

CacheFacts Discover(const Endpoint& endpoint, const Timeouts& timeouts, const std::string& cache, bool local,
                    const Wait& wait) {
  CacheFacts facts;
  {
    const Lease lease = Pool::Process().Acquire(endpoint, timeouts, wait);
    facts.entities = Entities(*lease, cache, wait);
    facts.partitions = PartitionCount(*lease, cache, wait);
  }
  for (const QueryEntity& entity : facts.entities) {
    for (const std::string& name : {entity.key_type, entity.value_type}) {
      const auto type = FetchType(endpoint, timeouts, JavaLowerHash(name), wait);
      if (type) facts.types[name] = *type;
    }
  }
  facts.sample = TakeSample(endpoint, timeouts, cache, local, Looks(facts.partitions), wait);
  return facts;
}

}  // namespace ignite_strategy
