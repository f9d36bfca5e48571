// One pass over some partitions of a cache.
//
// A thread of its own does the I/O: it connects through the process's pool, runs one partition query after
// another (or one query for the whole cache) and asks for the next page before it hands over the page at
// hand. There is never more than one request outstanding on a cursor: the server would answer two
// concurrently and lose rows. Rows are decoded by whoever consumes them.
#ifndef IGNITE_STRATEGY_NATIVE_SCAN_SCAN_H_
#define IGNITE_STRATEGY_NATIVE_SCAN_SCAN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "native/binary/columns.h"
#include "native/binary/values.h"
#include "native/scan/config.h"
#include "native/scan/pages.h"
#include "native/wire/wait.h"

namespace ignite_strategy {

struct Batch {
  std::int64_t rows = 0;
  std::vector<Column> columns;
  std::vector<std::shared_ptr<const Page>> pages;   // own the bytes of string columns
  std::vector<std::shared_ptr<const Arena>> texts;  // and these those that are in no page
};

// Used by one consumer at a time. Destroying it ends the I/O thread in the background: cursor closed,
// connection back in the pool.
class Scan {
 public:
  enum class State { kWait, kReady, kEnd };

  // Starts the thread; returns at once. `config` must have its environment applied.
  explicit Scan(ScanConfig config);
  ~Scan();
  Scan(const Scan&) = delete;
  Scan& operator=(const Scan&) = delete;

  // Waits up to `limit` for a whole batch (or the last one). Throws the pass's error, again on every later
  // call. `check` may throw to end the wait.
  State Prepare(Millis limit, const std::function<void()>& check = {});
  // The batch; only after Prepare returned kReady. `lend`: columns may lie in its pages, see Column::lent.
  Batch Take(bool lend = false);
  const ScanConfig& config() const { return config_; }
  std::int64_t rows_delivered() const { return rows_delivered_; }

 private:
  struct Decoding;
  // Rows of one page that are in the batch at hand.
  struct Count {
    std::shared_ptr<PartitionReport> report;
    std::int64_t rows = 0;
    bool done = false;
  };

  State Fill(Clock::time_point deadline, const std::function<void()>& check);
  bool DecodeRows();
  void OpenPage(std::shared_ptr<const Page> page);
  void ClosePage();
  void StartBatch();
  // How many rows are handed over together, from the bytes of this page's.
  void SetBatchRows();
  // Those of a group that are complete.
  std::int64_t WholeBatches() const;
  // Has large arrays that the batch lends aligned in the pages to come.
  void Align(const Batch& batch) const;
  // Begins the next batch with what `batch` left over; returns its count.
  Count KeepRest(BatchBuilder rest, const Batch& batch);
  Error Delivered(const Error& error) const;

  const ScanConfig config_;
  const int process_;
  std::shared_ptr<Pages> pages_;  // shared with the thread
  std::unique_ptr<Decoding> decoding_;
  std::optional<Error> error_;
  std::optional<Error> error_behind_;  // of a row after the batch that is ready
  bool ready_ = false;
  bool ended_ = false;
  std::int64_t rows_delivered_ = 0;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_SCAN_SCAN_H_
