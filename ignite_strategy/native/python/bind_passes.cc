// What Python asks before a pass: who owns the partitions, what columns a statement has, how many rows there
// are.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "native/binary/types.h"
#include "native/python/bindings.h"
#include "native/scan/cursor.h"
#include "native/scan/losses.h"
#include "native/wire/pool.h"

namespace nb = nanobind;

namespace ignite_strategy {
namespace {

constexpr std::int16_t kCacheGetSize = 1020;
constexpr std::uint8_t kPrimaryRows = 2;  // CachePeekMode.PRIMARY
constexpr std::int32_t kSampledRows = 256;
constexpr Millis kCloseLimit{5000};

Timeouts Limits(double connect_timeout, double request_timeout) {
  return {Seconds(connect_timeout, "connect_timeout"), Seconds(request_timeout, "request_timeout")};
}

// Who owns the partitions now, for Scan configurations: see losses.h.
nb::bytes PythonOwners(const std::string& host, std::uint16_t port, const std::string& cache,
                       double connect_timeout, double request_timeout, const nb::bytes& security, bool env) {
  const Timeouts timeouts{Seconds(connect_timeout, "connect_timeout"),
                          Seconds(request_timeout, "request_timeout")};
  const Endpoint endpoint{host, port, ResolveSecurity(security, env ? kDatasetPrefixes : kNoPrefixes)};
  std::string owners;
  {
    const Wait wait = PythonWait();
    const WithoutPython unlocked;
    const Lease lease = Pool::Process().Acquire(endpoint, timeouts, wait);
    const CacheTopology topology = TakeTopology(*lease, cache, wait);
    owners = Remember(topology, ObserveOwners(*lease, cache, topology, "", wait).lost, endpoint);
  }
  return nb::bytes(owners.data(), owners.size());
}

// Rows of a cache, as the server counts them.
std::int64_t CacheSize(const std::string& host, std::uint16_t port, const std::string& cache,
                       double connect_timeout, double request_timeout, const nb::bytes& security, bool env) {
  const Timeouts timeouts = Limits(connect_timeout, request_timeout);
  const Endpoint endpoint{host, port, ResolveSecurity(security, env ? kDatasetPrefixes : kNoPrefixes)};
  const Wait wait = PythonWait();
  const WithoutPython unlocked;
  const Lease lease = Pool::Process().Acquire(endpoint, timeouts, wait);
  Writer request = CachePrefix(cache);
  request.Put<std::int32_t>(1).Put(kPrimaryRows);
  const Response response =
      lease->Call(kCacheGetSize, request, "counting the rows of cache '" + cache + "'", wait);
  return response.payload().Get<std::int64_t>();
}

struct SqlSample {
  std::vector<std::tuple<std::string, std::set<std::uint8_t>, std::int64_t>> columns;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
};

SqlSample Look(Connection& connection, const Query& query, const Wait& wait, bool* usable) {
  Cursor cursor(&connection, query, wait);
  const PageData page = cursor.Receive(wait);
  *usable = cursor.Close(kCloseLimit);
  SqlSample sample;
  Reader names(page.frame.data() + page.names_offset, page.frame.size() - page.names_offset);
  sample.columns.resize(names.Count(5));  // a type code and a length each
  for (auto& column : sample.columns) std::get<0>(column) = names.TypedString().value_or(std::string());
  Reader rows = page.Rows();
  for (std::int32_t row = 0; row < page.rows; ++row) {
    for (auto& column : sample.columns) {
      if (rows.left() == 0) throw Error(Code::kDataLoss, "a page ends within a row");
      const std::uint8_t type_code = *rows.at();
      if (type_code == code::kNull) {
        ++std::get<2>(column);
      } else {
        std::get<1>(column).insert(Family(type_code));
      }
      SkipValue(rows);
    }
  }
  sample.rows = page.rows;
  sample.bytes = static_cast<std::int64_t>(page.frame.size());
  return sample;
}

// The columns of a statement: (name, type codes met, NULLs met) each; the rows looked at and their bytes.
nb::tuple SqlColumns(const std::string& host, std::uint16_t port, const std::string& schema,
                     const std::string& text, std::int32_t argument_count, const nb::bytes& arguments,
                     double connect_timeout, double request_timeout, const nb::bytes& security, bool env) {
  const Timeouts timeouts = Limits(connect_timeout, request_timeout);
  const Endpoint endpoint{host, port, ResolveSecurity(security, env ? kDatasetPrefixes : kNoPrefixes)};
  const SqlQuery sql{schema, text, argument_count, std::string(arguments.c_str(), arguments.size()),
                     {},     true};
  SqlSample sample;
  {
    const Wait wait = PythonWait();
    const WithoutPython unlocked;
    Lease lease = Pool::Process().Acquire(endpoint, timeouts, wait);
    Query query;
    query.page_rows = kSampledRows;
    query.sql = &sql;
    bool usable = true;
    sample = Look(*lease, query, wait, &usable);
    if (!usable) lease.Discard();
  }
  return nb::make_tuple(sample.columns, sample.rows, sample.bytes);
}

}  // namespace

void BindPasses(nb::module_& module) {
  module.def("owners", &PythonOwners, nb::arg("host"), nb::arg("port"), nb::arg("cache"), nb::kw_only(),
             nb::arg("connect_timeout") = 5.0, nb::arg("request_timeout") = 30.0,
             nb::arg("security") = nb::bytes("", 0), nb::arg("env") = true,
             "The partitions' owners as scan_config takes them; compared with those that were seen before.");
  module.def("forget_owners", &ForgetOwners, nb::arg("cache"),
             "What is in the cache now counts as whole, whatever was lost.");
  module.def("cache_size", &CacheSize, nb::arg("host"), nb::arg("port"), nb::arg("cache"), nb::kw_only(),
             nb::arg("connect_timeout") = 5.0, nb::arg("request_timeout") = 30.0,
             nb::arg("security") = nb::bytes("", 0), nb::arg("env") = true, "How many rows a cache has.");
  module.def("sql_columns", &SqlColumns, nb::arg("host"), nb::arg("port"), nb::arg("schema"), nb::arg("text"),
             nb::arg("argument_count"), nb::arg("arguments"), nb::kw_only(), nb::arg("connect_timeout") = 5.0,
             nb::arg("request_timeout") = 30.0, nb::arg("security") = nb::bytes("", 0), nb::arg("env") = true,
             "The columns of a statement and the type codes that a first page has in them; rows; bytes.");
}

}  // namespace ignite_strategy
