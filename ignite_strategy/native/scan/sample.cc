#include "native/scan/sample.h"

#include <algorithm>

#include "native/scan/cursor.h"
#include "native/scan/fetcher.h"
#include "native/wire/pool.h"

namespace ignite_strategy {
namespace {

// The first look takes few rows, because a row may have megabytes; later ones what fits into kLookBytes.
constexpr std::int32_t kFirstRows = 4, kMaxRows = 256;
constexpr std::int64_t kLookBytes = 256 << 10;
// All looks together: more rows per look where there are few partitions.
constexpr std::int64_t kSampleBytes = 4 << 20;
constexpr Millis kCloseLimit{5000};

class Look {
 public:
  Look(Lease* lease, Describer* describer, Sample* sample)
      : lease_(*lease), describer_(*describer), sample_(*sample) {}

  void At(const Query& query, const Wait& wait) {
    Cursor cursor(&*lease_, query, wait);
    const PageData page = cursor.Receive(wait);
    if (!cursor.Close(kCloseLimit)) lease_.Discard();
    Reader rows = page.Rows();
    for (std::int32_t i = 0; i < page.rows; ++i) {
      try {
        describer_.AddRow(rows);
      } catch (const Error& error) {
        throw Error(error.code(), query.Describe() + ": " + error.message());
      }
    }
    sample_.rows += page.rows;
    sample_.bytes += static_cast<std::int64_t>(page.frame.size());
  }

 private:
  Lease& lease_;
  Describer& describer_;
  Sample& sample_;
};

}  // namespace

Sample TakeSample(const Endpoint& endpoint, const Timeouts& timeouts, const std::string& cache, bool local,
                  const std::vector<std::int32_t>& partitions, const Wait& wait) {
  Sample sample;
  TypeCache types([&](std::int32_t type_id) { return FetchType(endpoint, timeouts, type_id, wait); });
  Describer describer(&types);
  std::int32_t rows = kFirstRows;
  for (const std::int32_t partition : partitions) {
    Lease lease = Pool::Process().Acquire(endpoint, timeouts, wait);
    Look(&lease, &describer, &sample).At({cache, partition, local, rows}, wait);
    if (sample.rows > 0) {
      const auto looks = static_cast<std::int64_t>(partitions.size());
      const std::int64_t budget = std::min(kLookBytes, kSampleBytes / looks);
      const std::int64_t fits = budget / std::max<std::int64_t>(sample.bytes / sample.rows, 1);
      rows = static_cast<std::int32_t>(std::clamp<std::int64_t>(fits, 1, kMaxRows));
    }
  }
  sample.key = std::move(describer.key);
  sample.val = std::move(describer.val);
  sample.objects = std::move(describer.objects);
  return sample;
}

}  // namespace ignite_strategy
