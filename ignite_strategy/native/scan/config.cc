#include "native/scan/config.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ignite_strategy {
namespace {

// Both ends of a graph run this library; another number means that they run different versions of it.
constexpr std::uint32_t kFormat = 0x49475303;

void PutText(Writer& writer, const std::string& text) {
  writer.Put<std::int32_t>(static_cast<std::int32_t>(text.size())).PutBytes(text.data(), text.size());
}

std::string GetText(Reader& reader) {
  const std::size_t size = reader.Count(1);
  return std::string(reinterpret_cast<const char*>(reader.Bytes(size)), size);
}

void PutColumn(Writer& writer, const ColumnSpec& column) {
  writer.Put<std::int32_t>(static_cast<std::int32_t>(column.path.size()));
  for (const std::string& part : column.path) PutText(writer, part);
  writer.Put(column.type_code).Put(column.length).Put(static_cast<std::uint8_t>(column.layout));
  writer.Put(column.repeated).PutBool(column.map).PutBool(column.declared);
  writer.Put(static_cast<std::uint8_t>(column.nulls)).PutBool(column.item_mask);
  writer.PutBool(column.forms.decimal_float64);
  writer.PutBool(column.forms.enum_name).PutBool(column.forms.timestamp_millis);
}

ColumnSpec GetColumn(Reader& reader) {
  ColumnSpec column;
  column.path.resize(reader.Count(4));
  for (std::string& part : column.path) part = GetText(reader);
  column.type_code = reader.Get<std::uint8_t>();
  column.length = reader.Get<std::int64_t>();
  column.layout = static_cast<ArrayLayout>(reader.Get<std::uint8_t>());
  column.repeated = reader.Get<std::uint8_t>();
  column.map = reader.GetBool();
  column.declared = reader.GetBool();
  column.nulls = static_cast<NullPolicy>(reader.Get<std::uint8_t>());
  column.item_mask = reader.GetBool();
  column.forms.decimal_float64 = reader.GetBool();
  column.forms.enum_name = reader.GetBool();
  column.forms.timestamp_millis = reader.GetBool();
  if (FindType(column.type_code) == nullptr) {
    throw Error(Code::kInvalidArgument, "unknown type code " + std::to_string(column.type_code));
  }
  if (column.layout > ArrayLayout::kPadded || column.nulls > NullPolicy::kDrop || column.length < -1 ||
      (column.item_mask && !column.is_array())) {
    throw Error(Code::kInvalidArgument, "column " + column.Name() + " contradicts itself");
  }
  return column;
}

ScanConfig ParseBody(Reader& reader) {
  ScanConfig config;
  config.cache = GetText(reader);
  config.endpoints.resize(reader.Count(6));
  for (Endpoint& endpoint : config.endpoints) {
    endpoint.host = GetText(reader);
    endpoint.port = reader.Get<std::uint16_t>();
  }
  config.local = reader.GetBool();
  config.use_environment = reader.GetBool();
  if (reader.GetBool()) {
    Partitions partitions(reader.Count(4));
    for (std::int32_t& partition : partitions) partition = reader.Get<std::int32_t>();
    config.partitions = std::move(partitions);
  }
  config.intersect = reader.GetBool();
  config.page_size = reader.Get<std::int32_t>();
  config.bytes_per_row = reader.Get<double>();
  config.batch_size = reader.Get<std::int64_t>();
  config.drop_remainder = reader.GetBool();
  config.grouped = reader.GetBool();
  config.parallel_reads = reader.Get<std::int32_t>();
  config.deterministic = reader.GetBool();
  config.owners = GetText(reader);
  config.timeouts.connect = Millis(reader.Get<std::int64_t>());
  config.timeouts.request = Millis(reader.Get<std::int64_t>());
  config.security = SecuritySettings::Parse(GetText(reader));
  const std::size_t columns = reader.Count(22);
  for (std::size_t i = 0; i < columns; ++i) config.columns.push_back(GetColumn(reader));
  config.value_type.type_code = reader.Get<std::uint8_t>();
  config.value_type.type_id = reader.Get<std::int32_t>();
  config.value_type.skip_others = reader.GetBool();
  if (reader.GetBool()) {
    SqlQuery& sql = config.sql.emplace();
    sql.schema = GetText(reader);
    sql.text = GetText(reader);
    sql.argument_count = reader.Get<std::int32_t>();
    sql.arguments = GetText(reader);
    sql.columns.resize(reader.Count(4));
    for (std::string& column : sql.columns) column = GetText(reader);
    sql.every_task = reader.GetBool();
  }
  return config;
}

Partitions Intersect(const Partitions& a, const Partitions& b) {
  Partitions both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

// The partitions that this process is meant to read; nothing = all.
std::optional<Partitions> Assigned(const ScanConfig& config, const DatasetEnvironment& environment) {
  if (config.sql && config.sql->every_task) return std::nullopt;
  if (config.sql && environment.assignment && environment.assignment->count(config.cache) == 0) {
    throw Error(Code::kInvalidArgument,
                config.Where() +
                    " would run whole in every task: say with cache_name= which cache's partitions "
                    "this task is to read (IGNITE_STRATEGY_PARTITIONS assigns some of each cache of the "
                    "job), or that it is meant so with every_task=True");
  }
  if (environment.assignment) {
    const auto found = environment.assignment->find(config.cache);
    if (found != environment.assignment->end()) {
      if (found->second.empty()) {
        throw Error(Code::kInvalidArgument, "IGNITE_STRATEGY_PARTITIONS assigns no partition of cache '" +
                                                config.cache + "' to this task");
      }
      return found->second;
    }
    // A cache that the assignment does not name is read whole by every task: a lookup table.
    return std::nullopt;
  }
  return environment.part;
}

}  // namespace

std::string ScanConfig::Serialize() const {
  Writer writer;
  writer.Put(kFormat);
  PutText(writer, cache);
  writer.Put<std::int32_t>(static_cast<std::int32_t>(endpoints.size()));
  for (const Endpoint& endpoint : endpoints) {
    PutText(writer, endpoint.host);
    writer.Put(endpoint.port);
  }
  writer.PutBool(local).PutBool(use_environment).PutBool(partitions.has_value());
  if (partitions) {
    writer.Put<std::int32_t>(static_cast<std::int32_t>(partitions->size()));
    for (const std::int32_t partition : *partitions) writer.Put(partition);
  }
  writer.PutBool(intersect)
      .Put(page_size)
      .Put(bytes_per_row)
      .Put(batch_size)
      .PutBool(drop_remainder)
      .PutBool(grouped);
  writer.Put(parallel_reads).PutBool(deterministic);
  PutText(writer, owners);
  writer.Put<std::int64_t>(timeouts.connect.count()).Put<std::int64_t>(timeouts.request.count());
  PutText(writer, security.Serialize());
  writer.Put<std::int32_t>(static_cast<std::int32_t>(columns.size()));
  for (const ColumnSpec& column : columns) PutColumn(writer, column);
  writer.Put(value_type.type_code).Put(value_type.type_id).PutBool(value_type.skip_others);
  writer.PutBool(sql.has_value());
  if (sql) {
    PutText(writer, sql->schema);
    PutText(writer, sql->text);
    writer.Put(sql->argument_count);
    PutText(writer, sql->arguments);
    writer.Put<std::int32_t>(static_cast<std::int32_t>(sql->columns.size()));
    for (const std::string& column : sql->columns) PutText(writer, column);
    writer.PutBool(sql->every_task);
  }
  return std::string(writer.bytes().begin(), writer.bytes().end());
}

std::string ScanConfig::Where() const {
  if (!sql) return "cache '" + cache + "'";
  return "SQL '" + sql->text.substr(0, 80) + (sql->text.size() > 80 ? "..." : "") + "'";
}

ScanConfig ScanConfig::Parse(const std::string& bytes) {
  Reader reader(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  try {
    if (reader.Get<std::uint32_t>() != kFormat) {
      throw Error(Code::kInvalidArgument, "it was made by another version of ignite_strategy");
    }
    ScanConfig config = ParseBody(reader);
    if (reader.left() != 0) throw Error(Code::kInvalidArgument, "there are bytes after its end");
    return config;
  } catch (const Error& error) {
    throw Error(Code::kInvalidArgument, "this dataset's description cannot be read: " + error.message());
  }
}

ScanConfig ApplyEnvironment(ScanConfig config, const DatasetEnvironment& environment) {
  if (!config.use_environment) return config;
  if (environment.cache_name && !config.sql) config.cache = *environment.cache_name;
  if (config.endpoints.empty()) config.endpoints.push_back({"localhost", 10800});
  if (environment.host) {
    const std::uint16_t port = config.endpoints.front().port;
    config.endpoints = {Endpoint{*environment.host, environment.port.value_or(port)}};
  } else if (environment.port) {
    for (Endpoint& endpoint : config.endpoints) endpoint.port = *environment.port;
  }
  if (environment.local) config.local = *environment.local;
  if (environment.page_size) config.page_size = *environment.page_size;

  const std::optional<Partitions> assigned = Assigned(config, environment);
  if (!assigned) return config;
  config.shared = true;
  if (!config.intersect || !config.partitions) {
    config.partitions = assigned;
    return config;
  }
  const Partitions both = Intersect(*assigned, *config.partitions);
  if (both.empty()) {
    throw Error(Code::kInvalidArgument, "partitions=" + FormatPartitions(*config.partitions) + " of cache '" +
                                            config.cache + "' and the partitions assigned to this task (" +
                                            FormatPartitions(*assigned) + ") have none in common");
  }
  config.partitions = both;
  return config;
}

ScanConfig ForThisProcess(ScanConfig config) {
  SecurityEnvironment security;
  if (config.use_environment) {
    config = ApplyEnvironment(std::move(config), ReadDatasetEnvironment());
    security = ReadSecurityEnvironment(kDatasetPrefixes);
  }
  const std::shared_ptr<const Security> resolved = config.security.Resolve(security);
  for (Endpoint& endpoint : config.endpoints) endpoint.security = resolved;
  return config;
}

}  // namespace ignite_strategy
