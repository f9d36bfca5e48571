#include "native/scan/sample.h"

#include <algorithm>
#include <map>
#include <optional>

#include "native/scan/cursor.h"
#include "native/scan/fetcher.h"
#include "native/scan/watch.h"
#include "native/wire/pool.h"

namespace ignite_strategy {
namespace {

constexpr std::int16_t kResourceClose = 0, kQueryScan = 2000;
// The first look takes few rows, because a row may have megabytes; later ones what fits into kLookBytes.
constexpr std::int32_t kFirstRows = 4, kMaxRows = 256;
constexpr std::int64_t kLookBytes = 256 << 10;
// All looks together: more rows per look where there are few partitions.
constexpr std::int64_t kSampleBytes = 4 << 20;
// Rows of megabytes would make the sample as large as the cache: after so many bytes it is enough.
constexpr std::int64_t kEnoughBytes = 64 << 20;
// Looks on their way at a time, and what their answers may have together. They are queries of their own: it
// is on one cursor that there must never be two requests.
constexpr std::int64_t kMostLooks = 32, kBytesOnTheWay = 8 << 20;

// Looks into partitions, several at a time over one connection.
class Looks {
 public:
  // `count`: of the looks there will be at all nodes together.
  Looks(Connection* connection, std::size_t count, Describer* describer, Sample* sample)
      : connection_(*connection), count_(count), describer_(*describer), sample_(*sample) {}

  void At(const std::string& cache, bool local, const std::vector<std::int32_t>& partitions,
          const Wait& wait) {
    std::size_t next = 0;
    while (next < partitions.size() || !queries_.empty()) {
      if (next < partitions.size() && static_cast<std::int64_t>(queries_.size()) < Window()) {
        if (sample_.bytes >= kEnoughBytes) {
          next = partitions.size();
          continue;
        }
        Ask({cache, partitions[next++], local, Rows()}, wait);
      } else {
        Take(wait);
      }
    }
    while (connection_.outstanding() > 0) connection_.Receive(wait);  // answers to closed cursors
  }

 private:
  std::int64_t RowBytes() const { return std::max<std::int64_t>(sample_.bytes / sample_.rows, 1); }

  // Until it is known how large rows are, one look.
  std::int64_t Window() const {
    if (sample_.rows == 0) return queries_.empty() ? 1 : asked_ > 1 ? kMostLooks : 0;
    return std::clamp<std::int64_t>(kBytesOnTheWay / (RowBytes() * rows_), 1, kMostLooks);
  }

  std::int32_t Rows() {
    if (sample_.rows == 0) return kFirstRows;
    const std::int64_t budget = std::min(kLookBytes, kSampleBytes / static_cast<std::int64_t>(count_));
    rows_ = static_cast<std::int32_t>(std::clamp<std::int64_t>(budget / RowBytes(), 1, kMaxRows));
    return rows_;
  }

  void Ask(const Query& query, const Wait& wait) {
    Writer request = CachePrefix(query.cache);
    request.PutNull().Put(query.page_rows).Put(query.partition).PutBool(query.local);
    queries_.emplace(connection_.Send(kQueryScan, request, wait), query);
    ++asked_;
  }

  void Take(const Wait& wait) {
    const Response response = connection_.Receive(wait);
    const auto found = queries_.find(response.request_id);
    if (found == queries_.end()) return;  // a cursor was closed
    const std::string doing = found->second.Describe();
    queries_.erase(found);
    if (response.status != 0) throw connection_.ServerError(response, doing);
    try {
      Reader reader = response.payload();
      const auto cursor = reader.Get<std::int64_t>();
      const std::size_t rows = reader.Count(2);
      for (std::size_t i = 0; i < rows; ++i) describer_.AddRow(reader);
      if (reader.GetBool()) connection_.Send(kResourceClose, Writer().Put(cursor), wait);
      sample_.rows += static_cast<std::int64_t>(rows);
      sample_.bytes += static_cast<std::int64_t>(response.frame.size());
    } catch (const Error& error) {
      throw Error(error.code(), connection_.endpoint().ToString() + ": " + doing + ": " + error.message(),
                  error.server_status());
    }
  }

  Connection& connection_;
  const std::size_t count_;
  Describer& describer_;
  Sample& sample_;
  std::map<std::int64_t, Query> queries_;  // by the ids of their requests
  std::int32_t rows_ = kFirstRows;
  std::int64_t asked_ = 0;
};

}  // namespace

Sample TakeSample(const Endpoint& endpoint, const Timeouts& timeouts, const std::string& cache,
                  const std::vector<LooksAt>& looks, const Wait& wait) {
  Sample sample;
  TypeCache types([&](std::int32_t type_id) { return FetchType(endpoint, timeouts, type_id, wait); });
  Describer describer(&types);
  ScanConfig config;
  config.endpoints = {endpoint};
  config.timeouts = timeouts;
  std::size_t count = 0;
  for (const LooksAt& each : looks) count += each.partitions.size();
  for (const LooksAt& each : looks) {
    Lease lease = Pool::Process().Acquire(endpoint, timeouts, wait);
    bool direct = !each.node || (lease->node_id() && lease->node_id()->ToString() == each.node->id);
    if (!direct) {
      if (Lease other = DirectConnection(config, *each.node, false, wait)) {
        lease = std::move(other);
        direct = true;
      }
    }
    try {
      Looks(&*lease, count, &describer, &sample).At(cache, each.local && direct, each.partitions, wait);
    } catch (...) {
      lease.Discard();  // answers may be on their way
      throw;
    }
  }
  sample.key = std::move(describer.key);
  sample.val = std::move(describer.val);
  sample.objects = std::move(describer.objects);
  return sample;
}

}  // namespace ignite_strategy
