#include "native/scan/sql_request.h"

#include <algorithm>

namespace ignite_strategy {
namespace {

constexpr std::int16_t kResourceClose = 0;
constexpr std::uint8_t kSelect = 1;
constexpr std::int32_t kMostRows = -1;  // no limit
constexpr std::int32_t kTextRows = 4096;

}  // namespace

Writer SqlRequest(const Connection& connection, const std::string& cache, const SqlQuery& sql,
                  const SqlOptions& options) {
  Writer request = CachePrefix(cache);
  request.PutTypedString(sql.schema).Put(options.page_rows).Put(kMostRows).PutTypedString(sql.text);
  request.Put(sql.argument_count).PutBytes(sql.arguments.data(), sql.arguments.size());
  request.Put(kSelect);
  // Distributed joins, local, replicated only, enforced join order, collocated: as the statement wants it.
  for (int i = 0; i < 5; ++i) request.PutBool(false);
  request.PutBool(options.lazy);
  request.Put<std::int64_t>(0).PutBool(options.names);  // the server's time limit
  if (!connection.Has(Feature::kQueryPartitions)) return request;
  if (options.partitions == nullptr) {
    request.Put<std::int32_t>(-1);
  } else {
    request.Put(static_cast<std::int32_t>(options.partitions->size()));
    for (const std::int32_t partition : *options.partitions) request.Put(partition);
  }
  request.Put<std::int32_t>(1);  // rows of one update
  return request;
}

std::vector<std::string> SqlTexts(Connection& connection, const std::string& cache, const SqlQuery& sql,
                                  std::int32_t columns, const std::string& doing, const Wait& wait) {
  SqlOptions options;
  options.page_rows = kTextRows;
  Response response;
  try {
    response = connection.Call(kQuerySqlFields, SqlRequest(connection, cache, sql, options), doing, wait);
  } catch (const Error& error) {
    if (error.server_status() == 0) throw;
    return {};
  }
  Reader reader = response.payload();
  const auto cursor = reader.Get<std::int64_t>();
  if (reader.Get<std::int32_t>() != columns) return {};
  const auto each = static_cast<std::size_t>(columns);
  std::vector<std::string> texts(reader.Count(each) * each);
  for (std::string& text : texts) text = reader.TypedString().value_or(std::string());
  if (reader.GetBool()) connection.Call(kResourceClose, Writer().Put(cursor), "closing a cursor", wait);
  return texts;
}

}  // namespace ignite_strategy
