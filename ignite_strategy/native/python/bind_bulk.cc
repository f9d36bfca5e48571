// Bulk writing for Python: columns of NumPy memory and lists of strings.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "native/binary/encoder.h"
#include "native/binary/values.h"
#include "native/bulk/affinity.h"
#include "native/bulk/bulk_writer.h"
#include "native/python/bindings.h"

namespace nb = nanobind;

namespace ignite_strategy {
namespace {

using PythonEndpoints = std::vector<std::pair<std::string, std::uint16_t>>;

constexpr int kMaxDepth = 32;
constexpr std::size_t kFields = 10;

// A value that cannot be written: which row it belongs to is known only further out, where the splits are.
struct BadItem {
  std::string column;
  std::int64_t item;
  std::string what;
};

// Python memory that must stay where it is while it is written, and what was made from it.
class Held {
 public:
  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  // The bytes of a contiguous array; null for None.
  const std::uint8_t* Bytes(nb::handle object, std::size_t* size) {
    *size = 0;
    if (object.is_none()) return nullptr;
    const PythonMemory& buffer = buffers_.emplace_back(object, PyBUF_SIMPLE);
    *size = buffer.size();
    static constexpr std::uint8_t kNothing[8] = {};
    return buffer.size() == 0 ? kNothing : reinterpret_cast<const std::uint8_t*>(buffer.data());
  }

  // Views of str and bytes; None is NULL, for which a mask is made if there is none. `utf8`: they must be
  // text.
  const std::string_view* Texts(nb::handle list, std::size_t count, const std::string& name, bool utf8,
                                const std::uint8_t** valid) {
    std::vector<std::uint8_t>* mask = nullptr;
    auto& views = texts_.emplace_back(std::make_unique<std::vector<std::string_view>>(count + 1));
    PyObject** items = PySequence_Fast_ITEMS(list.ptr());
    for (std::size_t i = 0; i < count; ++i) {
      PyObject* item = items[i];
      std::string_view& view = (*views)[i];
      if (PyUnicode_Check(item)) {
        Py_ssize_t size = 0;
        const char* text = PyUnicode_AsUTF8AndSize(item, &size);
        if (text == nullptr) {
          PyErr_Clear();
          throw NotText(name, i);
        }
        view = std::string_view(text, static_cast<std::size_t>(size));
      } else if (PyBytes_Check(item)) {
        view = std::string_view(PyBytes_AS_STRING(item), static_cast<std::size_t>(PyBytes_GET_SIZE(item)));
        if (utf8 && !IsUtf8(view)) throw NotText(name, i);
      } else if (item == Py_None) {
        if (*valid == nullptr) {
          mask = masks_.emplace_back(std::make_unique<std::vector<std::uint8_t>>(count, 1)).get();
          *valid = mask->data();
        }
        if (mask != nullptr) (*mask)[i] = 0;
        if ((*valid)[i] != 0) throw Error(Code::kInvalidArgument, "column " + name + ": None is not masked");
      } else {
        throw BadItem{name, static_cast<std::int64_t>(i),
                      std::string("a string expected, found ") + Py_TYPE(item)->tp_name};
      }
    }
    return views->data();
  }

 private:
  static BadItem NotText(const std::string& name, std::size_t item) {
    return {name, static_cast<std::int64_t>(item),
            "it is not UTF-8 text; write bytes as a byte array: types={'" + name + "': 'byte[]'}"};
  }

  std::deque<PythonMemory> buffers_;
  std::deque<std::unique_ptr<std::vector<std::string_view>>> texts_;
  std::deque<std::unique_ptr<std::vector<std::uint8_t>>> masks_;
};

Error Bad(const std::string& name, const std::string& what) {
  return Error(Code::kInvalidArgument, "column " + name + ": " + what);
}

void CheckSplits(const ValueColumn& column, std::size_t splits, std::int64_t rows) {
  if (splits / sizeof(std::int64_t) < static_cast<std::size_t>(rows) + 1) {
    throw Bad(column.name, "too few row splits");
  }
  if (column.splits[0] < 0) throw Bad(column.name, "negative row splits");
  for (std::int64_t i = 0; i < rows; ++i) {
    if (column.splits[i + 1] < column.splits[i]) throw Bad(column.name, "row splits that go backwards");
  }
}

// The row that an item belongs to.
std::int64_t RowOf(const ValueColumn& column, std::int64_t rows, std::int64_t item) {
  if (column.splits == nullptr) return column.length > 0 ? item / column.length : 0;
  return std::upper_bound(column.splits, column.splits + rows + 1, item) - column.splits - 1;
}

// (name, type code, items or list of strings, splits, length, valid, parts, (type name, field names, compact)
// of an object, enum type name, kind)
ValueColumn ToColumn(nb::handle python, std::int64_t rows, Held& held, int depth) {
  const nb::tuple fields = nb::cast<nb::tuple>(python);
  if (fields.size() != kFields) throw Error(Code::kInvalidArgument, "a malformed description of a column");
  ValueColumn column;
  column.name = nb::cast<std::string>(fields[0]);
  if (depth > kMaxDepth) {
    throw Bad(column.name, "nested deeper than " + std::to_string(kMaxDepth) + " levels");
  }
  column.type_code = nb::cast<std::uint8_t>(fields[1]);
  const TypeInfo* type = FindType(column.type_code);
  if (type == nullptr) throw Bad(column.name, "unknown type code " + std::to_string(column.type_code));
  column.length = nb::cast<std::int64_t>(fields[4]);
  column.kind = nb::cast<std::uint8_t>(fields[9]);
  std::size_t size = 0;
  column.splits = reinterpret_cast<const std::int64_t*>(held.Bytes(fields[3], &size));
  if (column.splits != nullptr) CheckSplits(column, size, rows);
  if (column.length < 0 || column.length > (std::int64_t{1} << 31)) throw Bad(column.name, "a bad length");
  column.valid = held.Bytes(fields[5], &size);
  if (column.valid != nullptr && size < static_cast<std::size_t>(rows)) {
    throw Bad(column.name, "too short a mask of NULLs");
  }
  const std::int64_t items = column.splits != nullptr ? column.splits[rows] : rows * column.length;
  if (!fields[7].is_none()) {
    const nb::tuple object = nb::cast<nb::tuple>(fields[7]);
    column.object = std::make_shared<ObjectType>(nb::cast<std::string>(object[0]),
                                                 nb::cast<std::vector<std::string>>(object[1]),
                                                 nb::cast<bool>(object[2]));
  }
  if (!fields[8].is_none()) column.enum_id = JavaLowerHash(nb::cast<std::string>(fields[8]));
  const nb::handle data = fields[2];
  if (PyList_Check(data.ptr())) {
    if (type->layout == Layout::kEnum || (type->item != 0 && type->layout == Layout::kPacked)) {
      throw Bad(column.name, "strings for " + WithArticle(column.type_code));
    }
    const auto count = static_cast<std::size_t>(PyList_GET_SIZE(data.ptr()));
    if (count < static_cast<std::size_t>(items) || (column.valid != nullptr && size < count)) {
      throw Bad(column.name, "too few strings");
    }
    column.texts = held.Texts(data, count, column.name, column.type_code == code::kString, &column.valid);
  } else if (!data.is_none()) {
    const bool pairs = column.type_code == code::kTimestamp && column.kind == 2;
    column.item_size = pairs ? kTimestampPair : ItemSize(type->dtype);
    column.items = held.Bytes(data, &size);
    if (column.item_size == 0) throw Bad(column.name, "numbers for " + WithArticle(column.type_code));
    if (size / column.item_size < static_cast<std::size_t>(items)) throw Bad(column.name, "too few items");
  }
  const bool nested = column.object != nullptr;
  for (nb::handle part : nb::cast<nb::list>(fields[6])) {
    try {
      column.parts.push_back(ToColumn(part, nested ? rows : items, held, depth + 1));
    } catch (BadItem& bad) {
      if (!nested) bad.item = RowOf(column, rows, bad.item);
      throw;
    }
  }
  const std::size_t want = type->layout == Layout::kObject ? (nested ? column.object->field_ids.size() : 0)
                           : type->layout == Layout::kMap  ? 2
                           : type->layout == Layout::kTypedItems || type->layout == Layout::kObjectArray ||
                                   type->layout == Layout::kEnumArray || type->layout == Layout::kCollection
                               ? 1
                               : 0;
  const bool simple = want == 0 && type->layout != Layout::kObject;
  if (column.parts.size() != want || nested != (type->layout == Layout::kObject) ||
      (simple && column.items == nullptr && column.texts == nullptr)) {
    throw Bad(column.name, "no values for " + WithArticle(column.type_code));
  }
  return column;
}

// A column whose first row is the one with the number `first` for whoever reads an error.
ValueColumn ToBlock(nb::handle python, std::int64_t rows, Held& held, std::int64_t first) {
  try {
    return ToColumn(python, rows, held, 0);
  } catch (const BadItem& bad) {
    throw Error(Code::kInvalidArgument,
                "column " + bad.column + ", row " + std::to_string(first + bad.item) + ": " + bad.what);
  }
}

nb::list ToPython(const std::vector<RowRange>& ranges) {
  nb::list list;
  for (const auto& [first, last] : ranges) list.append(nb::make_tuple(first, last));
  return list;
}

class PythonBulkWriter {
 public:
  PythonBulkWriter(const std::string& cache, const PythonEndpoints& endpoints, int connections, int in_flight,
                   std::int64_t batch_rows, std::int64_t batch_bytes, bool partition_aware,
                   double connect_timeout, double request_timeout, const nb::bytes& security) {
    BulkConfig config;
    config.cache = cache;
    const std::shared_ptr<const Security> secured = ResolveSecurity(security, kDatasetPrefixes);
    for (const auto& [host, port] : endpoints) config.endpoints.push_back({host, port, secured});
    config.connections = connections;
    config.in_flight = in_flight;
    config.batch_rows = batch_rows;
    config.batch_bytes = batch_bytes;
    config.partition_aware = partition_aware;
    config.timeouts = {Seconds(connect_timeout, "connect_timeout"),
                       Seconds(request_timeout, "request_timeout")};
    const Wait wait = PythonWait();
    const WithoutPython unlocked;
    writer_ = std::make_unique<BulkWriter>(config, wait);
  }

  void Write(nb::handle key, nb::handle value, std::int64_t rows) {
    if (rows < 0) throw Error(Code::kInvalidArgument, "a negative number of rows");
    Held held;
    const std::int64_t first = Writer().Report().taken;
    const ValueColumn key_column = ToBlock(key, rows, held, first);
    const ValueColumn value_column = ToBlock(value, rows, held, first);
    const Wait wait = PythonWait();
    const WithoutPython unlocked;
    Writer().Add(key_column, value_column, rows, wait.check);
  }

  void Finish() {
    const Wait wait = PythonWait();
    const WithoutPython unlocked;
    Writer().Finish(wait.check);
  }

  void Stop(double limit) {
    const Millis grace = Seconds(limit, "limit");
    const WithoutPython unlocked;
    if (writer_) writer_->Stop(grace);
  }

  void Close() {
    const WithoutPython unlocked;
    writer_.reset();
  }

  nb::dict Report() {
    const BulkReport report = Writer().Report();
    nb::dict dict;
    dict["taken"] = report.taken;
    dict["acknowledged"] = report.acknowledged;
    dict["unknown"] = ToPython(report.unknown);
    dict["unsent"] = ToPython(report.unsent);
    dict["nodes"] = report.nodes;
    dict["connections"] = report.connections;
    dict["partition_aware"] = report.partition_aware;
    return dict;
  }

  std::int64_t acknowledged() { return Writer().acknowledged(); }

 private:
  BulkWriter& Writer() {
    if (!writer_) throw Error(Code::kFailedPrecondition, "this writer is closed");
    return *writer_;
  }

  std::unique_ptr<BulkWriter> writer_;
};

// Rows as the writer sends them: typed keys and values one after another.
nb::bytes EncodeRows(nb::handle key, nb::handle value, std::int64_t rows) {
  if (rows < 0) throw Error(Code::kInvalidArgument, "a negative number of rows");
  Held held;
  const ValueColumn key_column = ToBlock(key, rows, held, 0);
  const ValueColumn value_column = ToBlock(value, rows, held, 0);
  Encoder encoder;
  Writer writer;
  for (std::int64_t row = 0; row < rows; ++row) {
    try {
      encoder.Write(key_column, row, writer);
      encoder.Write(value_column, row, writer);
    } catch (const Error& error) {
      throw Error(error.code(), "row " + std::to_string(row) + ": " + error.message());
    }
  }
  return nb::bytes(reinterpret_cast<const char*>(writer.bytes().data()), writer.size());
}

nb::bytes MetadataRequest(const std::string& name, const std::vector<std::pair<std::string, int>>& fields,
                          const std::vector<std::pair<std::string, int>>& enum_values) {
  const Writer writer = TypeMetadataRequest(name, fields, enum_values);
  return nb::bytes(reinterpret_cast<const char*>(writer.bytes().data()), writer.size());
}

nb::object Partition(const nb::bytes& key, std::int32_t partitions) {
  if (partitions < 1) throw Error(Code::kInvalidArgument, "a cache has at least one partition");
  const auto hash = KeyHash(Reader(reinterpret_cast<const std::uint8_t*>(key.c_str()), key.size()));
  if (!hash) return nb::none();
  return nb::int_(PartitionOf(*hash, partitions));
}

}  // namespace

void BindBulk(nb::module_& module) {
  module.def("encode_rows", &EncodeRows, nb::arg("key"), nb::arg("value"), nb::arg("rows"),
             "The bytes of rows, typed keys and values one after another.");
  module.def("type_metadata_request", &MetadataRequest, nb::arg("name"), nb::arg("fields"),
             nb::arg("enum_values"), "The payload of operation 3003.");
  module.def("partition_of", &Partition, nb::arg("key"), nb::arg("partitions"),
             "The partition of a typed key; None if its type's hash is not known.");
  nb::class_<PythonBulkWriter>(module, "BulkWriter", "Writes rows in batches over several connections.")
      .def(nb::init<const std::string&, const PythonEndpoints&, int, int, std::int64_t, std::int64_t, bool,
                    double, double, const nb::bytes&>(),
           nb::arg("cache"), nb::arg("endpoints"), nb::kw_only(), nb::arg("connections") = 2,
           nb::arg("in_flight") = 2, nb::arg("batch_rows") = 2048, nb::arg("batch_bytes") = 1 << 20,
           nb::arg("partition_aware") = true, nb::arg("connect_timeout") = 5.0,
           nb::arg("request_timeout") = 30.0, nb::arg("security") = nb::bytes("", 0))
      .def("write", &PythonBulkWriter::Write, nb::arg("key"), nb::arg("value"), nb::arg("rows"),
           "Takes a block of rows, waiting while enough of them are on their way.")
      .def("finish", &PythonBulkWriter::Finish, "Waits until all rows are acknowledged.")
      .def("stop", &PythonBulkWriter::Stop, nb::arg("limit"),
           "Sends nothing more; waits for outstanding answers, at most so many seconds.")
      .def("close", &PythonBulkWriter::Close, "Ends the writer's threads.")
      .def("report", &PythonBulkWriter::Report, "What became of the rows.")
      .def_prop_ro("acknowledged", &PythonBulkWriter::acknowledged, "Rows that the server has confirmed.");
}

}  // namespace ignite_strategy
