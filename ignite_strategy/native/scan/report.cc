#include "native/scan/report.h"

#include <cstdio>
#include <deque>
#include <map>
#include <tuple>

namespace ignite_strategy {
namespace {

constexpr std::size_t kMaxReports = 64;
// Sums are kept apart per partition until there are this many; then per cache and node only.
constexpr std::size_t kMaxSums = 256;

std::string Quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string OrNull(const std::string& text) { return text.empty() ? "null" : Quote(text); }

const char* StateName(int state) {
  switch (state) {
    case PartitionReport::kWaiting:
      return "waiting";
    case PartitionReport::kReading:
      return "reading";
    case PartitionReport::kDone:
      return "done";
    case PartitionReport::kFailed:
      return "failed";
    default:
      return "dropped";
  }
}

struct Source {
  std::string cache;
  std::int32_t partition;
  std::string node_id;
  std::string endpoint;
  bool operator<(const Source& other) const {
    return std::tie(cache, partition, node_id, endpoint) <
           std::tie(other.cache, other.partition, other.node_id, other.endpoint);
  }
};

std::string Json(std::int64_t pass, const Source& source, std::int64_t rows, std::int64_t bytes,
                 const char* state) {
  return "{\"pass\": " + std::to_string(pass) + ", \"cache\": " + Quote(source.cache) +
         ", \"partition\": " + std::to_string(source.partition) + ", \"node_id\": " + OrNull(source.node_id) +
         ", \"endpoint\": " + OrNull(source.endpoint) + ", \"rows\": " + std::to_string(rows) +
         ", \"bytes\": " + std::to_string(bytes) + ", \"state\": \"" + state + "\"}";
}

struct Sums {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
};

struct Registry {
  std::mutex mutex;
  std::int64_t passes = 0;
  std::deque<std::shared_ptr<PartitionReport>> reports;
  std::map<Source, Sums> older;
};

// Never destroyed: a pass may still end while the process exits.
Registry& Reports() {
  static auto* registry = new Registry;
  return *registry;
}

void Fold(Registry& registry, const PartitionReport& report) {
  Source source{report.cache, report.partition, report.node_id(), report.endpoint()};
  if (registry.older.size() >= kMaxSums && registry.older.count(source) == 0) source.partition = -1;
  Sums& sums = registry.older[source];
  sums.rows += report.rows.load();
  sums.bytes += report.bytes.load();
}

}  // namespace

void PartitionReport::SetSource(const std::string& node_id, const std::string& endpoint) {
  const std::lock_guard<std::mutex> lock(mutex_);
  node_id_ = node_id;
  endpoint_ = endpoint;
}

std::string PartitionReport::node_id() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return node_id_;
}

std::string PartitionReport::endpoint() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return endpoint_;
}

std::string PartitionReport::ToJson() const {
  return Json(pass, {cache, partition, node_id(), endpoint()}, rows.load(), bytes.load(),
              StateName(state.load()));
}

std::int64_t NewPass() {
  Registry& registry = Reports();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  return ++registry.passes;
}

std::shared_ptr<PartitionReport> NewPartitionReport(std::int64_t pass, const std::string& cache,
                                                    std::int32_t partition) {
  auto report = std::make_shared<PartitionReport>();
  report->pass = pass;
  report->cache = cache;
  report->partition = partition;
  Registry& registry = Reports();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.reports.push_back(report);
  if (registry.reports.size() > kMaxReports) {
    Fold(registry, *registry.reports.front());
    registry.reports.pop_front();
  }
  return report;
}

std::string ReaderReport() {
  Registry& registry = Reports();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::string json;
  for (const auto& [source, sums] : registry.older) {
    json += (json.empty() ? "" : ", ") + Json(0, source, sums.rows, sums.bytes, "summed");
  }
  for (const auto& report : registry.reports) json += (json.empty() ? "" : ", ") + report->ToJson();
  return "[" + json + "]";
}

}  // namespace ignite_strategy
