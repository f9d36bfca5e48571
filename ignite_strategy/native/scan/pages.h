// The I/O side of a pass: a thread that fetches pages into a bounded queue.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_PAGES_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_PAGES_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "native/scan/config.h"
#include "native/scan/cursor.h"
#include "native/scan/report.h"
#include "native/wire/pool.h"

namespace ignite_strategy {

// Pages waiting to be decoded, at most; with the one in the socket buffer this bounds a pass's memory.
constexpr std::size_t kQueuedPages = 2;
// What a page aims at when its size is not given, and how many rows it has at the most.
constexpr double kPageBytes = 2 << 20;
constexpr std::int32_t kMaxPageRows = 16384;

// The rows that are worth about kPageBytes.
std::int32_t PageRows(double bytes_per_row);

struct Page : PageData {
  std::shared_ptr<PartitionReport> report;
};

class Pages : public std::enable_shared_from_this<Pages> {
 public:
  enum class Outcome { kPage, kWait, kEnd };

  explicit Pages(const ScanConfig& config) : config_(config), pass_(NewPass()) {}
  // Starts the thread, which keeps this alive until it has cleaned up.
  void Start();
  // The next page, waiting up to `limit`; after the last one kEnd, or the error that ended the pass thrown.
  Outcome Pop(Millis limit, const std::function<void()>& check, std::shared_ptr<const Page>* page);
  // Nobody wants more: the thread closes its cursor and returns its connection, in the background.
  void Cancel();
  // The partition that the error which ended the pass happened in; null if there is none.
  std::shared_ptr<PartitionReport> failed() const;
  // The node that answers, once known; the first one of the list before that.
  Endpoint endpoint() const;

 private:
  void Run();
  void ReadPartition(std::int32_t partition);
  void ReadPages(Cursor& cursor, const std::shared_ptr<PartitionReport>& report);
  // Takes a connection to the current endpoint.
  void Connect(bool fresh);
  // Sets how many rows the next query's pages have, measuring the rows first if nothing is known about them.
  std::int32_t ChoosePageRows(const Query& query);
  void Fail(const std::shared_ptr<PartitionReport>& report, const Error& error);
  bool Push(std::shared_ptr<const Page> page);
  void End(std::optional<Error> error);
  Wait NewWait() const;

  const ScanConfig config_;
  const std::int64_t pass_;
  const std::shared_ptr<Cancellation> cancellation_ = std::make_shared<Cancellation>();

  // The thread's own.
  Lease lease_;
  std::size_t endpoint_index_ = 0;
  std::int64_t rows_seen_ = 0;
  std::int64_t bytes_seen_ = 0;
  bool rows_pushed_ = false;  // of the current partition

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<const Page>> queue_;
  bool ended_ = false;
  std::optional<Error> error_;
  std::shared_ptr<PartitionReport> failed_;
  std::size_t shared_endpoint_index_ = 0;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_PAGES_H_
