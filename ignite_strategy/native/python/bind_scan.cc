// Scans and samples for Python without TensorFlow.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "native/binary/decoder.h"
#include "native/python/bindings.h"
#include "native/scan/config.h"
#include "native/scan/discover.h"
#include "native/scan/report.h"
#include "native/scan/scan.h"

namespace nb = nanobind;

namespace ignite_strategy {
namespace {

constexpr Millis kSlice{500};

using PythonEndpoints = std::vector<std::pair<std::string, std::uint16_t>>;
// (path, type code, declared length or -1, layout of arrays[, options]); the options are those of ColumnSpec.
using PythonColumn = nb::object;

std::vector<Endpoint> ToEndpoints(const PythonEndpoints& endpoints) {
  std::vector<Endpoint> result;
  for (const auto& [host, port] : endpoints) result.push_back({host, port});
  return result;
}

template <typename Enum>
Enum ToEnum(const nb::handle& number, Enum last) {
  const auto value = nb::cast<std::uint8_t>(number);
  if (value > static_cast<std::uint8_t>(last)) {
    throw Error(Code::kInvalidArgument,
                "an option of a column has the unknown number " + std::to_string(value));
  }
  return static_cast<Enum>(value);
}

void SetOptions(const nb::dict& options, ColumnSpec* spec) {
  for (const auto& [name, value] : options) {
    const auto option = nb::cast<std::string>(name);
    if (option == "repeated") {
      spec->repeated = nb::cast<std::uint8_t>(value);
    } else if (option == "map") {
      spec->map = nb::cast<bool>(value);
    } else if (option == "declared") {
      spec->declared = nb::cast<bool>(value);
    } else if (option == "nulls") {
      spec->nulls = ToEnum<NullPolicy>(value, NullPolicy::kDrop);
    } else if (option == "item_mask") {
      spec->item_mask = nb::cast<bool>(value);
    } else if (option == "decimal_float64") {
      spec->forms.decimal_float64 = nb::cast<bool>(value);
    } else if (option == "enum_name") {
      spec->forms.enum_name = nb::cast<bool>(value);
    } else if (option == "timestamp_millis") {
      spec->forms.timestamp_millis = nb::cast<bool>(value);
    } else {
      throw Error(Code::kInvalidArgument, "a column has no option '" + option + "'");
    }
  }
}

std::vector<ColumnSpec> ToColumns(const std::vector<PythonColumn>& columns) {
  std::vector<ColumnSpec> specs;
  for (const PythonColumn& column : columns) {
    const auto parts = nb::cast<nb::sequence>(column);
    const std::size_t size = nb::len(parts);
    if (size != 4 && size != 5) throw Error(Code::kInvalidArgument, "a column of 4 or 5 parts is wanted");
    ColumnSpec spec;
    spec.path = nb::cast<std::vector<std::string>>(parts[0]);
    spec.type_code = nb::cast<std::uint8_t>(parts[1]);
    spec.length = nb::cast<std::int64_t>(parts[2]);
    spec.layout = ToEnum<ArrayLayout>(parts[3], ArrayLayout::kPadded);
    if (size == 5) SetOptions(nb::cast<nb::dict>(parts[4]), &spec);
    specs.push_back(std::move(spec));
  }
  return specs;
}

ValueType ToValueType(const std::optional<std::tuple<std::uint8_t, std::int32_t, bool>>& value_type) {
  if (!value_type) return {};
  return {std::get<0>(*value_type), std::get<1>(*value_type), std::get<2>(*value_type)};
}

// schema, text, number of arguments, arguments, columns, every task
using PythonSql =
    std::tuple<std::string, std::string, std::int32_t, nb::bytes, std::vector<std::string>, bool>;

SqlQuery ToSql(const PythonSql& sql) {
  const auto& [schema, text, count, arguments, columns, every_task] = sql;
  return {schema, text, count, std::string(arguments.c_str(), arguments.size()), columns, every_task};
}

nb::bytes MakeConfig(const std::string& cache, const PythonEndpoints& endpoints,
                     const std::vector<PythonColumn>& columns, bool local, bool env,
                     const std::optional<Partitions>& partitions, bool intersect, std::int32_t page_size,
                     double bytes_per_row, std::int64_t batch_size, bool drop_remainder, bool grouped,
                     std::int32_t parallel_reads, bool deterministic, const nb::bytes& owners,
                     double connect_timeout, double request_timeout,
                     const std::optional<std::tuple<std::uint8_t, std::int32_t, bool>>& value_type,
                     const nb::bytes& security, const std::optional<PythonSql>& sql) {
  ScanConfig config;
  config.cache = cache;
  config.endpoints = ToEndpoints(endpoints);
  config.local = local;
  config.use_environment = env;
  config.partitions = partitions;
  config.intersect = intersect;
  config.page_size = page_size;
  config.bytes_per_row = bytes_per_row;
  config.batch_size = batch_size;
  config.drop_remainder = drop_remainder;
  config.grouped = grouped;
  config.parallel_reads = parallel_reads;
  config.deterministic = deterministic;
  config.owners.assign(owners.c_str(), owners.size());
  config.timeouts = {Seconds(connect_timeout, "connect_timeout"),
                     Seconds(request_timeout, "request_timeout")};
  config.security = SecuritySettings::Parse(std::string(security.c_str(), security.size()));
  config.columns = ToColumns(columns);
  config.value_type = ToValueType(value_type);
  if (sql) config.sql = ToSql(*sql);
  const std::string bytes = config.Serialize();
  return nb::bytes(bytes.data(), bytes.size());
}

nb::object Array(DType dtype, const std::vector<std::int64_t>& shape, Buffer buffer) {
  std::vector<std::size_t> sizes(shape.begin(), shape.end());
  std::uint8_t* data = buffer.Release();
  nb::capsule owner(data == nullptr ? std::aligned_alloc(64, 64) : data,
                    [](void* memory) noexcept { Buffer::Free(memory); });
  nb::dlpack::dtype type{};
  type.lanes = 1;
  type.bits = static_cast<std::uint8_t>(8 * ItemSize(dtype));
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
      type.code = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float);
      break;
    case DType::kUint16:
      type.code = static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt);
      break;
    case DType::kBool:
      type.code = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bool);
      break;
    default:
      type.code = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Int);
  }
  return nb::cast(nb::ndarray<nb::numpy>(data, sizes.size(), sizes.data(), owner, nullptr, type));
}

nb::object Strings(const Column& column) {
  nb::list strings;
  for (const std::string_view text : column.strings) strings.append(nb::bytes(text.data(), text.size()));
  if (column.shape.size() < 2) return strings;
  // Dense arrays: a list per row.
  nb::list rows;
  const auto length = static_cast<std::size_t>(column.shape[1]);
  for (std::size_t row = 0; row < static_cast<std::size_t>(column.shape[0]); ++row) {
    nb::list items;
    for (std::size_t i = 0; i < length; ++i) items.append(strings[row * length + i]);
    rows.append(items);
  }
  return rows;
}

// The values; (values, row splits) of a ragged column; {"values": either of them, "mask": ...} with a mask.
nb::object ToPython(Column& column) {
  nb::object values = column.dtype == DType::kString
                          ? Strings(column)
                          : Array(column.dtype, column.shape, std::move(column.data));
  if (!column.splits.empty()) {
    Buffer splits;
    const std::size_t bytes = column.splits.size() * sizeof(std::int64_t);
    std::memcpy(splits.Extend(bytes), column.splits.data(), bytes);
    values = nb::make_tuple(
        values, Array(DType::kInt64, {static_cast<std::int64_t>(column.splits.size())}, std::move(splits)));
  }
  if (!column.masked) return values;
  nb::dict both;
  both["values"] = values;
  both["mask"] = Array(DType::kBool, column.mask_shape, std::move(column.mask));
  return both;
}

// Types from responses of operation 3002 instead of a server; `types` must outlive it.
TypeCache Responses(const std::map<std::int32_t, nb::bytes>& types) {
  return TypeCache([&types](std::int32_t type_id) -> std::optional<TypeMetadata> {
    const auto found = types.find(type_id);
    if (found == types.end()) return std::nullopt;
    Reader reader(reinterpret_cast<const std::uint8_t*>(found->second.c_str()), found->second.size());
    return ParseTypeMetadata(reader);
  });
}

// Decodes rows that did not come from a server: `types` has responses of operation 3002 by type id.
nb::list DecodeRows(const nb::bytes& rows, std::int32_t count, const std::vector<PythonColumn>& columns,
                    const std::map<std::int32_t, nb::bytes>& types,
                    const std::optional<std::tuple<std::uint8_t, std::int32_t, bool>>& value_type) {
  const std::vector<ColumnSpec> specs = ToColumns(columns);
  TypeCache cache = Responses(types);
  RowDecoder decoder(specs, &cache, "these rows", ToValueType(value_type));
  BatchBuilder builder(specs, static_cast<std::size_t>(std::max(count, 0)), rows.size());
  Reader reader(reinterpret_cast<const std::uint8_t*>(rows.c_str()), rows.size());
  std::vector<Slot> slots(specs.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const Reader row = reader;
    if (!decoder.Locate(reader, slots)) continue;
    const int wrong = builder.Append(slots);
    if (wrong >= 0) {
      const auto column = static_cast<std::size_t>(wrong);
      throw decoder.WrongLength(row, specs[column], slots[column].count, builder.length(column));
    }
  }
  if (reader.left() != 0)
    throw Error(Code::kDataLoss, std::to_string(reader.left()) + " bytes after the last row");
  nb::list result;
  std::vector<Column> finished = builder.Finish();
  for (Column& column : finished) result.append(ToPython(column));
  return result;
}

// A pass for Python's own use.
class PythonScan {
 public:
  explicit PythonScan(const nb::bytes& config) {
    ScanConfig parsed = ScanConfig::Parse(std::string(config.c_str(), config.size()));
    scan_ = std::make_unique<Scan>(ForThisProcess(std::move(parsed)));
  }

  // The columns of the next batch, or None after the last one.
  nb::object Next() {
    if (!scan_) throw Error(Code::kFailedPrecondition, "this scan is closed");
    Batch batch;
    {
      const Wait wait = PythonWait();
      const WithoutPython unlocked;
      Scan::State state;
      do {
        state = scan_->Prepare(kSlice, wait.check);
      } while (state == Scan::State::kWait);
      if (state == Scan::State::kReady) batch = scan_->Take();
    }
    if (batch.columns.empty()) return nb::none();
    nb::list columns;
    for (Column& column : batch.columns) columns.append(ToPython(column));
    return columns;
  }

  // Runs the pass to its end and returns how many rows it had.
  std::int64_t Count() {
    if (!scan_) throw Error(Code::kFailedPrecondition, "this scan is closed");
    const Wait wait = PythonWait();
    const WithoutPython unlocked;
    std::int64_t rows = 0;
    while (true) {
      const Scan::State state = scan_->Prepare(kSlice, wait.check);
      if (state == Scan::State::kEnd) return rows;
      if (state == Scan::State::kReady) rows += scan_->Take().rows;
    }
  }

  void Close() { scan_.reset(); }

 private:
  std::unique_ptr<Scan> scan_;
};

// A server's names may be anything: they must not turn into an encoding error.
nb::object Name(const std::string& name) {
  return nb::steal(PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "replace"));
}

nb::dict ToPython(const Description& description) {
  nb::dict fields;
  for (const auto& [name, field] : description.fields) fields[Name(name)] = ToPython(field);
  nb::dict result;
  result["codes"] = description.type_codes;
  result["values"] = description.values;
  result["nulls"] = description.nulls;
  result["declared"] = description.declared;
  nb::set types;
  for (const std::string& type : description.types) types.add(Name(type));
  result["types"] = types;
  result["fields"] = fields;
  nb::dict parts;
  for (const auto& [name, part] : description.parts) parts[Name(name)] = ToPython(part);
  result["parts"] = parts;
  result["unnamed_fields"] = description.unnamed_fields;
  result["opaque"] = description.opaque;
  result["deep"] = description.deep;
  result["cyclic"] = description.cyclic;
  return result;
}

nb::tuple DescribeRows(const nb::bytes& rows, std::int32_t count,
                       const std::map<std::int32_t, nb::bytes>& types) {
  TypeCache cache = Responses(types);
  Describer describer(&cache);
  Reader reader(reinterpret_cast<const std::uint8_t*>(rows.c_str()), rows.size());
  for (std::int32_t i = 0; i < count; ++i) describer.AddRow(reader);
  nb::dict objects;
  for (const auto& [type_id, object] : describer.objects) objects[nb::int_(type_id)] = ToPython(object);
  return nb::make_tuple(ToPython(describer.key), ToPython(describer.val), objects);
}

nb::dict ToPython(const TypeMetadata& type) {
  nb::dict fields;
  for (const FieldMetadata& field : type.fields) fields[Name(field.name)] = field.type_code;
  return fields;
}

nb::dict ToPython(const QueryEntity& entity) {
  nb::list fields;
  for (const EntityField& field : entity.fields) {
    fields.append(nb::make_tuple(Name(field.name), Name(field.java_type), field.is_key));
  }
  nb::dict result;
  result["key_type"] = Name(entity.key_type);
  result["value_type"] = Name(entity.value_type);
  result["key_field"] = Name(entity.key_field);
  result["value_field"] = Name(entity.value_field);
  result["fields"] = fields;
  nb::dict aliases;
  for (const auto& [field, alias] : entity.aliases) aliases[Name(field)] = Name(alias);
  result["aliases"] = aliases;
  return result;
}

nb::dict PythonDiscover(const std::string& host, std::uint16_t port, const std::string& cache, bool local,
                        const std::string& type_name, bool everywhere, double connect_timeout,
                        double request_timeout, const nb::bytes& security, bool env) {
  const Timeouts timeouts{Seconds(connect_timeout, "connect_timeout"),
                          Seconds(request_timeout, "request_timeout")};
  const Endpoint endpoint{host, port, ResolveSecurity(security, env ? kDatasetPrefixes : kNoPrefixes)};
  CacheFacts facts;
  {
    const Wait wait = PythonWait();
    const WithoutPython unlocked;
    facts = Discover(endpoint, timeouts, cache, local, type_name, everywhere, wait);
  }
  nb::list entities;
  for (const QueryEntity& entity : facts.entities) entities.append(ToPython(entity));
  nb::dict types;
  for (const auto& [name, type] : facts.types) types[Name(name)] = ToPython(type);
  nb::dict result;
  result["entities"] = entities;
  result["types"] = types;
  result["partitions"] = facts.partitions;
  result["rows"] = facts.sample.rows;
  result["bytes"] = facts.sample.bytes;
  result["key"] = ToPython(facts.sample.key);
  result["val"] = ToPython(facts.sample.val);
  nb::dict objects;
  for (const auto& [type_id, object] : facts.sample.objects) objects[nb::int_(type_id)] = ToPython(object);
  result["objects"] = objects;
  nb::list columns;
  for (const TableColumn& column : facts.columns) {
    columns.append(nb::make_tuple(Name(column.value_type), Name(column.name), Name(column.java_type)));
  }
  result["columns"] = columns;
  return result;
}

const char* Kind(Support support) {
  switch (support) {
    case Support::kScalar:
      return "scalar";
    case Support::kArray:
      return "array";
    case Support::kSequence:
      return "sequence";
    case Support::kMap:
      return "map";
    case Support::kObject:
      return "object";
    case Support::kUnsupported:
      break;
  }
  return "unsupported";
}

// code -> (name, dtype, kind, Java class, code of the items)
nb::dict TypeTable() {
  nb::dict table;
  for (int type_code = 0; type_code < 256; ++type_code) {
    const TypeInfo* type = FindType(static_cast<std::uint8_t>(type_code));
    if (type == nullptr) continue;
    table[nb::int_(type_code)] =
        nb::make_tuple(type->name, DTypeName(type->dtype), Kind(type->support), type->java, type->item);
  }
  return table;
}

}  // namespace

void BindScan(nb::module_& module) {
  module.def(
      "type_table", &TypeTable,
      "Ignite's type codes: code -> (name, dtype, scalar|array|sequence|map|object|unsupported, Java class, "
      "code of an array's items).");
  module.def(
      "dtype_of",
      [](std::uint8_t type_code, bool decimal_float64, bool enum_name) {
        Forms forms;
        forms.decimal_float64 = decimal_float64;
        forms.enum_name = enum_name;
        return DTypeName(DTypeOf(type_code, forms));
      },
      nb::arg("code"), nb::arg("decimal_float64"), nb::arg("enum_name"),
      "The dtype of a scalar's value or of an array's items.");
  module.def("scan_config", &MakeConfig, nb::arg("cache"), nb::arg("endpoints"), nb::arg("columns"),
             nb::kw_only(), nb::arg("local") = false, nb::arg("env") = true,
             nb::arg("partitions") = nb::none(), nb::arg("intersect") = false, nb::arg("page_size") = 0,
             nb::arg("bytes_per_row") = 0.0, nb::arg("batch_size") = 0, nb::arg("drop_remainder") = false,
             nb::arg("grouped") = false, nb::arg("parallel_reads") = 1, nb::arg("deterministic") = true,
             nb::arg("owners") = nb::bytes(""), nb::arg("connect_timeout") = 5.0,
             nb::arg("request_timeout") = 30.0, nb::arg("value_type") = nb::none(),
             nb::arg("security") = nb::bytes("", 0), nb::arg("sql") = nb::none(),
             "The description of a pass that the dataset op and Scan take.");
  module.def("discover", &PythonDiscover, nb::arg("host"), nb::arg("port"), nb::arg("cache"), nb::kw_only(),
             nb::arg("local") = false, nb::arg("type") = "", nb::arg("everywhere") = false,
             nb::arg("connect_timeout") = 5.0, nb::arg("request_timeout") = 30.0,
             nb::arg("security") = nb::bytes("", 0), nb::arg("env") = true,
             "What the server knows about the types in a cache, and what a sample of its rows looks like.");
  module.def("decode_rows", &DecodeRows, nb::arg("rows"), nb::arg("count"), nb::arg("columns"),
             nb::arg("types"), nb::arg("value_type") = nb::none(),
             "Decodes rows as they are on the wire; `types` = type id -> response of operation 3002.");
  module.def("describe_rows", &DescribeRows, nb::arg("rows"), nb::arg("count"), nb::arg("types"),
             "What discovery sees in rows as they are on the wire: (key, value, objects by type id).");
  module.def("reader_report", &ReaderReport, "What this module's scans have read, as JSON.");
  nb::class_<PythonScan>(module, "Scan", "One pass over a cache, as NumPy columns.")
      .def(nb::init<const nb::bytes&>(), nb::arg("config"))
      .def("next", &PythonScan::Next, "The columns of the next batch; None after the last one.")
      .def("count", &PythonScan::Count, "Runs the pass to its end; returns how many rows were left of it.")
      .def("close", &PythonScan::Close, "Drops the pass: closes its cursor and returns its connection.");
}

}  // namespace ignite_strategy
