// Bulk writing: rows become batches for CACHE_PUT_ALL, which several connections send, each with some
// unanswered at a time.
#ifndef IGNITE_STRATEGY_NATIVE_BULK_BULK_WRITER_H_
#define IGNITE_STRATEGY_NATIVE_BULK_BULK_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "native/binary/encoder.h"
#include "native/wire/connection.h"

namespace ignite_strategy {

struct BulkConfig {
  std::string cache;
  std::vector<Endpoint> endpoints;
  int connections = 2;  // per node
  int in_flight = 2;    // unanswered batches per connection
  std::int64_t batch_rows = 2048;
  std::int64_t batch_bytes = 1 << 20;
  bool partition_aware = true;  // send rows to their primary where several nodes are connected
  Timeouts timeouts;
};

using RowRange = std::pair<std::int64_t, std::int64_t>;  // first, one past the last

// What became of the rows. Those from `taken` on were never handed to the writer.
struct BulkReport {
  std::int64_t taken = 0;
  std::int64_t acknowledged = 0;
  std::vector<RowRange> unknown;  // sent and not answered, or answered with an error
  std::vector<RowRange> unsent;
  int nodes = 0;
  int connections = 0;
  bool partition_aware = false;
};

// Used by one thread at a time. Memory: `connections` * (`in_flight` + 2) batches for each node.
class BulkWriter {
 public:
  // Connects. Errors: kUnavailable and the like if no endpoint answers, kInvalidArgument.
  BulkWriter(const BulkConfig& config, const Wait& wait);
  // Ends the threads; what was not acknowledged by then is unknown.
  ~BulkWriter();
  BulkWriter(const BulkWriter&) = delete;
  BulkWriter& operator=(const BulkWriter&) = delete;

  // Takes rows, waiting while enough batches are on their way. Throws the error that ended the writing, or an
  // Error(kInvalidArgument) that names row and column; `check` may throw to end the wait.
  void Add(const ValueColumn& key, const ValueColumn& value, std::int64_t rows,
           const std::function<void()>& check);
  // Sends what is left and waits until all of it is acknowledged. Throws the error that ended the writing.
  void Finish(const std::function<void()>& check);
  // Sends nothing more and waits for answers that are outstanding, at most `limit`.
  void Stop(Millis limit) noexcept;
  BulkReport Report() const;
  std::int64_t acknowledged() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_BULK_BULK_WRITER_H_
