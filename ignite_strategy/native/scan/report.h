// What this process has read, per pass and partition: who asked, where the rows came from, how many.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_REPORT_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_REPORT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace ignite_strategy {

// The counters of one partition in one pass. Counted by the pass, read by whoever asks for a report.
struct PartitionReport {
  enum State : int { kWaiting = 0, kReading = 1, kDone = 2, kFailed = 3, kDropped = 4 };

  std::int64_t pass = 0;
  std::string cache;
  std::int32_t partition = -1;         // -1 = the whole cache by one query
  std::atomic<std::int64_t> rows{0};   // handed out
  std::atomic<std::int64_t> bytes{0};  // of the pages they came in
  std::atomic<int> state{kWaiting};

  // The node that answered, known once the partition is being read.
  void SetSource(const std::string& node_id, const std::string& endpoint);
  std::string node_id() const;
  std::string endpoint() const;
  std::string ToJson() const;

 private:
  mutable std::mutex mutex_;
  std::string node_id_;
  std::string endpoint_;
};

// A number for a new pass of this process: 1, 2, ...
std::int64_t NewPass();
// Registers the counters of one partition; the report keeps the latest 64 of them, and sums of the older
// ones.
std::shared_ptr<PartitionReport> NewPartitionReport(std::int64_t pass, const std::string& cache,
                                                    std::int32_t partition);
// A JSON array with an object per partition and pass, oldest first. Older passes are summed up per cache,
// partition and node, in objects with "pass": 0, so that the report stays small however long the process
// trains.
std::string ReaderReport();

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_REPORT_H_
